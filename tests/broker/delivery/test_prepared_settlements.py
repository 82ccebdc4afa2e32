"""Settlements in a commit that is under way, while the queue reassigns its partitions."""

from typing import Any

import pytest

from sluicegate.actors.messages.data import COMMIT_FAILED, COMMIT_MADE, PrepareSettlement
from sluicegate.messaging.message.outcomes import WHICHEVER
from support.broker.inside_client import Consuming, InsideClient, until
from support.broker.running_broker import RunningBroker

KEYS = [f"k{number}" for number in range(20)]


async def both_partitions_with(orders: InsideClient) -> Consuming:
    """Return a consumer that holds messages of both partitions, unsettled."""
    await orders.create(
        access_type="non-exclusive",
        partition_count=2,
        partition_rebalance_delay_s=0,
        partition_rebalance_max_handoff_time_s=300,
    )
    consumer = await orders.consumer()
    consumer.settles = False
    await orders.publish(*[key.encode() for key in KEYS], keys=KEYS)
    await until(lambda: len(consumer.got) == len(KEYS), "all messages")
    return consumer


async def paused(orders: InsideClient) -> int:
    """Return the partition that changes hands."""

    async def one_is_paused() -> bool:
        return "paused" in [status for status, _, _ in (await orders.overview()).partition_statuses]

    await until(one_is_paused, "a partition that is to change hands")
    statuses = (await orders.overview()).partition_statuses
    return [status for status, _, _ in statuses].index("paused")


@pytest.mark.parametrize("is_made", [True, False])
async def test_a_partition_is_not_handed_over_before_the_commit_is_through(
    broker: RunningBroker, is_made: bool
) -> None:
    """Order per key survives; what is given back comes before anything newer, and to its old owner."""
    orders = InsideClient(broker, "orders")
    first = await both_partitions_with(orders)
    handle = await orders.handle()
    cells = sorted(handle.cell.children or (), key=lambda cell: cell.name)
    epochs = [epoch for _, _, epoch in (await orders.overview()).partition_statuses]
    prepared: list[Any] = []
    for number, cell in enumerate(cells):
        sequences = [sequence for partition, sequence, _, _ in first.got if partition == number]
        ranges = [(min(sequences), max(sequences) + 1)]
        prepared.append(await cell.ask(PrepareSettlement(first.flow_id, epochs[number], ranges, WHICHEVER)))
    assert None not in prepared

    second = await orders.consumer()
    number = await paused(orders)
    held = [sequence for partition, sequence, _, _ in first.got if partition == number]
    for each in prepared:
        each.post(COMMIT_MADE if is_made else COMMIT_FAILED)
    if not is_made:
        assert (await orders.overview()).partition_statuses[number][1:] == (first.flow_id, epochs[number])
        taken = await cells[number].ask(
            PrepareSettlement(first.flow_id, epochs[number], [(min(held), max(held) + 1)], WHICHEVER)
        )
        assert taken is not None, "the old owner holds them as before"
        taken.post(COMMIT_MADE)

    async def is_handed_over() -> bool:
        return (await orders.overview()).partition_statuses[number][1] == second.flow_id

    await until(is_handed_over, "the new owner")
    assert second.got == []
    await orders.publish(*[key.encode() for key in KEYS], keys=KEYS)
    await until(lambda: len(second.got) == len(held), "what came later")
    assert not any(redelivered for _, _, _, redelivered in second.got)


async def test_uncommitted_messages_of_a_lost_consumer_are_redelivered_before_newer_ones(broker: RunningBroker) -> None:
    """AMQP 4.4.2, case 76, in the order of the queue: its next consumer waits for the commit to be decided."""
    orders = InsideClient(broker, "orders")
    await orders.create(access_type="exclusive")
    first = await orders.consumer()
    first.settles = False
    await orders.publish(b"1", b"2", b"3")
    await until(lambda: len(first.got) == 3, "all messages")
    partition = next(iter((await orders.handle()).cell.children or ()))
    epoch = (await orders.overview()).partition_statuses[0][2]
    prepared = await partition.ask(PrepareSettlement(first.flow_id, epoch, [(1, 2)], WHICHEVER))
    assert prepared is not None

    first.unbind()
    second = await orders.consumer()
    await orders.publish(b"4")
    assert second.got == []
    prepared.post(COMMIT_FAILED)

    await until(lambda: len(second.got) == 4, "all messages again")
    assert second.payloads() == [b"1", b"2", b"3", b"4"]
