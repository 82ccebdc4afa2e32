"""Consuming over the flow protocol: credit, outcomes, states, and partition handoffs."""

import pytest

from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.flow import ACTIVE, ENDED, INACTIVE, FlowState
from sluicegate.protocols.flow.codec.frames.settle import (
    OUTCOME_ACCEPTED,
    OUTCOME_EXTEND,
    OUTCOME_FAILED,
    OUTCOME_REJECTED,
    OUTCOME_RELEASED,
    Credit,
    Settle,
    Settled,
)
from sluicegate.protocols.flow.engine.events import DeliveriesReceived
from support.broker.named_queues import change, create, shown, shows
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient, Refused


async def fill(broker: RunningBroker, count: int, queue: str = "q") -> None:
    """Put messages 1 to `count` into a queue."""
    async with FlowClient(broker.flow_port, name="filler") as client:
        opened = await client.opens_publisher()
        client.publishes(opened.flow_id, list(range(1, count + 1)), queue=queue)
        await client.answered(opened.flow_id, count)


async def test_a_delivery_says_what_it_is(broker: RunningBroker) -> None:
    """Flow: consuming, DELIVER. Delivery ids count from 1, message ids are those of the partition."""
    await create(broker)
    await fill(broker, 2)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("q")
        first, second = await client.receives_in_all(2, flow_id)

    assert (first.delivery_id, second.delivery_id) == (1, 2)
    assert second.message_id == first.message_id + 1
    assert (first.partition, first.delivery_count, first.redelivered) == (0, 1, False)
    assert first.topic == "$queue/q"
    assert abs(first.received_ms - broker.clock.wall_ms()) < 600_000


async def test_no_more_comes_than_credit_was_given(broker: RunningBroker) -> None:
    """Flow: consuming, credit. The limit is absolute: granting it twice changes nothing."""
    await create(broker)
    await fill(broker, 10)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("q", credit=3)
        assert len(await client.receives_in_all(3, flow_id)) == 3
        client.grants(flow_id, 5)
        client.grants(flow_id, 5)
        assert [each.delivery_id for each in await client.receives_in_all(2, flow_id)] == [4, 5]
        client.accepts_through(flow_id, 5)
        await shows(broker, lambda view: view.ready_count == 5 and view.unacked_count == 0)
        assert not any(isinstance(event, DeliveriesReceived) for event in client.events)


async def test_credit_can_be_taken_back(broker: RunningBroker) -> None:
    """Flow: consuming, credit. The answer says from where on nothing comes any more."""
    await create(broker)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("q", credit=100)
        await fill(broker, 2)
        await client.receives_in_all(2, flow_id)
        client.grants(flow_id, 0, recalls=True)
        assert await client.heard(Credit) == Credit(flow_id, 2, False, True)
        await fill(broker, 3)
        assert not any(isinstance(event, DeliveriesReceived) for event in client.events)
        client.grants(flow_id, 4)
        assert [each.delivery_id for each in await client.receives_in_all(2, flow_id)] == [3, 4]


async def test_a_flow_holds_no_more_than_it_asked_for(broker: RunningBroker) -> None:
    """Flow: consuming, unsettled messages. Settling makes room, credit alone does not."""
    await create(broker)
    await fill(broker, 10)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("q", credit=1000, unsettled_max=4)
        await client.receives_in_all(4, flow_id)
        client.settles(flow_id, 2, 3)
        assert [each.delivery_id for each in await client.receives_in_all(2, flow_id)] == [5, 6]


async def test_every_outcome_does_what_it_says(broker: RunningBroker) -> None:
    """Flow: consuming, outcomes."""
    await create(broker, "dead")
    await create(broker, dead_msg_queue="dead")
    await fill(broker, 4)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("q", credit=4)
        await client.receives_in_all(4, flow_id)
        said = ((1, 1, OUTCOME_ACCEPTED), (2, 2, OUTCOME_RELEASED), (3, 3, OUTCOME_FAILED), (4, 4, OUTCOME_REJECTED))
        client.send(Settle(flow_id, 0, said).encode())
        client.grants(flow_id, 6)
        again = await client.receives_in_all(2, flow_id)

    assert sorted((each.payload, each.delivery_count, each.redelivered) for each in again) == [
        (b"2", 1, True),
        (b"3", 2, True),
    ]
    await shows(broker, lambda view: view.ready_count == 1, "dead")


async def test_released_messages_are_not_delivered_to_a_flow_without_credit(broker: RunningBroker) -> None:
    """Flow: consuming, credit. Nobody has seen it again, so nobody has failed with it when the flow ends."""
    await create(broker)
    await fill(broker, 2)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("q", credit=2)
        await client.receives_in_all(2, flow_id)
        for delivery_id in (1, 2):
            client.settles(flow_id, delivery_id, delivery_id, OUTCOME_RELEASED)
        await client.unbinds(flow_id)
        assert (await shown(broker)).delivered_total == 2
        other = await client.binds("q", credit=2)
        assert [each.delivery_count for each in await client.receives_in_all(2, other)] == [1, 1]


async def test_everything_up_to_a_delivery_is_accepted_at_once(broker: RunningBroker) -> None:
    """Flow: consuming, settlement."""
    await create(broker)
    await fill(broker, 5)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("q")
        await client.receives_in_all(5, flow_id)
        client.accepts_through(flow_id, 4)
        await shows(broker, lambda view: view.unacked_count == 1)


async def test_a_settlement_names_the_deliveries_that_are_not_in_flight(broker: RunningBroker) -> None:
    """Flow: consuming, settlement. Settling twice changes nothing, and the client hears which part that was."""
    await create(broker)
    await fill(broker, 6)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("q")
        await client.receives_in_all(6, flow_id)
        client.settles(flow_id, 3, 4)
        client.settles(flow_id, 2, 9)
        assert await client.heard(Settled) == Settled(flow_id, ((3, 4), (7, 9)))
        await shows(broker, lambda view: view.unacked_count == 1)


async def test_time_to_settle_can_be_extended(broker: RunningBroker) -> None:
    """Flow: consuming, outcomes. A delivery that is not settled in time comes again; one that is extended does not."""
    await create(broker, consumer_ack_timeout_ms=60_000)
    await fill(broker, 2)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("q", credit=2)
        await client.receives_in_all(2, flow_id)
        client.send(Settle(flow_id, 0, ((1, 2, OUTCOME_EXTEND), (5, 5, OUTCOME_EXTEND))).encode())
        assert await client.heard(Settled) == Settled(flow_id, ((5, 5),))
        client.accepts_through(flow_id, 2)
        await shows(broker, lambda view: view.unacked_count == 0 and view.ready_count == 0)


@pytest.mark.parametrize("outcome", [OUTCOME_ACCEPTED, OUTCOME_RELEASED, OUTCOME_FAILED, OUTCOME_REJECTED])
async def test_a_late_settlement_does_not_settle_the_next_delivery(broker: RunningBroker, outcome: int) -> None:
    """Flow: settlement. The message came again meanwhile, to the same flow."""
    await create(broker, consumer_ack_timeout_ms=60_000)
    await fill(broker, 3)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("q")
        await client.receives_in_all(3, flow_id)
        broker.clock.forward(65)  # a sixteenth of the time may be added
        await shown(broker)  # gives the queue a turn
        again = await client.receives_in_all(3, flow_id)
        client.settles(flow_id, 1, 2, outcome)
        client.settles(flow_id, 4, 4)
        await shows(broker, lambda view: view.unacked_count == 2)
        client.send(Settle(flow_id, 0, ((1, 3, OUTCOME_EXTEND), (5, 6, OUTCOME_FAILED))).encode())
        last = await client.receives_in_all(2, flow_id)
    assert [(each.delivery_id, each.payload, each.delivery_count) for each in again] == [
        (4, b"1", 2),
        (5, b"2", 2),
        (6, b"3", 2),
    ]
    assert [(each.payload, each.delivery_count) for each in last] == [(b"2", 3), (b"3", 3)]


async def test_unsettled_messages_of_a_lost_client_are_redelivered(broker: RunningBroker) -> None:
    """Flow: consuming. It is flagged, and its count has risen."""
    await create(broker)
    await fill(broker, 3)
    client = FlowClient(broker.flow_port)
    await client.open()
    flow_id = await client.binds("q")
    await client.receives_in_all(3, flow_id)
    client.settles(flow_id, 2, 2)
    await shows(broker, lambda view: view.unacked_count == 2)
    client.cut()
    await client.ended()
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("q")
        again = await client.receives_in_all(2, flow_id)
    assert [(each.payload, each.delivery_count, each.redelivered) for each in again] == [
        (b"1", 2, True),
        (b"3", 2, True),
    ]


async def test_a_standby_takes_over(broker: RunningBroker) -> None:
    """Flow: consuming, states. An exclusive queue has one active flow."""
    await create(broker)
    first = FlowClient(broker.flow_port, name="first")
    await first.open()
    flow_id = await first.binds("q")
    assert (await first.heard(FlowState)).state == ACTIVE
    async with FlowClient(broker.flow_port, name="second") as second:
        standby = await second.binds("q")
        assert (await second.heard(FlowState)).state == INACTIVE
        await fill(broker, 1)
        await first.receives_in_all(1, flow_id)
        first.cut()
        await first.ended()
        state = await second.heard(FlowState)
        assert (state.state, state.number) == (ACTIVE, 2)
        (again,) = await second.receives_in_all(1, standby)
        assert again.redelivered


async def test_a_flow_hears_that_its_queue_is_gone(broker: RunningBroker) -> None:
    """Flow: consuming, states. It may be bound again when only egress was shut down."""
    await create(broker)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("q")
        await change(broker, egress_enabled=False)
        state = await client.heard(FlowState, lambda state: state.state == ENDED)
        assert (state.flow_id, state.code, state.retry_after_ms is not None) == (flow_id, codes.REVOKED, True)
        with pytest.raises(Refused) as refused:
            await client.binds("q")
        assert refused.value.error.code == codes.DISABLED


@pytest.mark.parametrize(
    ("queue", "code", "may_try_again"),
    [("nobody", codes.NOT_FOUND, False), ("closed", codes.PERMISSION_DENIED, False), ("full", codes.TOO_MANY, True)],
)
async def test_a_bind_that_is_refused_says_why(
    broker: RunningBroker, queue: str, code: int, may_try_again: bool
) -> None:
    """Flow: consuming, BIND."""
    await create(broker, "closed", permission="no-access")
    await create(broker, "full", max_bind_count=0)
    async with FlowClient(broker.flow_port) as client:
        with pytest.raises(Refused) as refused:
            await client.binds(queue)
        error = refused.value.error
        assert (error.code, error.retry_after_ms is not None) == (code, may_try_again)
        await create(broker)
        await client.binds("q")


async def test_partitions_are_shared_among_flows(broker: RunningBroker) -> None:
    """Flow: consuming, partitions. What is held of a partition that goes to another flow is no longer held here."""
    await create(
        broker,
        access_type="non-exclusive",
        partition_count=2,
        partition_rebalance_delay_s=0,
        partition_rebalance_max_handoff_time_s=0,
    )
    await fill(broker, 40)
    async with FlowClient(broker.flow_port, name="first") as first, FlowClient(broker.flow_port, name="two") as second:
        flow_id = await first.binds("q")
        held = await first.receives_in_all(40, flow_id)
        assert {each.partition for each in held} == {0, 1}
        other_id = await second.binds("q")
        moved = {each.partition for each in held}
        state = await second.heard(FlowState, lambda state: state.state == ACTIVE)
        assert state.flow_id == other_id
        view = await shown(broker)
        kept = [each.number for each in view.partitions if each.client == "first"]
        gone = moved - set(kept)
        assert len(gone) == 1
        expected = [each for each in held if each.partition in gone]
        again = await second.receives_in_all(len(expected), other_id)
        assert [each.message_id for each in again] == [each.message_id for each in expected]
        first.settles(flow_id, 1, 40)
        not_held = (await first.heard(Settled)).not_held
        assert sum(last - start + 1 for start, last in not_held) == len(expected)
        second.accepts_through(other_id, len(expected))
        await shows(broker, lambda view: view.unacked_count == 0 and view.ready_count == 0)


async def test_unbinding_gives_back_what_was_held(broker: RunningBroker) -> None:
    """Flow: consuming, UNBIND."""
    await create(broker)
    await fill(broker, 2)
    async with FlowClient(broker.flow_port) as client:
        flow_id = await client.binds("q")
        await client.receives_in_all(2, flow_id)
        await client.unbinds(flow_id)
        await shows(broker, lambda view: view.unacked_count == 0 and view.ready_count == 2)
        await client.binds("q")
