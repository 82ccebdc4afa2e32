"""Handoffs that consumers of the flow protocol acknowledge, on whole nodes."""

from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import key_hash
from sluicegate.protocols.flow.codec.frames.flow import Bind, Bound
from sluicegate.protocols.flow.codec.frames.partition import DRAINING, Partitions, PartitionsAck
from support.broker.named_queues import create, shows
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient

PARTITIONS = 4


async def partitioned(broker: RunningBroker, *, handoff_s: int) -> None:
    await create(
        broker,
        access_type="non-exclusive",
        partition_count=PARTITIONS,
        partition_rebalance_delay_s=0,
        partition_rebalance_max_handoff_time_s=handoff_s,
    )


async def binds_and_acknowledges(client: FlowClient, queue: str = "q") -> Bound:
    flow_id, request_id = client.ids()
    client.send(Bind(flow_id, request_id, queue, 0, 1000, True).encode())
    return await client.heard(Bound)


async def publish_one_into_each_partition(broker: RunningBroker) -> None:
    keys: dict[int, str] = {}
    for number in range(1000):
        keys.setdefault(key_hash(f"k{number}") % PARTITIONS, f"k{number}")
    async with FlowClient(broker.flow_port, name="filler") as client:
        opened = await client.opens_publisher()
        for sequence in range(1, PARTITIONS + 1):
            client.publishes(opened.flow_id, [sequence], queue="q", headers=Headers(partition_key=keys[sequence - 1]))
        await client.answered(opened.flow_id, PARTITIONS)


def owned(listed: Partitions) -> list[int]:
    return [each.partition for each in listed.partitions]


def draining(listed: Partitions) -> list[int]:
    return [each.partition for each in listed.partitions if each.state == DRAINING]


async def test_a_partition_changes_hands_by_the_word_of_its_owner(broker: RunningBroker) -> None:
    """Flow: partitions. Though it holds nothing, its owner may have something to put away first."""
    await partitioned(broker, handoff_s=3600)
    async with FlowClient(broker.flow_port, name="one") as one, FlowClient(broker.flow_port, name="two") as two:
        bound = await binds_and_acknowledges(one)
        assert bound.acknowledges
        first = await one.heard(Partitions)
        assert (first.number, owned(first), draining(first)) == (1, [0, 1, 2, 3], [])
        other = await binds_and_acknowledges(two)
        listed = await one.heard(Partitions)
        assert (owned(listed), draining(listed)) == ([0, 1, 2, 3], [2, 3])
        assert all(0 < each.left_ms <= 3_600_000 for each in listed.partitions if each.state == DRAINING)

        one.send(PartitionsAck(bound.flow_id, first.number).encode())  # of a list in which nothing drained
        await publish_one_into_each_partition(broker)
        received = await one.receives_in_all(2, bound.flow_id)
        assert {each.partition for each in received} == {0, 1}
        assert not [event for event in two.events if isinstance(event, Partitions) and event.partitions]
        one.send(PartitionsAck(bound.flow_id, listed.number).encode())

        after = await one.heard(Partitions, lambda each: len(each.partitions) == 2)
        assert (owned(after), draining(after)) == ([0, 1], [])
        theirs = await two.heard(Partitions, lambda each: len(each.partitions) == 2)
        assert [(each.partition, each.epoch) for each in theirs.partitions] == [(2, 2), (3, 2)]
        received = await two.receives_in_all(2, other.flow_id)
        assert {(each.partition, each.epoch, each.delivery_count) for each in received} == {(2, 2, 1), (3, 2, 1)}


async def test_a_handoff_waits_for_unsettled_messages_after_its_acknowledgement(broker: RunningBroker) -> None:
    """Flow: partitions. Acknowledging does not settle."""
    await partitioned(broker, handoff_s=3600)
    async with FlowClient(broker.flow_port, name="one") as one, FlowClient(broker.flow_port, name="two") as two:
        bound = await binds_and_acknowledges(one)
        await publish_one_into_each_partition(broker)
        received = await one.receives_in_all(PARTITIONS, bound.flow_id)
        await binds_and_acknowledges(two)
        listed = await one.heard(Partitions, lambda each: draining(each) == [2, 3])
        one.send(PartitionsAck(bound.flow_id, listed.number).encode())
        (of_two,) = [each.delivery_id for each in received if each.partition == 2]
        one.settles(bound.flow_id, of_two, of_two)

        after = await one.heard(Partitions, lambda each: each.number > listed.number)
        assert (owned(after), draining(after)) == ([0, 1, 3], [3])
        one.accepts_through(bound.flow_id, PARTITIONS)
        assert owned(await two.heard(Partitions, lambda each: len(each.partitions) == 2)) == [2, 3]
        await shows(broker, lambda queue: queue.ready_count + queue.unacked_count == 0)


async def test_silence_keeps_a_partition_for_the_handoff_time_only(broker: RunningBroker) -> None:
    """Flow: partitions. A consumer that does not ask for lists is handed over from and to without a word."""
    await partitioned(broker, handoff_s=1)
    async with FlowClient(broker.flow_port, name="one") as one, FlowClient(broker.flow_port, name="two") as two:
        bound = await binds_and_acknowledges(one)
        await one.heard(Partitions)
        flow_id = await two.binds("q")
        assert draining(await one.heard(Partitions)) == [2, 3]
        assert owned(await one.heard(Partitions)) == [0, 1]
        await publish_one_into_each_partition(broker)
        await two.receives_in_all(2, flow_id)
        await one.receives_in_all(2, bound.flow_id)
        assert not [event for event in two.events if isinstance(event, Partitions)]


async def test_a_queue_without_partitions_has_nothing_to_acknowledge(broker: RunningBroker) -> None:
    """Flow: partitions. The answer to BIND says whether the wish is in force."""
    await create(broker)
    async with FlowClient(broker.flow_port) as client:
        bound = await binds_and_acknowledges(client)
        assert not bound.acknowledges
        client.send(PartitionsAck(bound.flow_id, 1).encode())
        await client.unbinds(bound.flow_id)
        client.send(PartitionsAck(bound.flow_id, 1).encode())  # too late, and passed over
        await client.opens_publisher()
