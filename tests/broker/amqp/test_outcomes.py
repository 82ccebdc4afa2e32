"""Outcomes of AMQP consumers: what rejected and modified put on the message."""

from sluicegate.messaging.partitions.state.redelivery import ANNOTATION_BYTES_MAX
from sluicegate.protocols.amqp.codec.delivery_states import MODIFIED, REJECTED, AmqpError, DeliveryState
from sluicegate.protocols.amqp.codec.sections import MESSAGE_ANNOTATIONS, NOWHERE, PROPERTIES, find_sections
from sluicegate.protocols.amqp.messages.decode import BODY_DATA, body_bytes_of
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Symbol
from support.amqp.client import AmqpClient
from support.amqp.received import Received
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


def annotations(**values: AmqpValue) -> AmqpMap:
    return AmqpMap([(Symbol(name.replace("_", "-")), value) for name, value in values.items()])


def modified(noted: AmqpMap, *, failed: bool = False) -> DeliveryState:
    return DeliveryState(MODIFIED, delivery_failed=failed, annotations=noted)


def annotations_of(received: Received) -> AmqpValue:
    at = find_sections(received.message).annotations_at
    return None if at == NOWHERE else decode(received.message, at, len(received.message))[0]


def bare(message: bytes) -> bytes:
    return message[find_sections(message).bare_at :]


async def test_annotations_of_modified_are_merged_and_the_bare_message_stays(broker: RunningBroker) -> None:
    """AMQP 3.4.5, test case 48: the last value of a key counts, null takes it away; only `x-` keys are free."""
    inside = InsideClient(broker, "q")
    await inside.create()
    sent = (
        bytes((0x00, 0x53, MESSAGE_ANNOTATIONS))
        + encode(annotations(x_opt_mine="kept", x_gone=1))
        + bytes((0x00, 0x53, PROPERTIES))
        + encode(["m1"])
        + body_bytes_of(BODY_DATA, b"body")
    )
    client = await AmqpClient.open(broker.amqp_port)
    await client.sender("s", "q")
    client.transfer(9, sent)
    client.transfer(9, body_bytes_of(BODY_DATA, b"the next"))
    await client.confirmed()
    await client.receiver("l", "q", credit=10)
    first, following = await client.deliveries(2)
    assert annotations_of(first) == annotations(x_opt_mine="kept", x_gone=1)

    client.settle(first.delivery_id, state=modified(annotations(x_a=1, x_gone=None, other="no"), failed=True))
    (second,) = await client.deliveries(1)
    assert annotations_of(second) == annotations(x_opt_mine="kept", x_a=1)
    client.settle(second.delivery_id, state=modified(annotations(x_a=2, x_b=["list"]), failed=True))
    (third,) = await client.deliveries(1)
    assert annotations_of(third) == annotations(x_opt_mine="kept", x_a=2, x_b=["list"])
    assert bare(third.message) == bare(first.message) == bare(sent)

    client.settle(third.delivery_id)
    client.settle(following.delivery_id, state=modified(annotations(x_c="new")))
    (again,) = await client.deliveries(1)
    assert annotations_of(again) == annotations(x_c="new")
    assert bare(again.message) == bare(following.message)
    await client.close()


async def test_notes_of_a_whole_range_are_on_each_of_its_messages(broker: RunningBroker) -> None:
    """AMQP 2.6.12: a disposition is for every delivery in its range; neighbours without notes stay without."""
    inside = InsideClient(broker, "q")
    await inside.create()
    await inside.publish(*[b"%d" % number for number in range(6)])
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q", credit=6)
    held = await client.deliveries(6)
    client.settle(held[1].delivery_id, held[3].delivery_id, state=modified(annotations(x_a=True)))
    client.flow(0, 10, delivery_count=6)
    again = await client.deliveries(3)
    assert [each.payload for each in again] == [b"1", b"2", b"3"]
    assert [annotations_of(each) for each in again] == [annotations(x_a=True)] * 3
    client.vanish()
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q", credit=6)
    noted = [annotations_of(each) for each in await client.deliveries(6)]
    assert noted == [None, *[annotations(x_a=True)] * 3, None, None]
    await client.close()


async def test_notes_that_are_too_long_are_counted_and_not_kept(broker: RunningBroker) -> None:
    inside = InsideClient(broker, "q")
    await inside.create()
    await inside.publish(b"m")
    client = await AmqpClient.open(broker.amqp_port)
    await client.receiver("l", "q", credit=6)
    (held,) = await client.deliveries(1)
    client.settle(held.delivery_id, state=modified(annotations(x_a="a" * ANNOTATION_BYTES_MAX)))
    (again,) = await client.deliveries(1)
    assert annotations_of(again) is None
    assert (await inside.overview()).partitions[0].annotations_lost_count == 1
    await client.close()
