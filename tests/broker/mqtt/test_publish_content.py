"""The content of a PUBLISH: topic, payload, properties, expiry and topic aliases (section 3.3)."""

import pytest

import support.mqtt.packets as mqtt
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S

EVERY_LEVEL = pytest.mark.parametrize("level", [3, 4, 5])
TEN_ALIASES = pytest.mark.settings("mqtt.topic_alias_maximum=10")


@EVERY_LEVEL
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("topic", [b"a/+", b"#", b"", b"a\x00b", b"\xff"])
async def test_an_invalid_topic_name_ends_the_connection(
    broker: RunningBroker, level: int, qos: int, topic: bytes
) -> None:
    """[3.3.2-2] [4.7.3-1] [1.5.4-1] [1.5.4-2]."""
    client = await broker.connect(level=level)
    client.send(mqtt.publish(topic, level=level, qos=qos))
    await client.is_ended(0x90 if topic in (b"a/+", b"#", b"") else 0x81)


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        (mqtt.subscription_identifier(1), 0x82),
        (mqtt.payload_format(2), 0x82),
        (mqtt.content_type("a") + mqtt.content_type("b"), 0x82),
        (mqtt.response_topic("a/#"), 0x82),
    ],
    ids=["subscription identifier", "payload format 2", "content type twice", "wildcard in response topic"],
)
async def test_impossible_properties_end_the_connection(broker: RunningBroker, properties: bytes, code: int) -> None:
    """[3.3.4-6] [3.3.2-14] and section 3.3.2.3."""
    client = await broker.connect(level=5)
    client.send(mqtt.publish("t", level=5, qos=1, properties=properties))
    await client.is_ended(code)


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_user_properties_keep_their_order_and_repetitions(broker: RunningBroker, qos: int) -> None:
    """[3.3.2-17] [3.3.2-18]."""
    subscriber = await broker.connect(level=5)
    await subscriber.subscribe("t", qos=2)
    pairs = [("k", "1"), ("k", "2"), ("j", "3")]
    properties = b"".join([mqtt.user_property(*pair) for pair in pairs])
    await (await broker.connect(level=5)).publish("t", qos=qos, properties=properties)
    (message,) = await subscriber.messages(1)
    assert message.values(38) == pairs


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_properties_are_forwarded_unaltered(broker: RunningBroker, qos: int) -> None:
    """[3.3.2-4] [3.3.2-15] [3.3.2-16] [3.3.2-20]; a 3.x subscriber gets topic and payload."""
    modern, old = await broker.connect(level=5), await broker.connect(level=4)
    for subscriber in (modern, old):
        await subscriber.subscribe("t", qos=2)
    properties = mqtt.payload_format(1) + mqtt.content_type("text/plain") + mqtt.response_topic("r/1")
    properties += mqtt.correlation_data(b"\x00\xff\x00")
    await (await broker.connect(level=5)).publish("t", "hällo".encode(), qos=qos, properties=properties)
    (message,) = await modern.messages(1)
    assert sorted(message.properties) == [(1, 1), (3, "text/plain"), (8, "r/1"), (9, b"\x00\xff\x00")]
    assert await old.payloads(1) == ["hällo".encode()]


async def test_a_3_x_publisher_s_message_has_no_properties(broker: RunningBroker) -> None:
    """Section 3.3.2.3.1: a property length of 0."""
    subscriber = await broker.connect(level=5)
    await subscriber.subscribe("t")
    await (await broker.connect(level=4)).publish("t", qos=0)
    assert (await subscriber.message()).properties == []


@pytest.mark.parametrize("level", [4, 5])
async def test_expiry_counts_the_time_a_message_waited(broker: RunningBroker, level: int) -> None:
    """[3.3.2-5] [3.3.2-6]; 3.x is spared expired messages too."""
    subscriber = await broker.connect_durable("away", level)
    await subscriber.subscribe("t", qos=1)
    await subscriber.leave()
    publisher = await broker.connect(level=5)
    await publisher.publish("t", b"lasts", properties=mqtt.message_expiry(10_000))
    await publisher.publish("t", b"fades", properties=mqtt.message_expiry(100))
    broker.forward(300)

    subscriber = await broker.connect_durable("away", level)

    message = await subscriber.message()
    assert message.payload == b"lasts"
    if level == 5:
        (left_s,) = message.values(2)
        assert isinstance(left_s, int)
        assert 9_700 - DEADLINE_S < left_s <= 9_700
    await subscriber.is_quiet()


async def test_expiry_does_not_stop_a_delivery_that_has_begun(broker: RunningBroker) -> None:
    """[4.3.3-7] [4.3.3-13]."""
    subscriber = await broker.connect_durable("away")
    await subscriber.subscribe("t", qos=2)
    await (await broker.connect(level=5)).publish("t", b"begun", qos=2, properties=mqtt.message_expiry(100))
    first = await subscriber.message()
    broker.forward(300)
    await subscriber.vanish()
    subscriber = await broker.connect_durable("away")
    again = await subscriber.message()
    assert (again.payload, again.packet_id, again.dup) == (b"begun", first.packet_id, True)
    await subscriber.completes(again)


@EVERY_LEVEL
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_payloads_of_any_length_come_through(broker: RunningBroker, level: int, qos: int) -> None:
    """[3.3.3]: zero length is valid."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t", qos=2)
    publisher = await broker.connect(level=level)
    large = bytes(range(256)) * 4096
    for payload in (b"", large):
        await publisher.publish("t", payload, qos=qos)
        assert await subscriber.payloads(1) == [payload]


@TEN_ALIASES
async def test_a_topic_alias_stands_for_its_topic_until_it_is_set_anew(broker: RunningBroker) -> None:
    """[3.3.2-12] and section 3.3.2.3.4; the alias is not passed on."""
    subscriber = await broker.connect(level=5)
    await subscriber.subscribe("#")
    publisher = await broker.connect(level=5)
    assert publisher.accepted.value(34) == 10
    for topic in ("a", "", "b", ""):
        publisher.send(mqtt.publish(topic, level=5, properties=mqtt.topic_alias(1)))
    messages = await subscriber.messages(4)
    assert [each.topic for each in messages] == ["a", "a", "b", "b"]
    assert [each.values(35) for each in messages] == [[], [], [], []]


@TEN_ALIASES
@pytest.mark.parametrize(("topic", "alias", "code"), [("a", 0, 0x94), ("a", 11, 0x94), ("", 1, 0x82)])
async def test_an_alias_that_cannot_be_ends_the_connection(
    broker: RunningBroker, topic: str, alias: int, code: int
) -> None:
    """[3.3.2-8] [3.3.2-9]."""
    client = await broker.connect(level=5)
    client.send(mqtt.publish(topic, level=5, properties=mqtt.topic_alias(alias)))
    await client.is_ended(code)


@TEN_ALIASES
async def test_an_alias_does_not_outlive_its_connection(broker: RunningBroker) -> None:
    """[3.3.2-7]."""
    client = await broker.connect_durable("aliasing")
    await client.publish("a", properties=mqtt.topic_alias(1))
    await client.leave()
    client = await broker.connect_durable("aliasing")
    assert client.accepted.session_present
    client.send(mqtt.publish("", level=5, properties=mqtt.topic_alias(1)))
    await client.is_ended(0x82)


@pytest.mark.parametrize("properties", [b"", mqtt.topic_alias_maximum(0)], ids=["absent", "0"])
@pytest.mark.parametrize("qos", [0, 1])
async def test_no_alias_is_sent_to_a_client_that_takes_none(broker: RunningBroker, qos: int, properties: bytes) -> None:
    """[3.1.2-27]."""
    subscriber = await broker.connect(level=5, properties=properties)
    await subscriber.subscribe("#", qos=qos)
    publisher = await broker.connect()
    for number in range(10):
        await publisher.publish(f"t/{number % 2}", qos=qos)
    for message in await subscriber.messages(10):
        assert message.topic
        assert message.values(35) == []


@pytest.mark.parametrize("qos", [0, 1])
async def test_aliases_to_a_client_stay_within_its_maximum(broker: RunningBroker, qos: int) -> None:
    """[3.1.2-26]; the first use of each carries its topic."""
    subscriber = await broker.connect(level=5, properties=mqtt.topic_alias_maximum(3))
    await subscriber.subscribe("#", qos=qos)
    publisher = await broker.connect()
    for number in range(20):
        await publisher.publish(f"t/{number % 5}", b"%d" % (number % 5), qos=qos)
    known: dict[object, str] = {}
    for message in await subscriber.messages(20):
        aliases = message.values(35)
        assert set(aliases) <= {1, 2, 3}
        if message.topic and aliases:
            known[aliases[0]] = message.topic
        assert (message.topic or known[aliases[0]]) == f"t/{message.payload.decode()}"


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_message_too_large_for_a_client_is_dropped_for_it_alone(broker: RunningBroker, qos: int) -> None:
    """[3.1.2-24] [3.1.2-25]: as if it had been delivered, so its place in the quota is free."""
    narrow = mqtt.maximum_packet_size(20) + mqtt.receive_maximum(1)
    subscriber = await broker.connect("small", 5, properties=narrow)
    other = await broker.connect(level=5)
    for client in (subscriber, other):
        await client.subscribe("t", qos=2)
    publisher = await broker.connect()
    await publisher.publish("t", b"x" * 40, qos=qos)
    await publisher.publish("t", b"short", qos=qos)
    assert await subscriber.payloads(1) == [b"short"]
    await subscriber.is_quiet()
    assert await other.payloads(2) == [b"x" * 40, b"short"]
