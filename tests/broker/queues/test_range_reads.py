"""Range reads: rows in memory, journal and pages, and the reason for each gap."""

import pytest

from sluicegate.actors.messages.queues import PurgeQueue
from sluicegate.actors.messages.readers import AskPartitions, FindRangeEnd, NoSuchPartition, ReadFailed
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.message.outcomes import DISCARD_PURGED
from sluicegate.messaging.partitions.state.segments import GAP_NEVER_USED, GAP_SETTLED, Gap
from sluicegate.storage.errors import StoreFailed
from support.broker.inside_client import InsideClient, until
from support.broker.message_usage import usage_of
from support.broker.running_broker import RunningBroker


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


async def test_a_range_is_read_any_number_of_times_and_nothing_changes(broker: RunningBroker) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create()
    await orders.publish(*numbers(1, 11))

    first, _ = await orders.read(3, 8)
    again, gaps = await orders.read(3, 8)

    assert first == again == {number: b"%d" % number for number in range(3, 8)}
    assert gaps == []
    assert (await orders.overview()).partitions[0].ready_count == 10
    consumer = await orders.consume_all()
    assert [redelivered for *_, redelivered in consumer.got] == [False] * 10


async def test_a_reader_gets_a_chunk_at_a_time_and_asks_for_the_next(broker: RunningBroker) -> None:
    """What is not asked for is not in memory: each chunk is bounded by what its messages count for."""
    orders = InsideClient(broker, "orders")
    await orders.create()
    for _ in range(10):
        await orders.publish(*[b"x" * 100] * 10)

    bytes_max = usage_of("orders/t", *[b"x" * 100] * 15)
    chunk = await orders.chunk(1, 1000, bytes_max=bytes_max)

    assert (chunk.first, chunk.next_sequence, chunk.synced_end) == (1, 16, 101)
    found, _ = await orders.read(bytes_max=bytes_max)
    assert list(found) == list(range(1, 101))


@pytest.mark.settings("spool.memory_bytes_max=1MiB")
async def test_messages_in_pages_are_read_from_pages(broker: RunningBroker) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create()
    for _ in range(30):
        await orders.publish(*[b"x" * 2000] * 50)

    async def is_paged() -> bool:
        return (await orders.overview()).partitions[0].memory_bytes < 1 << 20

    await until(is_paged, "pages")
    found, gaps = await orders.read()

    assert len(found) == 1500
    assert gaps == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker.node.services.store, "read_page", _cannot_read)
        with pytest.raises(ReadFailed):  # a gap would say that the messages are gone
            await orders.chunk(1, 100)
    assert (await orders.overview()).partitions[0].memory_bytes < 1 << 20, "pages are read for the reading only"


def _cannot_read(partition_id: int, first_sequence: int) -> None:
    raise StoreFailed("input/output error")


async def test_a_gap_says_why(broker: RunningBroker) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create()
    await orders.publish(*numbers(1, 4))
    await orders.consume_all()
    await orders.publish(*numbers(4, 6))
    await (await orders.handle()).cell.ask(PurgeQueue())
    await orders.publish(b"6")

    found, gaps = await orders.read()

    assert found == {6: b"6"}
    assert gaps == [Gap(1, 4, GAP_SETTLED), Gap(4, 6, DISCARD_PURGED)]


async def test_retained_messages_are_read_after_their_consumers_have_settled_them_and_after_a_restart(
    broker: RunningBroker,
) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create(retention_size_mb=1)
    await orders.publish(*numbers(1, 11))
    await orders.consume_all()
    assert (await orders.overview()).usage_bytes == 0, "what is retained is no part of the quota"

    before, _ = await orders.read()
    await broker.restart()
    after, gaps = await orders.read()

    assert before == after == {number: b"%d" % number for number in range(1, 11)}
    assert gaps == []


async def test_retention_that_is_switched_off_lets_go(broker: RunningBroker) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create(retention_time_s=1000)
    await orders.publish(*numbers(1, 4))
    await orders.consume_all()
    assert (await orders.overview()).partitions[0].kept_from == 1

    await NodeOperations(broker.node).update_queue("orders", {"retention_time_s": 0})

    async def has_let_go() -> bool:
        return (await orders.overview()).partitions[0].kept_from == 4

    await until(has_let_go, "nothing kept")


async def test_time_ends_what_is_retained(broker: RunningBroker) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create(retention_time_s=60)
    await orders.publish(*numbers(1, 4))
    await orders.consume_all()
    broker.forward(61)

    async def is_over() -> bool:
        return (await orders.overview()).partitions[0].kept_from == 4

    await until(is_over, "the end of the retention")


async def test_a_partition_of_another_number_is_refused(broker: RunningBroker) -> None:
    orders = InsideClient(broker, "orders")
    await orders.create()

    with pytest.raises(NoSuchPartition, match="no partition 3, but 0 to 0"):
        await orders.chunk(1, 2, partition=3)


async def test_a_range_is_cut_by_bytes_without_reading_it(broker: RunningBroker) -> None:
    """spark.md 3.1: ReadMaxBytes can be cut without payloads."""
    orders = InsideClient(broker, "orders")
    await orders.create(retention_size_mb=10)
    for _ in range(10):
        await orders.publish(*[b"x" * 100] * 5)

    handle = await orders.handle()

    bytes_max = usage_of("orders/t", *[b"x" * 100] * 10)
    assert await handle.cell.ask(AskPartitions(0, FindRangeEnd(1, bytes_max, 0))) == [11]
    assert await handle.cell.ask(AskPartitions(0, FindRangeEnd(41, 0, 0))) == [51]
    assert await handle.cell.ask(AskPartitions(0, FindRangeEnd(3, 0, 7))) == [10]


async def test_sequences_that_a_crash_skipped_are_reported_as_never_used(broker: RunningBroker) -> None:
    """Decision 0023: after a crash a partition goes on from the reserved bound."""
    orders = InsideClient(broker, "orders")
    await orders.create()
    await orders.publish(*numbers(1, 4))
    await broker.crash()
    await orders.publish(b"after")

    found, gaps = await orders.read()

    assert list(found.values()) == [b"1", b"2", b"3", b"after"]
    assert [gap.reason for gap in gaps] == [GAP_NEVER_USED]
