"""AMQP's modified with undeliverable-here: the message is for other consumers (3.4.4, test case 47)."""

import pytest

from sluicegate.protocols.amqp.codec.delivery_states import MODIFIED, DeliveryState
from sluicegate.protocols.amqp.messages.decode import BODY_DATA, body_bytes_of
from sluicegate.protocols.amqp.types.values import AmqpMap, Symbol
from support.amqp.client import AmqpClient
from support.broker.inside_client import InsideClient
from support.broker.named_queues import create, shows
from support.broker.running_broker import RunningBroker

DMQ = "#DEAD_MSG_QUEUE"


def not_here(*, failed: bool = False, notes: AmqpMap | None = None) -> DeliveryState:
    return DeliveryState(MODIFIED, delivery_failed=failed, undeliverable_here=True, annotations=notes)


async def queue(broker: RunningBroker, *payloads: bytes, **attributes: object) -> InsideClient:
    """Return a queue with these messages, whose dead ones are kept."""
    await create(broker, DMQ)
    inside = InsideClient(broker, "q")
    await inside.create(**{"access_type": "non-exclusive", **attributes})
    await inside.publish(*payloads)
    return inside


async def consumer(broker: RunningBroker, name: str, *, credit: int = 0) -> AmqpClient:
    client = await AmqpClient.open(broker.amqp_port, name)
    await client.receiver("l", "q", credit=credit)
    return client


async def test_the_message_goes_to_the_other_consumer_and_not_again_to_this_one(broker: RunningBroker) -> None:
    """Test case 47, two consumers: not to this one, even while it alone has credit; what follows is not held up."""
    await queue(broker, b"1", b"2", b"3")
    here = await consumer(broker, "here", credit=10)
    elsewhere = await consumer(broker, "elsewhere")
    first, second, _ = await here.deliveries(3)
    here.settle(first.delivery_id, state=not_here())
    here.settle(second.delivery_id, state=not_here(failed=True))
    await InsideClient(broker, "q").publish(b"4")
    assert [each.payload for each in await here.deliveries(1)] == [b"4"]
    await here.is_quiet()

    elsewhere.flow(0, 10)
    assert [each.payload for each in await elsewhere.deliveries(2)] == [b"1", b"2"]
    await shows(broker, lambda view: not view.discards, "q")
    await here.close()
    await elsewhere.close()


async def test_without_another_consumer_the_message_is_dead(broker: RunningBroker) -> None:
    """Test case 47, one consumer: to the dead message queue, with a reason of its own."""
    await queue(broker, b"1", b"2")
    here = await consumer(broker, "here", credit=10)
    first, _ = await here.deliveries(2)
    here.settle(first.delivery_id, state=not_here(failed=True))
    await shows(broker, lambda view: view.discards == {"undeliverable_to_dmq": 1}, "q")
    await here.is_quiet()
    await here.receiver("dead", DMQ, handle=1, credit=1)
    (dead,) = await here.deliveries(1)
    assert b"undeliverable" in dead.message
    assert dead.payload == b"1"
    await here.close()


async def test_when_the_only_other_consumer_leaves_it_is_dead(broker: RunningBroker) -> None:
    """The broker's rule: what every consumer present has declined waits for nobody."""
    await queue(broker, b"1")
    elsewhere = await consumer(broker, "elsewhere")
    here = await consumer(broker, "here", credit=10)
    (first,) = await here.deliveries(1)
    here.settle(first.delivery_id, state=not_here())
    await shows(broker, lambda view: view.ready_count == 1, "q")
    await elsewhere.close()
    await shows(broker, lambda view: view.discards == {"undeliverable_to_dmq": 1}, "q")
    await here.close()


async def test_a_message_that_goes_from_one_to_the_next_dies_with_the_last(broker: RunningBroker) -> None:
    """Each consumer has it once; there is no end without it."""
    await queue(broker, b"1")
    clients = [await consumer(broker, f"c{number}", credit=1) for number in range(3)]
    for client in clients:
        (received,) = await client.deliveries(1)
        client.settle(received.delivery_id, state=not_here(failed=True))
    await shows(broker, lambda view: view.discards == {"undeliverable_to_dmq": 1}, "q")
    for client in clients:
        await client.close()


async def test_a_consumer_that_has_left_and_comes_back_may_have_it(broker: RunningBroker) -> None:
    """What is declined is so for the life of the link."""
    await queue(broker, b"1")
    elsewhere = await consumer(broker, "elsewhere")
    here = await consumer(broker, "here", credit=1)
    (first,) = await here.deliveries(1)
    here.settle(first.delivery_id, state=not_here())
    await here.close()
    await shows(broker, lambda view: view.ready_count == 1, "q")
    here = await consumer(broker, "here", credit=1)
    assert [each.payload for each in await here.deliveries(1)] == [b"1"]
    await here.close()
    await elsewhere.close()


@pytest.mark.parametrize("attributes", [{"access_type": "exclusive"}, {"partition_count": 2}])
async def test_where_another_consumer_may_not_have_it_it_is_dead(
    broker: RunningBroker, attributes: dict[str, object]
) -> None:
    """One that stands by, or owns other partitions, gets nothing of this one's."""
    await queue(broker, **attributes, partition_rebalance_delay_s=0)
    here = await consumer(broker, "here", credit=10)
    other = await consumer(broker, "other", credit=10)
    await shows(broker, lambda view: len(view.flows) == 2, "q")
    keys = [f"k{number}" for number in range(20)]
    await InsideClient(broker, "q").publish(*[b"m"] * 20, keys=keys)
    (first,) = await here.deliveries(1)
    here.settle(first.delivery_id, state=not_here())
    await shows(broker, lambda view: view.discards == {"undeliverable_to_dmq": 1}, "q")
    await here.close()
    await other.close()


async def test_notes_go_with_the_message_to_the_other_consumer(broker: RunningBroker) -> None:
    """3.4.5: annotations of modified are merged, whoever gets it."""
    await queue(broker, b"1")
    here = await consumer(broker, "here", credit=1)
    elsewhere = await consumer(broker, "elsewhere", credit=1)
    (first,) = await here.deliveries(1)
    here.settle(first.delivery_id, state=not_here(notes=AmqpMap([(Symbol("x-why"), "no such pump")])))
    (again,) = await elsewhere.deliveries(1)
    assert b"no such pump" in again.message
    assert again.message.endswith(body_bytes_of(BODY_DATA, b"1"))
    await here.close()
    await elsewhere.close()
