"""What an AMQP consumer says when it rejects a message stays on the message."""

from sluicegate.protocols.amqp.codec.delivery_states import REJECTED, AmqpError, DeliveryState
from sluicegate.protocols.amqp.codec.sections import find_sections
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.values import AmqpMap
from support.amqp.client import AmqpClient
from support.broker.inside_client import InsideClient
from support.broker.named_queues import create, shows
from support.broker.running_broker import RunningBroker

DMQ = "#DEAD_MSG_QUEUE"
BROKEN = AmqpError("shop:broken", "no such pump")
CAUSE = "x-opt-sluicegate-dead-cause"


async def dead(broker: RunningBroker, *states: DeliveryState) -> list[object]:
    """Reject messages with these states, one each, and return what the dead ones say of the cause."""
    await create(broker, DMQ)
    inside = InsideClient(broker, "q")
    await inside.create()
    await inside.publish(*[b"%d" % number for number in range(len(states))])
    client = await AmqpClient.open(broker.amqp_port, "worker")
    await client.receiver("l", "q", credit=len(states))
    for delivery, state in zip(await client.deliveries(len(states)), states, strict=True):
        client.settle(delivery.delivery_id, state=state)
    await client.receiver("dead", DMQ, handle=1, credit=len(states))
    found: list[object] = []
    for delivery in await client.deliveries(len(states)):
        annotations, _ = decode(delivery.message, find_sections(delivery.message).annotations_at, len(delivery.message))
        assert isinstance(annotations, AmqpMap)
        found.append(annotations.symbol(CAUSE))
    await client.close()
    return found


async def test_a_rejected_message_keeps_the_condition_it_was_rejected_with(broker: RunningBroker) -> None:
    """AMQP 3.4.3, test case 49."""
    rejected = DeliveryState(REJECTED, error=BROKEN)
    bare = DeliveryState(REJECTED, error=AmqpError("shop:broken"))
    silent = DeliveryState(REJECTED)
    long = DeliveryState(REJECTED, error=AmqpError("c", "x" * 5000))
    causes = await dead(broker, rejected, bare, silent, long)
    assert causes == ["shop:broken: no such pump", "shop:broken", None, "c: " + "x" * 253]


async def test_neighbours_that_are_rejected_for_one_cause_die_together(broker: RunningBroker) -> None:
    """Each with it, and each counted."""
    rejected = DeliveryState(REJECTED, error=BROKEN)
    assert await dead(broker, rejected, rejected) == ["shop:broken: no such pump"] * 2
    await shows(broker, lambda view: view.discards == {"rejected_to_dmq": 2}, "q")
