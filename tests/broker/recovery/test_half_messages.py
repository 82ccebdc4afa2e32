"""A spool in which an earlier release left half a message: a start drops that one and serves the rest."""

from pathlib import Path

import pytest

from sluicegate.storage.environment.databases import PAGE_KEY
from sluicegate.storage.records.journal import JournalEntry, Match
from sluicegate.storage.records.page import Run, directory_row
from sluicegate.storage.store.store import SpoolStore
from support.broker.browser_client import Browser
from support.broker.named_queues import create, shown, shows
from support.broker.running_broker import RunningBroker
from support.storage.half_records import half, page_of_version_1, record_of_version_1
from support.storage.sample_records import batch
from support.storage.spool_file import put_raw
from support.storage.store_work import commit

Q, OTHER = 1, 2  # partition ids, as the two queues are created


@pytest.fixture(autouse=True)
def expect_the_damage(caplog: pytest.LogCaptureFixture) -> None:
    """The node tells of it, as an error."""
    told = ("set aside", "cannot be read")
    caplog.handler.addFilter(lambda record: not any(words in record.getMessage() for words in told))


async def stopped_with_a_message_in_each_queue(broker: RunningBroker) -> Path:
    """Return the data folder."""
    for name in ("q", "other"):
        await create(broker, name, subscriptions=[name])
        await (await broker.connect()).publish(name, b"before")
    await broker.all_vanish()
    await broker.stop()
    folder: Path = broker.config.data.path
    return folder


async def consumed(broker: RunningBroker, name: str, count: int) -> list[bytes]:
    """Browse a queue, and then take what is in it."""
    browser = Browser(broker)
    await browser.bind(queue=name)
    assert len(await browser.sees(count)) == count
    client = await broker.connect(level=5)
    await client.subscribe(f"$queue/{name}", qos=1)
    payloads = await client.payloads(count)
    await client.is_quiet()
    await client.vanish()
    return payloads


async def test_a_half_message_in_the_journal_is_left_out(broker: RunningBroker) -> None:
    """Consumers bind, browsers browse, new messages come, and the next start finds nothing."""
    folder = await stopped_with_a_message_in_each_queue(broker)
    entries = [
        JournalEntry(batch(2, payload=b"others"), [Match(OTHER, 2, None)]),
        JournalEntry(half(3), [Match(Q, 2, None), Match(OTHER, 4, [0, 2])]),
        JournalEntry(batch(2, payload=b"after"), [Match(Q, 5, None)]),
    ]
    store = SpoolStore.open(folder, map_bytes_max=broker.config.spool.map_bytes_max)
    commit(store, record=record_of_version_1(entries))
    store.close()
    await broker.start()

    assert broker.node.services.recovered.damaged_count == 1
    assert (await shown(broker, "q")).ready_count == 5
    assert (await shown(broker, "other")).ready_count == 4
    await broker.crash()
    assert broker.node.services.recovered.damaged_count == 0
    await (await broker.connect()).publish("q", b"new")
    assert await consumed(broker, "q", 6) == [b"before", b"21.5", b"21.5", b"after", b"after", b"new"]
    assert await consumed(broker, "other", 4) == [b"before", b"others", b"others", b"21.5"]


async def test_a_half_message_in_a_page_is_left_out(broker: RunningBroker) -> None:
    """It is counted as damaged when consumers come to it; what is behind it is delivered."""
    folder = await stopped_with_a_message_in_each_queue(broker)
    page = page_of_version_1(2, half(3), Run(5, batch(2, payload=b"after")))
    put_raw(folder, "pages", PAGE_KEY.pack(Q, 2), page)
    put_raw(folder, "directory", PAGE_KEY.pack(Q, 2), directory_row(page))
    await broker.start()

    client = await broker.connect(level=5)
    await client.subscribe("$queue/q", qos=1)
    assert await client.payloads(5) == [b"before", b"21.5", b"21.5", b"after", b"after"]
    await client.is_quiet()
    view = await shows(broker, lambda view: view.discards == {"damaged_discarded": 1})
    assert view.ready_count == 0
    assert await consumed(broker, "other", 1) == [b"before"]
