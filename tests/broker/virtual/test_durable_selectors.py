"""Selector-aware virtual topics: what consumers select says what comes into their queue, also while they are away.

The numbers VD-nn are those of tests/data/virtual/cases.txt.
"""

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from sluicegate.storage.errors import StoreFailed
from sluicegate.storage.interface import CommitJob
from support.broker.running_broker import RunningBroker
from support.broker.virtual_clients import consumer, depth, publish, redefine
from support.mqtt.raw_client import RawClient

TOPIC = "VirtualTopic.O"
AWARE = "virtual_destinations.virtual_topics=[{selector_aware: true}]"
COMPAT = "virtual_destinations.selector_cache.compat=activemq"
aware = pytest.mark.settings(AWARE)


def queue(name: str) -> str:
    return f"Consumer.{name}.VirtualTopic.O"


async def alternate(broker: RunningBroker, count: int = 10) -> None:
    """Publish messages of which every second one is odd."""
    for number in range(count):
        await publish(broker, TOPIC, b"%d" % number, odd="yes" if number % 2 else "no")


async def seen_once(broker: RunningBroker, name: str, selector: str = "", *, client_id: str = "c") -> None:
    """Have a consumer come and go."""
    client = await consumer(broker, queue(name), selector, client_id=client_id)
    await gone(broker, client, name)


async def gone(broker: RunningBroker, client: RawClient, name: str) -> None:
    from support.broker.named_queues import shows

    await client.vanish()
    await shows(broker, lambda view: not view.flows, queue(name))


@aware
async def test_each_queue_gets_what_its_consumer_selects(broker: RunningBroker) -> None:
    """VD-17: five each, nothing is left; then one without the property reaches the queues of plain consumers."""
    odd = await consumer(broker, queue("1"), "odd = 'yes'")
    even = await consumer(broker, queue("2"), "odd = 'no'")
    await alternate(broker)
    assert len(await odd.payloads(5)) == 5
    assert len(await even.payloads(5)) == 5
    for client, name in ((odd, "1"), (even, "2")):
        await client.round_trip()
        assert await depth(broker, queue(name)) == 0
    plain = [await consumer(broker, queue(name)) for name in ("1", "2")]
    await publish(broker, TOPIC, b"without")
    assert [await client.payloads(1) for client in plain] == [[b"without"], [b"without"]]


@pytest.mark.settings(AWARE, "virtual_destinations.selector_cache.durable=false")
async def test_without_durable_selectors_nothing_is_kept_for_absent_consumers(broker: RunningBroker) -> None:
    """VD-18."""
    await seen_once(broker, "1", "odd = 'no'")
    await alternate(broker)
    assert await depth(broker, queue("1")) == 0


@aware
async def test_a_durable_selector_collects_while_its_consumer_is_away(broker: RunningBroker) -> None:
    """VD-19."""
    await seen_once(broker, "1", "odd = 'no'")
    await alternate(broker)
    assert await depth(broker, queue("1")) == 5
    back = await consumer(broker, queue("1"), "odd = 'no'")
    assert await back.payloads(5) == [b"0", b"2", b"4", b"6", b"8"]


@pytest.mark.parametrize("restarts", [False, True])
@aware
async def test_selectors_that_are_durable_no_more_are_forgotten_for_good(restarts: bool, broker: RunningBroker) -> None:
    """VD-18 for what was remembered before, whether the setting is changed by a reload or with a restart."""
    await seen_once(broker, "1", "odd = 'no'")
    change = "virtual_destinations.selector_cache.durable=false"
    await (broker.restart(change) if restarts else redefine(broker, change))
    await alternate(broker)
    assert await depth(broker, queue("1")) == 0
    assert await NodeOperations(broker.node).list_selectors() == []
    await redefine(broker, AWARE, "virtual_destinations.selector_cache.durable=true")
    await alternate(broker)
    assert await depth(broker, queue("1")) == 0


@aware
async def test_a_consumer_without_a_selector_wants_everything(broker: RunningBroker) -> None:
    """VD-20."""
    await seen_once(broker, "1")
    await alternate(broker)
    assert await depth(broker, queue("1")) == 10


async def test_an_operator_is_told_why_a_queue_cannot_have_durable_selectors(broker: RunningBroker) -> None:
    operations = NodeOperations(broker.node)
    with pytest.raises(QueueNotFound):
        await operations.put_selector(queue("1"), "billing", ["odd = 'yes'"])
    await operations.create_queue({"name": queue("1")})
    with pytest.raises(Refused, match="no virtual topic with selector_aware leads to it"):
        await operations.put_selector(queue("1"), "billing", ["odd = 'yes'"])


@aware
async def test_an_operator_deletes_a_durable_selector(broker: RunningBroker) -> None:
    """VD-21."""
    await seen_once(broker, "1", "odd = 'no'")
    view = NodeOperations(broker.node)
    [known] = await view.list_selectors()
    assert (known.queue, known.subscriber, known.selectors) == (queue("1"), "c", ("odd = 'no'",))
    await view.delete_selector(queue("1"), "c")
    await alternate(broker)
    assert await depth(broker, queue("1")) == 0
    await view.put_selector(queue("1"), "c", ["odd = 'yes'"])
    await alternate(broker)
    assert await depth(broker, queue("1")) == 5


@aware
async def test_an_operator_hears_of_a_durable_selector_when_the_store_has_it(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost, it would lose its consumer what comes while that is away."""
    await seen_once(broker, "1", "odd = 'no'")
    store, rows = broker.node.services.store, list[bytes | None]()
    commit = store.commit
    failures = [StoreFailed("input/output error")]

    def refuse_at_first(job: CommitJob) -> int:
        found = [row.value for row in job.table_writes if row.key.endswith(queue("1").encode())]
        if found and failures:
            raise failures.pop()
        next_number = commit(job)
        rows.extend(found)
        return next_number

    monkeypatch.setattr(store, "commit", refuse_at_first)
    view = NodeOperations(broker.node)

    await view.put_selector(queue("1"), "c", ["odd = 'yes'"])
    assert b"yes" in (rows[-1] or b"")
    assert not failures

    await view.delete_selector(queue("1"), "c")
    assert rows[-1] is None


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ((), 0),
        ((COMPAT,), 3),
        ((COMPAT, "virtual_destinations.selector_cache.single_selector_per_destination=true"), 0),
    ],
)
async def test_a_selector_that_is_changed(settings: tuple[str, ...], kept: int, broker: RunningBroker) -> None:
    """VD-22: ours replaces the one before; under compat they add up, unless there is a single one."""
    await redefine(broker, AWARE, *settings)
    await seen_once(broker, "1", "symbol = 'AAPL'")
    await seen_once(broker, "1", "symbol = 'VIX'")
    for _ in range(3):
        await publish(broker, TOPIC, b"m", symbol="AAPL")
    assert await depth(broker, queue("1")) == kept
    await publish(broker, TOPIC, b"m", symbol="VIX")
    assert await depth(broker, queue("1")) == kept + 1


@aware
async def test_durable_selectors_survive_a_restart_and_go_with_their_queue(broker: RunningBroker) -> None:
    """VD-25."""
    await seen_once(broker, "1", "odd = 'no'")
    await broker.restart()
    await alternate(broker)
    assert await depth(broker, queue("1")) == 5
    await NodeOperations(broker.node).delete_queue(queue("1"))
    await broker.restart()
    assert await NodeOperations(broker.node).list_selectors() == []


@aware
async def test_two_subscribers_of_one_queue_have_what_either_selects(broker: RunningBroker) -> None:
    """The union is over subscribers of one queue; a further flow of one adds to its own."""
    await seen_once(broker, "1", "odd = 'no'", client_id="a")
    await seen_once(broker, "1", "odd = 'yes'", client_id="b")
    await alternate(broker)
    assert await depth(broker, queue("1")) == 10


async def test_consumers_that_are_there_count_when_a_definition_begins_to_ask(broker: RunningBroker) -> None:
    """VD-65 for selectors: a reload asks the queues who consumes."""
    client = await consumer(broker, queue("1"), "odd = 'yes'")
    await redefine(broker, AWARE)
    await client.round_trip()
    await publish(broker, TOPIC, b"mine", odd="yes")
    assert await client.payloads(1) == [b"mine"]
    await redefine(broker, "virtual_destinations.virtual_topics=[{}]")
    await publish(broker, TOPIC, b"everything", odd="no")
    assert await depth(broker, queue("1")) == 1
