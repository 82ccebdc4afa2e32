"""Replay: consumers get retained messages again, and no waiting message is lost."""

import pytest

from sluicegate.actors.messages.readers import ReplayQueue, ReplayRefused
from support.broker.inside_client import Consuming, InsideClient, until
from support.broker.running_broker import RunningBroker

END = 1 << 62


async def replay(orders: InsideClient, *, first: int = 1, since_ms: int = 0, end: int = END) -> int:
    count: int = await (await orders.handle()).cell.ask(ReplayQueue(None, first, since_ms, end))
    return count


async def orders_settled(broker: RunningBroker, count: int, **attributes: object) -> InsideClient:
    """A queue that keeps messages, after its consumers have settled so many."""
    orders = InsideClient(broker, "orders")
    await orders.create(retention_size_mb=10, **attributes)
    for number in range(1, count + 1):
        await orders.publish(b"%d" % number)
    await orders.consume_all()
    return orders


async def got(consumer: Consuming, count: int) -> list[tuple[bytes, bool]]:
    """Return payload and redelivered flag of so many messages."""
    await until(lambda: len(consumer.got) >= count, f"{count} messages")
    return [(payload, redelivered) for _, _, payload, redelivered in consumer.got]


async def test_settled_messages_come_again_in_order_and_flagged(broker: RunningBroker) -> None:
    orders = await orders_settled(broker, 5)

    assert await replay(orders, first=2, end=5) == 3
    consumer = await orders.consumer()

    assert await got(consumer, 3) == [(b"2", True), (b"3", True), (b"4", True)]
    consumer.unbind()
    assert (await orders.overview()).usage_count == 0


async def test_consumers_that_are_bound_get_them_and_then_what_is_new(broker: RunningBroker) -> None:
    orders = await orders_settled(broker, 3)
    consumer = await orders.consumer()

    assert await replay(orders) == 3
    await orders.publish(b"new")

    assert [payload for payload, _ in await got(consumer, 4)] == [b"1", b"2", b"3", b"new"]
    assert (await orders.overview()).partitions[0].next_sequence == 5, "a replay gives out no sequences"


async def test_waiting_messages_are_kept_and_come_after_replayed_ones(broker: RunningBroker) -> None:
    """solace.md 6.10: the product deletes live messages first. This one does not."""
    orders = await orders_settled(broker, 2)
    await orders.publish(b"3")

    assert await replay(orders) == 2

    assert [payload for payload, _ in await got(await orders.consumer(), 3)] == [b"1", b"2", b"3"]


async def test_a_partitioned_queue_is_replayed_partition_by_partition(broker: RunningBroker) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create(retention_size_mb=10, access_type="non-exclusive", partition_count=4)
    keys = [f"k{number}" for number in range(20)]
    await orders.publish(*[b"%d" % number for number in range(20)], keys=keys)
    first = await orders.consume_all()

    assert await replay(orders) == 20
    again = await orders.consume_all()

    assert sorted(again.got) == sorted((*each[:3], True) for each in first.got)


async def test_a_replay_from_a_time_begins_there(broker: RunningBroker) -> None:
    orders = await orders_settled(broker, 2)
    broker.forward(100)
    since_ms = broker.clock.wall_ms()
    await orders.publish(b"late")
    await orders.consume_all()

    await replay(orders, since_ms=since_ms)

    payloads = [payload for payload, _ in await got(await orders.consumer(), 1)]
    assert payloads[-1] == b"late"
    assert b"1" not in payloads


async def test_a_replay_does_not_outlive_the_node_and_harms_no_stop(broker: RunningBroker) -> None:
    orders = await orders_settled(broker, 3)
    await replay(orders)

    async def is_offered() -> bool:
        return (await orders.overview()).partitions[0].ready_count == 3

    await until(is_offered, "the replay")
    await broker.restart()

    assert (await orders.overview()).partitions[0].ready_count == 0
    assert await replay(orders) == 3, "it can be asked for again"


async def test_a_queue_that_keeps_nothing_refuses(broker: RunningBroker) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create()

    with pytest.raises(ReplayRefused, match="keeps nothing"):
        await replay(orders)


async def test_a_last_value_queue_refuses_a_replay_and_counts_nothing(broker: RunningBroker) -> None:
    """Its consumers get the newest message only, so the older ones would be replaced again."""
    orders = await orders_settled(broker, 4, max_msg_spool_usage=0)
    before = (await orders.overview()).totals.discards
    with pytest.raises(ReplayRefused, match="max_msg_spool_usage is 0"):
        await replay(orders)
    assert (await orders.overview()).totals.discards == before
