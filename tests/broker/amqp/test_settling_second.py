"""AMQP receivers that settle after the broker: `rcv-settle-mode` second."""

import asyncio

import pytest

from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE
from sluicegate.protocols.amqp.codec.delivery_states import (
    ACCEPTED,
    REJECTED,
    RELEASED,
    RELEASED_STATE,
    DeliveryState,
)
from sluicegate.protocols.amqp.codec.dispositions import Disposition
from sluicegate.protocols.amqp.codec.performatives import RECEIVER_FIRST, RECEIVER_SECOND
from support.amqp.client import AmqpClient
from support.broker.inside_client import InsideClient
from support.broker.operator_views import event_texts
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S


async def queue(broker: RunningBroker, **attributes: object) -> InsideClient:
    inside = InsideClient(broker, "q")
    await inside.create(**attributes)
    return inside


@pytest.mark.parametrize("partition_count", [0, 3])
async def test_the_broker_settles_once_the_store_knows(broker: RunningBroker, partition_count: int) -> None:
    """AMQP 2.6.12, 2.8.3: the outcome comes back settled, and what has come back is in force whatever happens."""
    inside = await queue(broker, access_type="non-exclusive", partition_count=partition_count)
    keys = [f"k{number}" for number in range(20)]
    await inside.publish(*[key.encode() for key in keys], keys=keys)
    client = await AmqpClient.open(broker.amqp_port)
    answer = await client.receiver("l", "q", credit=100, rcv_second=True)
    assert answer.receiver_settle_mode == RECEIVER_SECOND
    held = await client.deliveries(20)
    client.settle(held[0].delivery_id, held[14].delivery_id, settled=False)
    answered: set[int] = set()
    while len(answered) < 15:
        said = await client.awaited(Disposition)
        assert not said.is_receiver
        assert said.settled
        assert said.state is not None
        assert said.state.code == ACCEPTED
        answered |= set(range(said.first, said.last + 1))
    assert answered == {each.delivery_id for each in held[:15]}
    client.vanish()
    await broker.crash()
    assert (await inside.overview()).usage_count == 5


async def test_messages_of_a_reassigned_partition_are_not_accepted(broker: RunningBroker) -> None:
    """The answer says what came of it: of a partition that somebody else has by now nothing is settled."""
    inside = await queue(
        broker,
        access_type="non-exclusive",
        partition_count=2,
        partition_rebalance_delay_s=0,
        partition_rebalance_max_handoff_time_s=0,
    )
    keys = [f"k{number}" for number in range(20)]
    await inside.publish(*[key.encode() for key in keys], keys=keys)
    first = await AmqpClient.open(broker.amqp_port, "first")
    await first.receiver("l", "q", credit=20, rcv_second=True)
    held = {each.delivery_id: each for each in await first.deliveries(20)}
    second = await AmqpClient.open(broker.amqp_port, "second")
    await second.receiver("l", "q", credit=20)
    taken = {(await second.deliveries(1))[0].payload}  # then the partition is its, with all there was in flight
    first.settle(min(held), max(held), settled=False)
    outcomes: dict[bytes, int] = {}
    while len(outcomes) < 20:
        said = await first.awaited(Disposition)
        assert said.state is not None
        outcomes.update({held[each].payload: said.state.code for each in range(said.first, said.last + 1)})
    released = {payload for payload, code in outcomes.items() if code == RELEASED}
    assert set(outcomes.values()) == {ACCEPTED, RELEASED}
    taken |= {each.payload for each in await second.deliveries(len(released) - 1)}
    assert taken == released
    await first.close()
    await second.close()


async def test_other_outcomes_come_back_as_well(broker: RunningBroker) -> None:
    """AMQP 3.4."""
    inside = await queue(broker)
    await inside.publish(b"1", b"2")
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q", credit=2, rcv_second=True)
    (first, second) = await client.deliveries(2)
    client.settle(first.delivery_id, state=RELEASED_STATE, settled=False)
    said = await client.awaited(Disposition)
    assert said.state is not None
    assert (said.first, said.last, said.settled, said.state.code) == (
        first.delivery_id,
        first.delivery_id,
        True,
        RELEASED,
    )
    client.settle(second.delivery_id)  # settled at once: nothing is left to say
    await client.is_quiet()
    assert (await inside.overview()).usage_count == 1
    await client.close()


async def test_nothing_is_said_of_deliveries_whose_link_is_detached_by_then(broker: RunningBroker) -> None:
    """AMQP 2.6.6: they ended with the link. What the client said of them before holds."""
    inside = await queue(broker)
    await inside.publish(b"1")
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q", credit=1, rcv_second=True)
    held = await client.delivery()
    client.settle(held.delivery_id, settled=False)
    await client.detached(0, closed=True)
    assert (await inside.overview()).usage_count == 0
    stored = asyncio.get_running_loop().create_future()
    broker.node.services.spool_actor().when_idle(lambda: stored.set_result(None))
    await asyncio.wait_for(stored, DEADLINE_S)
    await client.is_quiet()
    await client.close()


async def test_a_receiver_that_settles_first_is_answered_as_before(broker: RunningBroker) -> None:
    """Test case 51."""
    inside = await queue(broker)
    await inside.publish(b"1")
    client = await AmqpClient.open(broker.amqp_port)
    answer = await client.receiver("l", "q", credit=1)
    assert answer.receiver_settle_mode == RECEIVER_FIRST
    (held,) = await client.deliveries(1)
    client.settle(held.delivery_id, settled=False)
    said = await client.awaited(Disposition)
    assert (said.first, said.settled, said.is_receiver) == (held.delivery_id, True, False)
    await client.close()


async def test_a_rejection_that_waits_for_its_dead_message_queue_holds_up_no_other(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """AMQP 2.8.3. A fault of the gateway stops one of two dead messages, the one with a key, until it is over."""
    dead = InsideClient(broker, DEAD_MESSAGE_QUEUE)
    await dead.create(subscriptions=[], access_type="non-exclusive", partition_count=2)
    inside = await queue(broker)
    await inside.publish(b"stuck", keys=["key"])
    await inside.publish(b"later")
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("r", "q", credit=2, rcv_second=True)
    stuck, later = await client.deliveries(2)
    target = (await dead.handle()).target
    slots, target.slots = target.slots, b""
    for each in (stuck, later):
        client.settle(each.delivery_id, state=DeliveryState(REJECTED), settled=False)

    answer = await client.awaited(Disposition)
    assert (answer.first, answer.settled) == (later.delivery_id, True)
    (partition,) = (await inside.overview()).partitions
    assert (partition.dead_waiting_count, partition.ready_count, partition.in_flight_count) == (1, 0, 0)
    assert len(await event_texts(broker, "VPN_AD_DEAD_MSG_MOVE_FAILED")) == 1

    target.slots = slots
    answer = await client.awaited(Disposition)
    assert (answer.first, answer.settled) == (stuck.delivery_id, True)
    assert (await dead.overview()).usage_count == 2
    caplog.clear()  # of the fault
    await client.close()
