"""Subscriptions with a selector: the User Property `selector` of a SUBSCRIBE (docs/connect/mqtt.md, selectors)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.config.load import load
from support.broker.named_queues import shown
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import RawClient

SUBSCRIPTION_IDENTIFIER = 11
REASON_STRING = 31


def selecting(text: str) -> bytes:
    return mqtt.user_property("selector", text)


def colored(color: str) -> bytes:
    return mqtt.user_property("color", color)


async def refusal(client: RawClient, *filters: str, properties: bytes) -> tuple[list[int], str]:
    """Subscribe; return the codes and the Reason String of the SUBACK."""
    client.send(mqtt.subscribe(*[(text, 1) for text in filters], packet_id=77, level=5, properties=properties))
    body = (await client.awaited(mqtt.SUBACK)).body
    length, pos = mqtt.varint_at(body, 2)
    reasons = [value for name, value in mqtt.properties_of(body[pos : pos + length]) if name == REASON_STRING]
    assert all(isinstance(reason, str) for reason in reasons)
    return list(body[pos + length :]), "".join(map(str, reasons))


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_only_messages_that_the_selector_selects_come(broker: RunningBroker, qos: int) -> None:
    subscriber = await broker.connect("s", level=5)
    assert await subscriber.subscribe("t/#", qos=qos, properties=selecting("color = 'red'")) == [qos]
    publisher = await broker.connect(level=5)
    for number, color in enumerate(["red", "blue", "red", "green", "red"]):
        await publisher.publish(f"t/{number % 2}", b"%d" % number, qos=qos, properties=colored(color))
    await publisher.publish("t/1", b"without", qos=qos)

    messages = await subscriber.messages(3)

    assert [(message.payload, message.qos) for message in messages] == [(b"0", qos), (b"2", qos), (b"4", qos)]
    await subscriber.is_quiet()


@pytest.mark.parametrize("topics", [("t", "t"), ("t", "u")])
async def test_of_messages_that_come_at_once_each_goes_its_way(broker: RunningBroker, topics: tuple[str, str]) -> None:
    """One read of a socket makes one batch; order holds within what a client gets."""
    reds, blues, everything = [await broker.connect(level=5) for _ in range(3)]
    for client, text in [(reds, "color = 'red'"), (blues, "color = 'blue'"), (everything, "")]:
        properties = selecting(text) if text else b""
        assert await client.subscribe("t", "u", qos=1, properties=properties) == [1, 1]
    publisher = await broker.connect(level=5)
    colors = ["red", "blue", "none"]

    publisher.send(
        b"".join(
            mqtt.publish(
                topics[number % 2],
                b"%d" % number,
                qos=1,
                packet_id=number + 1,
                level=5,
                properties=colored(colors[number % 3]),
            )
            for number in range(60)
        )
    )

    assert await reds.payloads(20) == [b"%d" % number for number in range(0, 60, 3)]
    assert await blues.payloads(20) == [b"%d" % number for number in range(1, 60, 3)]
    assert await everything.payloads(60) == [b"%d" % number for number in range(60)]


async def test_overlapping_subscriptions_count_where_their_selectors_do(broker: RunningBroker) -> None:
    """[3.3.4-2], [3.3.4-3]: one copy at the highest QoS of those that want the message, with their identifiers."""
    subscriber = await broker.connect("s", level=5)
    plain = mqtt.subscription_identifier(1)
    assert await subscriber.subscribe("t", qos=0, properties=plain) == [0]
    chosen = mqtt.subscription_identifier(2) + selecting("color = 'red'")
    assert await subscriber.subscribe("t/#", qos=1, properties=chosen) == [1]
    publisher = await broker.connect(level=5)

    for color in ("red", "blue"):
        await publisher.publish("t", color.encode(), properties=colored(color))

    messages = {message.payload: message for message in await subscriber.messages(2)}
    assert {payload: message.qos for payload, message in messages.items()} == {b"red": 1, b"blue": 0}
    assert messages[b"red"].values(SUBSCRIPTION_IDENTIFIER) == [1, 2]
    assert messages[b"blue"].values(SUBSCRIPTION_IDENTIFIER) == [1]
    await subscriber.is_quiet()


async def test_a_session_that_is_away_keeps_what_its_selector_selects_over_restarts(broker: RunningBroker) -> None:
    subscriber = await broker.connect_durable("s")
    assert await subscriber.subscribe("t", qos=1, properties=selecting("color = 'red'")) == [1]
    await subscriber.vanish()

    await broker.restart()
    publisher = await broker.connect(level=5)
    for number, color in enumerate(["blue", "red", "blue", "red"]):
        await publisher.publish("t", b"%d" % number, properties=colored(color))
    assert (await shown(broker, "#mqtt/s")).ready_count == 2
    await broker.restart()

    again = await broker.connect_durable("s")
    assert await again.payloads(2) == [b"1", b"3"]
    await again.is_quiet()


async def test_the_same_filter_again_replaces_the_selector(broker: RunningBroker) -> None:
    """[3.8.4-3]."""
    subscriber = await broker.connect("s", level=5)
    publisher = await broker.connect(level=5)
    for text, expected in [("color = 'red'", b"red"), ("color = 'blue'", b"blue"), ("", b"both")]:
        properties = selecting(text) if text else b""
        assert await subscriber.subscribe("t", qos=1, properties=properties) == [1]
        for color in ("red", "blue"):
            await publisher.publish("t", color.encode(), properties=colored(color))
        assert await subscriber.payloads(1 if text else 2) == ([expected] if text else [b"red", b"blue"])
        await subscriber.is_quiet()


async def test_retained_messages_are_selected_as_well(broker: RunningBroker) -> None:
    publisher = await broker.connect(level=5)
    for color in ("red", "blue"):
        await publisher.publish(f"t/{color}", b"kept", retain=True, properties=colored(color))
    subscriber = await broker.connect("s", level=5)

    assert await subscriber.subscribe("t/+", qos=1, properties=selecting("color <> 'red'")) == [1]

    assert (await subscriber.message()).topic == "t/blue"
    await subscriber.is_quiet()


async def test_numbers_in_properties_of_mqtt_are_texts_unless_the_selector_says_otherwise(
    broker: RunningBroker,
) -> None:
    subscriber = await broker.connect("s", level=5)
    text = "convert_string_expressions:weight > 2500 AND JMSPriority > 4"
    assert await subscriber.subscribe("t", qos=1, properties=selecting(text)) == [1]
    never = await broker.connect("n", level=5)
    assert await never.subscribe("t", qos=1, properties=selecting("weight > 2500")) == [1]
    publisher = await broker.connect(level=5)

    for weight in ("2500", "2501", "heavy"):
        properties = mqtt.user_property("weight", weight) + mqtt.user_property("priority", "7")
        await publisher.publish("t", weight.encode(), properties=properties)

    assert await subscriber.payloads(1) == [b"2501"]
    await subscriber.is_quiet()
    await never.is_quiet()


async def test_an_invalid_selector_is_refused_with_its_place(broker: RunningBroker) -> None:
    """3.9.2.1.2: SUBACK has a Reason String; 0x83, for 5.0 has no selectors and no code about them."""
    client = await broker.connect("c", level=5)

    codes, reason = await refusal(client, "t", "u", properties=selecting("color != 'red'"))
    assert codes == [0x83, 0x83]
    assert "selector, character 7: '!' begins nothing; allowed: <> is the sign for unequal" in reason
    codes, reason = await refusal(client, "t", properties=selecting("a = 1") + selecting("b = 1"))
    assert (codes, reason) == ([0x83], "2 selectors; allowed: one for all filters")
    codes, reason = await refusal(client, "$share/g/t", "t", properties=selecting("a = 1"))
    assert codes == [0x83, 1]
    assert reason == "a selector on a shared subscription; allowed: on a topic filter, and on $queue/NAME"
    assert await client.subscribe("v", properties=selecting(" ")) == [0]  # blank: every message
    await client.publish("v", b"any", qos=0)
    assert await client.payloads(1) == [b"any"]


async def test_a_subscriber_whose_selector_does_not_match_does_not_count_for_the_publisher(
    broker: RunningBroker,
) -> None:
    """[3.4.2-1]: 0x10, no matching subscribers, counts selectors."""
    subscriber = await broker.connect("s", level=5)
    assert await subscriber.subscribe("t", qos=1, properties=selecting("color = 'red'")) == [1]
    publisher = await broker.connect(level=5)

    assert await publisher.publish("t", properties=colored("red")) == 0
    assert await publisher.publish("t", properties=colored("blue")) == await publisher.publish("nowhere")


@pytest.mark.settings("selectors.compat=activemq")
async def test_a_node_reads_selectors_in_its_dialect_and_stored_ones_after_a_change(broker: RunningBroker) -> None:
    """`=` of two conditions is ActiveMQ's only; stored, it goes on meaning that when the setting has changed."""
    joined, negated = await broker.connect_durable("s"), await broker.connect_durable("n")
    text = "(color + '!' = 'red!') = TRUE"
    assert await joined.subscribe("t", qos=1, properties=selecting(text)) == [1]
    assert await negated.subscribe("t", qos=1, properties=selecting("NOT color = 'red'")) == [1]
    for client in (joined, negated):
        await client.vanish()

    publisher = await broker.connect(level=5)
    await publisher.publish("t", b"1", properties=colored("red"))
    await publisher.publish("t", b"2", properties=colored("blue"))
    assert (await shown(broker, "#mqtt/s")).ready_count == 1
    assert (await shown(broker, "#mqtt/n")).ready_count == 0  # `(NOT color) = 'red'`
    broker.config = load(None, settings=[*broker.settings, "selectors.compat=none"])
    await broker.restart()

    publisher = await broker.connect(level=5)
    await publisher.publish("t", b"3", properties=colored("red"))
    await publisher.publish("t", b"4", properties=colored("blue"))
    assert await (await broker.connect_durable("s")).payloads(2) == [b"1", b"3"]
    assert await (await broker.connect_durable("n")).payloads(1) == [b"4"]
