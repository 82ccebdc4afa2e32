"""Topic names and filters: which match, and which are invalid (section 4.7)."""

import pytest

import support.mqtt.packets as mqtt
from support.broker.running_broker import RunningBroker

EVERY_LEVEL = pytest.mark.parametrize("level", [3, 4, 5])


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize(
    ("topic_filter", "matching"),
    [
        ("a/#", ["a", "a/", "a/b", "a//b", "a/b/c"]),
        ("+", ["a"]),
        ("+/+", ["/a", "a/", "a/b"]),
        ("/+", ["/a"]),
        ("a/+", ["a/", "a/b"]),
        ("#", ["a", "/a", "a/", "a/b", "a//b", "a/b/c"]),
        ("a/+/#", ["a/", "a/b", "a//b", "a/b/c"]),
        ("a//b", ["a//b"]),
    ],
)
async def test_wildcards_match_levels(broker: RunningBroker, topic_filter: str, matching: list[str], qos: int) -> None:
    """[4.7.1-1] [4.7.1-2]; empty levels are levels."""
    subscriber = await broker.connect()
    await subscriber.subscribe(topic_filter, qos=qos)
    publisher = await broker.connect()
    for topic in ("a", "/a", "a/", "a/b", "a//b", "a/b/c"):
        await publisher.publish(topic, qos=qos)
    assert [each.topic for each in await subscriber.messages(len(matching))] == matching
    await subscriber.is_quiet()


MALFORMED = pytest.mark.parametrize("topic_filter", ["a#", "a/#/b", "a+", "+a", "ab/+e", "##", ""])


@MALFORMED
async def test_a_malformed_filter_is_refused_and_the_connection_of_5_0_lives(
    broker: RunningBroker, topic_filter: str
) -> None:
    """[4.7.1-1] [4.7.1-2] [4.7.3-1]: SUBSCRIBE and UNSUBSCRIBE get the same code for it."""
    subscriber = await broker.connect(level=5)
    assert await subscriber.subscribe(topic_filter, "b", qos=1) == [0x8F, 1]
    assert await subscriber.unsubscribe(topic_filter, "a", "b") == [0x8F, 0x11, 0]
    publisher = await broker.connect()
    for topic in ("a", "a/b"):
        await publisher.publish(topic)
    await subscriber.is_quiet()


@MALFORMED
@pytest.mark.parametrize("level", [3, 4])
async def test_a_malformed_filter_ends_the_connection_of_3_x(
    broker: RunningBroker, level: int, topic_filter: str
) -> None:
    """[311:4.7.1-2] [311:4.7.1-3] [311:4.7.3-1] [311:4.8.0-1]: there is no answer, and nothing is carried out."""
    for packet in (mqtt.subscribe(("b", 0), (topic_filter, 0), packet_id=9), mqtt.unsubscribe(topic_filter)):
        client = await broker.connect("c", level)
        client.send(packet)
        await client.is_closed()


@EVERY_LEVEL
@pytest.mark.parametrize("topic_filter", ["$share//t", "$share/g", "$share/+/t", "$queue/"])
async def test_a_shared_subscription_or_queue_without_a_name_is_refused_and_the_connection_lives(
    broker: RunningBroker, level: int, topic_filter: str
) -> None:
    """[4.8.2-1] [4.8.2-2]; 3.1 has no code for it: it is told a QoS, and gets nothing."""
    client = await broker.connect(level=level)
    assert await client.subscribe(topic_filter, qos=1) == [{3: 1, 4: 0x80, 5: 0x8F}[level]]
    assert await client.unsubscribe(topic_filter) == ([0x8F] if level == 5 else [])
    await client.round_trip()


DEEP = "a/" * 4000 + "a"


@EVERY_LEVEL
async def test_a_topic_may_have_thousands_of_levels(broker: RunningBroker, level: int) -> None:
    """[4.7.3-3] limits its length alone. Matched, retained, and brought by a subscription."""
    subscriber = await broker.connect(level=level)
    assert await subscriber.subscribe(DEEP[:-1] + "+", qos=1) == [1]
    publisher = await broker.connect(level=level)
    assert await publisher.publish(DEEP, retain=True) == 0
    late = await broker.connect(level=level)
    assert await late.subscribe("a/#") == [0]
    for client in (subscriber, late):
        assert [each.topic for each in await client.messages(1)] == [DEEP]
    await publisher.publish(DEEP, b"", retain=True)


@pytest.mark.settings("mqtt.topic_levels_max=3")
@EVERY_LEVEL
async def test_an_operator_limits_the_levels_of_topics_and_filters(broker: RunningBroker, level: int) -> None:
    client = await broker.connect(level=level)
    assert await client.subscribe("a/b/#", "a/b/c/#") == [0, {3: 0, 4: 0x80, 5: 0x8F}[level]]
    assert await client.unsubscribe("a/b/#", "a/b/c/#") == ([0, 0x8F] if level == 5 else [])
    assert await client.publish("a/b/c") == (0x10 if level == 5 else 0)
    client.send(mqtt.publish("a/b/c/d", level=level))
    await client.is_ended(0x90)


@EVERY_LEVEL
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_publish_to_a_shared_subscription_is_refused_and_the_connection_lives(
    broker: RunningBroker, level: int, qos: int
) -> None:
    """[4.8.2]: it is no topic. 3.x has no code for it: it is acknowledged, and dropped, as to `$SYS/`."""
    client = await broker.connect(level=level)
    for topic in ("$share/g/t", "$share/"):
        assert await client.publish(topic, qos=qos) == (0x90 if level == 5 and qos else 0)
    await client.round_trip()


@EVERY_LEVEL
async def test_a_will_to_a_shared_subscription_is_refused_or_dropped(broker: RunningBroker, level: int) -> None:
    """[3.1.4-2]: as one to `$SYS/`."""
    client = await broker.open(level)
    answer = await client.connect("c", will=mqtt.WillPart("$share/g/t"))
    assert answer.reason_code == (0x90 if level == 5 else 0)


@pytest.mark.settings("mqtt.reject_control_characters=true")
@pytest.mark.parametrize("topic_filter", ["a\x01", "$share/g/a\x7f", "$queue/q\x9f"])
async def test_filters_with_control_characters_are_refused_when_configured(
    broker: RunningBroker, topic_filter: str
) -> None:
    """[1.5.4-2] leaves them to the server; 3.1.1 has one code for all refusals."""
    client = await broker.connect(level=5)
    assert await client.subscribe(topic_filter, "a") == [0x8F, 0]
    assert await client.unsubscribe(topic_filter, "a", "b") == [0x8F, 0, 0x11]
    for level, code in ((3, 0), (4, 0x80)):
        client = await broker.connect(level=level)
        assert await client.subscribe(topic_filter, "a") == [code, 0]
        assert await client.unsubscribe(topic_filter, "a") == []


@pytest.mark.parametrize("qos", [0, 1])
async def test_wildcards_at_the_first_level_do_not_match_dollar_topics(broker: RunningBroker, qos: int) -> None:
    """[4.7.2-1]."""
    kept_out, asking = await broker.connect(), await broker.connect()
    await kept_out.subscribe("#", "+/y", "+/+", qos=qos)
    await asking.subscribe("$x/#", qos=qos)
    also_asking = await broker.connect()
    await also_asking.subscribe("$x/+", qos=qos)
    await (await broker.connect()).publish("$x/y", qos=qos)
    assert [each.topic for each in await asking.messages(1)] == ["$x/y"]
    assert [each.topic for each in await also_asking.messages(1)] == ["$x/y"]
    await kept_out.is_quiet()


async def test_topics_are_compared_as_they_are_written(broker: RunningBroker) -> None:
    """[4.7.3-4]: no case folding, no Unicode normalisation."""
    names = ["A", "a", "\u00e9", "e\u0301", " a", "\ufeffa"]
    subscriber = await broker.connect()
    publisher = await broker.connect()
    for name in names:
        await subscriber.subscribe(name)
        for other in names:
            await publisher.publish(other, qos=0)
        assert [each.topic for each in await subscriber.messages(1)] == [name]
        await subscriber.round_trip()
        await subscriber.unsubscribe(name)
