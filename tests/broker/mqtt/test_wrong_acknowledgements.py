"""Acknowledgements of the wrong kind for a delivery: a protocol error that ends the connection (section 4.3)."""

import pytest

import support.mqtt.packets as mqtt
from support.broker.running_broker import RunningBroker
from support.mqtt.packets import Published
from support.mqtt.raw_client import RawClient

EVERY_LEVEL = pytest.mark.parametrize("level", [3, 4, 5])
PROTOCOL_ERROR = 0x82


async def subscriber_with_message(broker: RunningBroker, level: int, qos: int) -> tuple[RawClient, Published]:
    """Return a client, and a message that it was sent and has not acknowledged."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t", qos=qos)
    await (await broker.connect()).publish("t", qos=qos)
    return subscriber, await subscriber.message()


@EVERY_LEVEL
@pytest.mark.parametrize(
    ("qos", "kind"),
    [(1, mqtt.PUBREC), (1, mqtt.PUBCOMP), (2, mqtt.PUBACK), (2, mqtt.PUBCOMP)],
    ids=["PUBREC at QoS 1", "PUBCOMP at QoS 1", "PUBACK at QoS 2", "PUBCOMP before PUBREC"],
)
async def test_an_acknowledgement_of_the_wrong_kind_ends_the_connection(
    broker: RunningBroker, level: int, qos: int, kind: int
) -> None:
    """[4.3.2-4] [4.3.3-4]."""
    subscriber, message = await subscriber_with_message(broker, level, qos)
    subscriber.send(mqtt.acknowledgement(kind, message.packet_id))
    await subscriber.is_ended(PROTOCOL_ERROR)


@EVERY_LEVEL
@pytest.mark.parametrize("is_resumed", [False, True])
async def test_a_puback_after_pubrec_ends_the_connection(broker: RunningBroker, level: int, is_resumed: bool) -> None:
    """[4.3.3-4]: PUBCOMP has to come. Also where the message was sent on an earlier connection."""
    kept = mqtt.session_expiry(60) if level == 5 else b""
    client = await broker.connect("c", level, clean_start=False, properties=kept)
    await client.subscribe("t", qos=2)
    await (await broker.connect()).publish("t", qos=2)
    message = await client.message()
    client.send(mqtt.pubrec(message.packet_id))
    await client.answered(mqtt.PUBREL, message.packet_id)
    if is_resumed:
        await client.vanish()
        client = await broker.connect("c", level, clean_start=False)
        await client.answered(mqtt.PUBREL, message.packet_id)
    client.send(mqtt.puback(message.packet_id))
    await client.is_ended(PROTOCOL_ERROR)


@EVERY_LEVEL
async def test_a_repeated_acknowledgement_is_passed_over(broker: RunningBroker, level: int) -> None:
    """Section 9.2: its packet id stands for nothing any more."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t", qos=2)
    publisher = await broker.connect()
    for qos in (1, 2):
        await publisher.publish("t", qos=qos)
        message = await subscriber.message()
        await subscriber.completes(message)
        subscriber.send(mqtt.puback(message.packet_id), mqtt.pubcomp(message.packet_id))
        await subscriber.round_trip()


@EVERY_LEVEL
async def test_a_pubcomp_run_with_one_wrong_packet_id_ends_the_connection(broker: RunningBroker, level: int) -> None:
    """[4.3.3-4]: PUBCOMPs that come together are checked one by one."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t", qos=2)
    publisher = await broker.connect()
    await publisher.publish("t", qos=2)
    await publisher.publish("t", qos=1)
    released, other = [await subscriber.message() for _ in range(2)]
    subscriber.send(mqtt.pubrec(released.packet_id))
    await subscriber.answered(mqtt.PUBREL, released.packet_id)
    subscriber.send(mqtt.pubcomp(released.packet_id), mqtt.pubcomp(other.packet_id))
    await subscriber.is_ended(PROTOCOL_ERROR)
