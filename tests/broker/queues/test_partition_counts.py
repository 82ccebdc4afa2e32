"""A change of `partition_count` on a running node: what operators see, and that waiting messages are delivered."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.directory import FindQueue, LocalQueue
from sluicegate.actors.messages.readers import DeleteCursor, ReplayQueue, ReplayRefused
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import Refused
from sluicegate.gateway.views.queues.queues import QueueView
from support.broker.blocked_store import BlockedStore
from support.broker.browser_client import Browser
from support.broker.inside_client import InsideClient
from support.broker.named_queues import change, create, shown, shows
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import RawClient

KEYS = ["a", "b", "c", "d", "e", "f", "g", "h"]


async def publish_keyed(publisher: RawClient, number: int) -> None:
    for key in KEYS:
        properties = mqtt.user_property("JMSXGroupID", key)
        assert await publisher.publish("t", f"{key}:{number}".encode(), properties=properties) == 0


async def take(consumer: RawClient, count: int) -> list[str]:
    """Take messages, each acknowledged before the next is looked at."""
    payloads = []
    for _ in range(count):
        message = await consumer.message()
        consumer.acknowledge(message)
        payloads.append(message.payload.decode())
    return payloads


def in_order(payloads: list[str], first: int, end: int) -> bool:
    return all(
        [each for each in payloads if each.startswith(f"{key}:")] == [f"{key}:{number}" for number in range(first, end)]
        for key in KEYS
    )


async def test_a_backlog_is_delivered_in_order_over_a_change_and_a_restart(broker: RunningBroker) -> None:
    """Keys are remapped, and here nothing is deleted."""
    await create(broker, access_type="non-exclusive", partition_count=4, subscriptions=["t"])
    publisher = await broker.connect(level=5)
    await publish_keyed(publisher, 0)
    view = await change(broker, partition_count=6)
    view = await shows(broker, lambda view: view.partition_operational_count == 6)
    assert view.scale_status == "scaling-up"
    await publish_keyed(publisher, 1)
    await change(broker, partition_count=1)  # comes next
    await publish_keyed(publisher, 2)
    await broker.restart()
    publisher = await broker.connect(level=5)
    await publish_keyed(publisher, 3)
    assert (await shown(broker)).scale_status == "scaling-up"

    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    assert in_order(await take(consumer, 4 * len(KEYS)), 0, 4)
    view = await shows(broker, lambda view: view.partition_operational_count == 1)
    assert (view.scale_status, view.ready_count + view.unacked_count) == ("ready", 0)
    handle: LocalQueue = await broker.node.default.queues.ask(FindQueue("q"))
    assert [cell.name for cell in handle.cell.children or ()] == ["0"], "partitions that retired have ended"


async def test_messages_waiting_for_their_former_partition_are_shown_as_held(broker: RunningBroker) -> None:
    await create(
        broker, access_type="non-exclusive", partition_count=1, subscriptions=["t"], partition_rebalance_delay_s=0
    )
    publisher, consumer = await broker.connect(level=5), await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    await publish_keyed(publisher, 0)
    first = [await consumer.message() for _ in KEYS]
    await change(broker, partition_count=2)
    await shows(broker, lambda view: view.partition_operational_count == 2)
    await publish_keyed(publisher, 1)
    view = await shows(broker, lambda view: view.partitions[1].held_count > 0)
    assert view.partitions[1].held_count == view.partitions[1].ready_count
    assert view.partitions[0].held_count == 0

    consumer.acknowledge(*first)
    second = await take(consumer, len(KEYS))
    assert sorted(second) == [f"{key}:1" for key in KEYS]
    assert (await shows(broker, lambda view: view.scale_status == "ready")).partitions[1].held_count == 0


async def test_a_queue_becomes_partitioned_and_plain_again_with_its_messages(broker: RunningBroker) -> None:
    """Solace 5.6: there such messages are stuck until somebody copies them out. Here they are not."""
    await create(broker, subscriptions=["t"])
    publisher = await broker.connect(level=5)
    await publish_keyed(publisher, 0)
    with pytest.raises(Refused, match="while egress is on"):
        await change(broker, access_type="non-exclusive", partition_count=3)
    await change(broker, egress_enabled=False)
    await change(broker, access_type="non-exclusive", partition_count=3)
    await publish_keyed(publisher, 1)
    await change(broker, egress_enabled=True)
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    assert in_order(await take(consumer, 2 * len(KEYS)), 0, 2)
    await shows(broker, lambda view: view.scale_status == "ready")
    await consumer.vanish()

    await publish_keyed(publisher, 2)
    await change(broker, egress_enabled=False)
    await change(broker, access_type="exclusive", partition_count=0)
    await publish_keyed(publisher, 3)
    await change(broker, egress_enabled=True)
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    assert in_order(await take(consumer, 2 * len(KEYS)), 2, 4)
    view = await shows(broker, lambda view: view.scale_status == "ready")
    assert (len(view.partitions), view.partition_operational_count) == (1, 0)


async def test_a_change_waits_while_the_plan_of_the_one_before_is_stored(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(
        broker, access_type="non-exclusive", partition_count=2, subscriptions=["t"], partition_rebalance_delay_s=0
    )
    publisher, consumer = await broker.connect(level=5), await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    await publish_keyed(publisher, 0)
    waiting = [await consumer.message() for _ in KEYS]
    await change(broker, partition_count=4)
    await shows(broker, lambda view: view.scale_status == "scaling-up")
    await change(broker, partition_count=3)

    with BlockedStore(broker, monkeypatch) as store:
        consumer.acknowledge(*waiting)
        await shows(broker, lambda view: view.scale_status == "ready")
        changed = asyncio.create_task(change(broker, partition_count=5))
        await shown(broker)  # what was asked before it has been looked at
        assert not changed.done()
        store.let_go()
        await changed
    await shows(broker, lambda view: is_through(view, 5))
    await broker.restart()
    assert is_through(await shown(broker), 5)


async def test_counters_do_not_fall_when_partitions_retire(broker: RunningBroker) -> None:
    """And when the queue is partitioned no more: Prometheus takes a counter that falls for one that began anew."""
    await create(
        broker, access_type="non-exclusive", partition_count=2, subscriptions=["t"], partition_rebalance_delay_s=0
    )
    publisher, consumer = await broker.connect(level=5), await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    await publish_keyed(publisher, 0)
    await take(consumer, len(KEYS))
    await shows(broker, lambda view: view.settled_total == len(KEYS))
    await change(broker, partition_count=1)
    view = await shows(broker, lambda view: len(view.partitions) == 1)
    assert (view.delivered_total, view.settled_total) == (len(KEYS), len(KEYS))

    async def rebalances() -> float:
        samples = await NodeOperations(broker.node).metrics_snapshot()
        return sum([each.value for each in samples if each.name == "sluicegate_queue_rebalances_total"])

    before = await rebalances()
    assert before > 0
    await change(broker, egress_enabled=False)
    await change(broker, access_type="exclusive", partition_count=0)
    await shows(broker, lambda view: view.config.access_type == "exclusive")
    assert await rebalances() == before


async def test_a_consumer_settles_with_a_partition_that_has_come_again(broker: RunningBroker) -> None:
    """One that takes the number of a retired one begins its epochs anew: they are told apart all the same."""
    await create(broker, access_type="non-exclusive", partition_count=2, partition_rebalance_delay_s=0)
    await change(broker, subscriptions=["t"])
    publisher, consumer = await broker.connect(level=5), await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    for number, count in enumerate((2, 1, 2)):
        await change(broker, partition_count=count)
        await shows(broker, lambda view, count=count: view.partition_operational_count == count)  # type: ignore[misc]
        await publish_keyed(publisher, number)
        assert in_order(await take(consumer, len(KEYS)), number, number + 1)
        await shows(broker, lambda view: view.ready_count + view.unacked_count == 0)


async def test_operators_hear_of_rebalances_in_the_words_that_their_tools_look_for(broker: RunningBroker) -> None:
    """Solace 5.5: queue, client and partition are found by the number of the blank-separated word."""
    await create(broker, access_type="non-exclusive", partition_count=1, partition_rebalance_delay_s=0)
    consumer = await broker.connect("c1", level=5)
    await consumer.subscribe("$queue/q", qos=1)
    await change(broker, partition_count=2)
    await shows(broker, lambda view: view.partitions[-1].number == 1 and view.partitions[-1].client == "c1")
    texts = [event.text() for _, event in broker.node.services.runtime.events.record.recent(0, 100)]
    words = {text.split()[1]: text.split() for text in texts}
    assert words["VPN_AD_PARTITIONED_QUEUE_REBALANCE_STARTED:"][10] == "q"
    assert words["VPN_AD_PARTITIONED_QUEUE_REBALANCE_COMPLETED:"][10] == "q"
    assigned = words["CLIENT_AD_PARTITIONED_QUEUE_ASSIGNED:"]
    assert (assigned[6], assigned[8], assigned[10]) == ("c1", "q", "1")


async def test_partitions_stay_while_messages_are_kept_for_readers(broker: RunningBroker) -> None:
    """What a partition keeps beyond settlement would go with it; more partitions are no harm."""
    orders = InsideClient(broker, "orders")
    await orders.create(access_type="non-exclusive", partition_count=2)
    bound = await orders.bind()
    with pytest.raises(Refused, match="stays at least 2 while messages are kept"):
        await change(broker, "orders", partition_count=1)

    await change(broker, "orders", partition_count=3)
    await shows(broker, lambda view: view.scale_status == "ready", "orders")
    for number in range(20):
        await orders.publish(b"%d" % number)
    await orders.consume_all()
    found = [list((await orders.read(partition=number))[0].values()) for number in range(3)]
    assert sorted(int(each) for payloads in found for each in payloads) == list(range(20))
    assert len(await orders.ack(bound.epoch, {})) == 3

    await broker.node.default.cursors.ask(DeleteCursor("orders", "c"))
    await change(broker, "orders", partition_count=1)
    await shows(broker, lambda view: len(view.partitions) == 1, "orders")


async def test_a_replay_waits_for_the_partitions_to_be_settled_with(broker: RunningBroker) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create(access_type="non-exclusive", partition_count=1, retention_size_mb=10)
    await orders.publish(b"1")
    await change(broker, "orders", partition_count=2)
    with pytest.raises(ReplayRefused, match="the number of partitions of 'orders' is changing"):
        await (await orders.handle()).cell.ask(ReplayQueue(None, 1, 0, 2))
    await orders.consume_all()
    await shows(broker, lambda view: view.scale_status == "ready", "orders")
    assert await (await orders.handle()).cell.ask(ReplayQueue(None, 1, 0, 2)) == 1


async def test_a_browser_follows_partitions_that_come_retire_and_come_again(broker: RunningBroker) -> None:
    """Solace 4.7: it goes on with new messages. A partition that takes a number again counts from 1 again."""
    await create(
        broker, access_type="non-exclusive", partition_count=1, subscriptions=["t"], partition_rebalance_delay_s=0
    )
    publisher = await broker.connect(level=5)
    browser = Browser(broker)
    await browser.bind()
    await publish_keyed(publisher, 0)
    assert {each.partition_number for each in await browser.sees(len(KEYS))} == {0}

    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    for number, partitions in ((1, 3), (2, 1), (3, 3)):
        await take(consumer, len(KEYS))  # or what waits would hold the change up
        await change(broker, partition_count=partitions)
        await shows(broker, lambda view, count=partitions: is_through(view, count))  # type: ignore[misc]
        await publish_keyed(publisher, number)
        seen = await browser.sees(len(KEYS))
        assert sorted(each.batch.payloads()[each.row] for each in seen) == [f"{key}:{number}".encode() for key in KEYS]
        assert {each.partition_number for each in seen} == set(range(partitions))
    assert browser.has_seen_all()


def is_through(view: QueueView, count: int) -> bool:
    return view.scale_status == "ready" and view.partition_operational_count == count
