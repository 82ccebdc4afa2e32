"""Topic names and filters: which match, and which are invalid (section 4.7)."""

import pytest

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


@EVERY_LEVEL
@pytest.mark.parametrize("topic_filter", ["a#", "a/#/b", "a+", "+a", "+a/b", "##", ""])
async def test_an_invalid_filter_is_refused_and_the_connection_lives(
    broker: RunningBroker, level: int, topic_filter: str
) -> None:
    """[4.7.1-1] [4.7.1-2] [4.7.3-1]; 3.1 has no code for it: it is told a QoS, and gets nothing."""
    subscriber = await broker.connect(level=level)
    assert await subscriber.subscribe(topic_filter, qos=1) == [{3: 1, 4: 0x80, 5: 0x8F}[level]]
    publisher = await broker.connect()
    for topic in ("a", "a/b"):
        await publisher.publish(topic)
    await subscriber.is_quiet()


@pytest.mark.settings("mqtt.reject_control_characters=true")
@pytest.mark.parametrize("topic_filter", ["a\x01", "$share/g/a\x7f", "$queue/q\x9f"])
async def test_filters_with_control_characters_are_refused_when_configured(
    broker: RunningBroker, topic_filter: str
) -> None:
    """[1.5.4-2] leaves them to the server; 3.1.1 has one code for all refusals."""
    assert await (await broker.connect(level=5)).subscribe(topic_filter, "a") == [0x8F, 0]
    assert await (await broker.connect(level=4)).subscribe(topic_filter, "a") == [0x80, 0]


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
