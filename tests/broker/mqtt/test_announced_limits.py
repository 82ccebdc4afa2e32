"""MQTT limits that settings announce: Maximum QoS and Retain Available (sections 3.2.2.3.4, 3.2.2.3.5)."""

import pytest

import support.mqtt.packets as mqtt
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker

EVERY_LEVEL = pytest.mark.parametrize("level", [3, 4, 5])
MAXIMUM_QOS, RETAIN_AVAILABLE = 36, 37  # properties of CONNACK


@pytest.mark.settings("mqtt.maximum_qos=1", "mqtt.retain_available=false")
async def test_a_5_0_client_gets_the_features_that_are_unavailable(broker: RunningBroker) -> None:
    """[3.2.2-9] [3.2.2-14]."""
    accepted = (await broker.connect(level=5)).accepted
    assert (accepted.value(MAXIMUM_QOS), accepted.value(RETAIN_AVAILABLE)) == (1, 0)


@EVERY_LEVEL
@pytest.mark.parametrize("filter_text", ["t", "$share/g/t"])
@pytest.mark.settings("mqtt.maximum_qos=1")
async def test_a_subscription_is_granted_the_maximum_and_gets_nothing_above_it(
    broker: RunningBroker, level: int, filter_text: str
) -> None:
    """[3.2.2-10] [3.8.4-8]: one that asks for more is not refused."""
    client = await broker.connect(level=level)
    assert await client.subscribe(filter_text, qos=2) == [1]
    assert await client.publish("t", b"below", qos=1) == 0
    assert [(message.payload, message.qos) for message in await client.messages(1)] == [(b"below", 1)]


@EVERY_LEVEL
@pytest.mark.settings("mqtt.maximum_qos=0")
async def test_where_nothing_is_settled_a_queue_is_not_consumed(broker: RunningBroker, level: int) -> None:
    """In 3.1 a refusal cannot be said: the QoS asked for comes back."""
    await create(broker, "q")
    client = await broker.connect(level=level)
    assert await client.subscribe("t", "$queue/q", qos=1) == [0, {3: 1, 4: 0x80, 5: 0x83}[level]]


@EVERY_LEVEL
@pytest.mark.settings("mqtt.maximum_qos=1")
async def test_a_publish_above_the_maximum_ends_the_connection_and_is_not_delivered(
    broker: RunningBroker, level: int
) -> None:
    """[3.2.2-11]."""
    subscriber = await broker.connect("subscriber", level)
    await subscriber.subscribe("t", qos=1)
    client = await broker.connect(level=level)
    client.send(mqtt.publish("t", level=level, qos=2))
    await client.is_ended(0x9B)
    await subscriber.is_quiet()


@EVERY_LEVEL
@pytest.mark.parametrize("was_received", [False, True])
async def test_a_publish_that_was_begun_before_the_maximum_is_finished(
    broker: RunningBroker, level: int, was_received: bool
) -> None:
    """[4.4.0-1] [4.3.3-10]: refused, its client would send it whenever it connects, and be refused again."""
    subscriber = await broker.connect_durable("subscriber", level)
    await subscriber.subscribe("t", qos=1)
    client = await broker.connect_durable("c", level)
    if was_received:
        client.send(mqtt.publish("t", b"once", level=level, qos=2, packet_id=7))
        await client.answered(mqtt.PUBREC, 7)
        assert [message.payload for message in await subscriber.messages(1)] == [b"once"]
    await subscriber.leave()
    await broker.restart("mqtt.maximum_qos=1")

    client = await broker.connect_durable("c", level)
    subscriber = await broker.connect_durable("subscriber", level)
    client.send(mqtt.publish("t", b"once", level=level, qos=2, packet_id=7, dup=True))
    await client.answered(mqtt.PUBREC, 7)
    client.send(mqtt.pubrel(7))
    assert await client.answered(mqtt.PUBCOMP, 7) == 0
    if not was_received:
        assert [message.payload for message in await subscriber.messages(1)] == [b"once"]
    await subscriber.is_quiet()
    client.send(mqtt.publish("t", level=level, qos=2, packet_id=8))
    await client.is_ended(0x9B)


@EVERY_LEVEL
async def test_a_qos_granted_before_the_maximum_stays_in_force_for_the_session(
    broker: RunningBroker, level: int
) -> None:
    """The maximum is of what clients publish [3.2.2-11]; a session has what it was granted until it asks anew."""
    subscriber = await broker.connect_durable("subscriber", level)
    await subscriber.subscribe("t", qos=2)
    client = await broker.connect(level=level)
    for payload in (b"begun", b"released", b"waiting"):
        await client.publish("t", payload, qos=2)
    sent = [await subscriber.message() for _ in range(3)]
    subscriber.send(mqtt.pubrec(sent[1].packet_id))
    await subscriber.answered(mqtt.PUBREL, sent[1].packet_id)
    await subscriber.vanish()
    await broker.restart("mqtt.maximum_qos=1")

    subscriber = await broker.connect_durable("subscriber", level)
    assert await subscriber.answered(mqtt.PUBREL, sent[1].packet_id) == 0
    subscriber.send(mqtt.pubcomp(sent[1].packet_id))
    again = await subscriber.messages(2)
    assert [(message.payload, message.qos, message.dup) for message in again] == [
        (b"begun", 2, True),
        (b"waiting", 2, True),
    ]
    assert [message.packet_id for message in again] == [sent[0].packet_id, sent[2].packet_id]
    assert await subscriber.subscribe("t", qos=2) == [1]


@EVERY_LEVEL
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.settings("mqtt.retain_available=false")
async def test_a_retained_publish_ends_the_connection_where_there_are_none(
    broker: RunningBroker, level: int, qos: int
) -> None:
    """[3.2.2-14]."""
    client = await broker.connect(level=level)
    client.send(mqtt.publish("t", level=level, qos=qos, retain=True))
    await client.is_ended(0x9A)
    subscriber = await broker.connect("subscriber", level)
    await subscriber.subscribe("t")
    await subscriber.is_quiet()


@pytest.mark.parametrize(
    ("will", "reason_code"), [(mqtt.WillPart(qos=2), 0x9B), (mqtt.WillPart(qos=1, retain=True), 0x9A)]
)
@EVERY_LEVEL
@pytest.mark.settings("mqtt.maximum_qos=1", "mqtt.retain_available=false")
async def test_a_will_that_could_not_be_published_is_refused(
    broker: RunningBroker, level: int, will: mqtt.WillPart, reason_code: int
) -> None:
    """[3.2.2-12] [3.2.2-13]: 3.x has no word for it, so the connection just ends."""
    client = await broker.open(level)
    client.send(mqtt.connect("c", level=level, will=will))
    if level == 5:
        await client.is_refused(reason_code)
    else:
        await client.is_closed()
