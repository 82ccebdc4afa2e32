"""A staged transaction with damaged rows: nothing is published, or the rows that are left."""

import logging

import pytest

from sluicegate.actors.messages.spool import WriteTables
from sluicegate.actors.messages.staging import AbortStaged, Stage, StagedCommitted
from sluicegate.messaging.bulk.staging import STAGE_DAMAGED, StagingRefused
from sluicegate.storage.catalog.staging import Decision, decision_row
from sluicegate.storage.records.page import directory_row
from sluicegate.storage.records.seal import SEAL_BYTES
from support.broker.inside_client import InsideClient, batch_on
from support.broker.named_queues import shows
from support.broker.running_broker import RunningBroker
from support.storage.lost_rows import names_in
from support.storage.spool_file import flip_raw, get_raw


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the node tells of the damage, as errors."""
    lines: list[str] = []

    def is_unexpected(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        is_of_damage = "cannot be read" in text
        if is_of_damage:
            lines.append(text)
        return not is_of_damage

    caplog.handler.addFilter(is_unexpected)
    return lines


async def staged_in_two_batches(broker: RunningBroker) -> InsideClient:
    """Return who has staged a page of two batches."""
    orders = InsideClient(broker, "orders")
    await orders.create()
    batches = [batch_on("orders/t", [payload]) for payload in (b"first", b"second")]
    await broker.node.default.staging.ask(Stage("job/7", 0, 0, batches))
    return orders


async def damage(broker: RunningBroker, *, checksum: bool = False) -> None:
    """Restart the node over one byte that has changed in the only page: of its last batch, or of its own checksum."""
    await broker.stop()
    folder = broker.config.data.path
    (key,) = names_in(folder, "pages")
    row = directory_row(get_raw(folder, "pages", key))
    flip_raw(folder, "pages", key, len(row) + SEAL_BYTES - 1 if checksum else -1)
    await broker.start()


async def test_a_transaction_of_which_some_rows_are_damaged_is_not_committed_and_can_be_aborted(
    broker: RunningBroker,
) -> None:
    """It is published as a whole or not at all."""
    orders = await staged_in_two_batches(broker)
    await damage(broker)

    with pytest.raises(StagingRefused, match=r"part 0, attempt 0 cannot be read: .* 1 of 2 batches") as refused:
        await orders.commit("job/7", (0, 0))

    assert refused.value.code == STAGE_DAMAGED
    assert (await orders.overview()).usage_count == 0
    assert await broker.node.default.staging.ask(AbortStaged("job/7"))
    assert (await orders.staging()).staged_pages_count == 0


async def test_a_transaction_is_committed_when_damage_has_cost_it_nothing(broker: RunningBroker) -> None:
    orders = await staged_in_two_batches(broker)
    await damage(broker, checksum=True)

    assert await orders.commit("job/7", (0, 0)) == StagedCommitted(2, already=False)
    assert list((await orders.read())[0].values()) == [b"first", b"second"]


async def test_of_a_decided_transaction_with_damage_the_rest_is_published_and_the_loss_reported(
    broker: RunningBroker, told: list[str]
) -> None:
    """Some of it may have been published before the start."""
    orders = await staged_in_two_batches(broker)
    node = broker.node
    decision = decision_row(Decision("job/7", node.services.clock.wall_ms(), 2, [(0, 0)]))
    node.services.spool.inbox.post(WriteTables([decision], None, 0))

    await damage(broker)

    await shows(broker, lambda view: view.ready_count == 1, "orders")
    assert (await orders.consume_all()).payloads() == [b"first"]
    assert [line.startswith("some messages staged as") for line in told] == [True]
