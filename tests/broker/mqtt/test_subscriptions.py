"""SUBSCRIBE and UNSUBSCRIBE: codes, replacement, overlap, options (sections 3.8 to 3.11, 3.3.4)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.mqtt.codec.limits import ASKED_NOW_MAX, FILTERS_PER_TURN_MAX
from support.broker.running_broker import RunningBroker

EVERY_LEVEL = pytest.mark.parametrize("level", [3, 4, 5])


@EVERY_LEVEL
async def test_each_filter_gets_its_own_code(broker: RunningBroker, level: int) -> None:
    """[3.8.4-5] [3.8.4-6] [3.9.3-1]: a refused one does not undo the others."""
    subscriber = await broker.connect(level=level)
    refused = {3: 1, 4: 0x80, 5: 0x8F}[level]
    assert await subscriber.subscribe(("a", 0), ("$share//b", 1), ("c", 2)) == [0, refused, 2]
    publisher = await broker.connect()
    for topic in ("a", "b", "c"):
        await publisher.publish(topic, qos=0)
    assert [each.topic for each in await subscriber.messages(2)] == ["a", "c"]


@EVERY_LEVEL
@pytest.mark.parametrize("kind", ["subscribe", "unsubscribe"])
async def test_at_least_one_filter_is_needed(broker: RunningBroker, level: int, kind: str) -> None:
    """[3.8.3-2] [3.10.3-2]."""
    client = await broker.connect(level=level)
    packets = {"subscribe": mqtt.subscribe(level=level), "unsubscribe": mqtt.unsubscribe(level=level)}
    client.send(packets[kind])
    await client.is_ended(0x82)


@EVERY_LEVEL
@pytest.mark.parametrize("options", [0x03, 0x40, 0x80, 0x30, 0x04])
async def test_impossible_options_end_the_connection(broker: RunningBroker, level: int, options: int) -> None:
    """[3.8.3-5] [311:3.8.3-4]; bit 2 means No Local in 5.0 only, QoS 3 and Retain Handling 3 are protocol errors."""
    client = await broker.connect(level=level)
    if level == 5 and options == 0x04:
        assert await client.subscribe(("t", options)) == [0]
        return
    client.send(mqtt.subscribe(("t", options), level=level))
    await client.is_ended(0x82 if options in (0x03, 0x30) else 0x81)


@EVERY_LEVEL
async def test_the_same_filter_again_replaces_the_subscription(broker: RunningBroker, level: int) -> None:
    """[3.8.4-3]."""
    subscriber = await broker.connect(level=level)
    publisher = await broker.connect()
    for qos in (0, 2, 1, 0):
        assert await subscriber.subscribe("t", qos=qos) == [qos]
        await publisher.publish("t", qos=2)
        (message,) = await subscriber.messages(1)
        assert message.qos == qos
        await subscriber.is_quiet()


@EVERY_LEVEL
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_overlapping_subscriptions_deliver_one_copy_at_the_highest_qos(
    broker: RunningBroker, level: int, qos: int
) -> None:
    """[3.3.4-2]: of the two legal ways, one copy."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe(("a/#", 0), ("a/b", 2), ("+/b", 1))
    await (await broker.connect()).publish("a/b", qos=qos)
    (message,) = await subscriber.messages(1)
    assert message.qos == qos
    await subscriber.is_quiet()


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_one_copy_carries_the_identifiers_of_all_that_match(broker: RunningBroker, qos: int) -> None:
    """[3.3.4-3] [3.3.4-4]."""
    subscriber = await broker.connect(level=5)
    await subscriber.subscribe(("a/#", 0), properties=mqtt.subscription_identifier(7))
    await subscriber.subscribe(("a/b", 2), properties=mqtt.subscription_identifier(268_435_455))
    await subscriber.subscribe(("c", 2), properties=mqtt.subscription_identifier(9))
    publisher = await broker.connect()
    await publisher.publish("a/b", qos=qos)
    await publisher.publish("a/c", qos=qos)
    both, one = await subscriber.messages(2)
    assert sorted(both.values(11), key=str) == [268_435_455, 7]
    assert one.values(11) == [7]
    await subscriber.subscribe(("a/b", 2))
    await publisher.publish("a/b", qos=qos)
    assert (await subscriber.messages(1))[0].values(11) == [7]


async def test_subscription_identifier_0_is_a_protocol_error(broker: RunningBroker) -> None:
    """Section 3.8.2.1.2."""
    client = await broker.connect(level=5)
    client.send(mqtt.subscribe(("t", 0), level=5, properties=mqtt.subscription_identifier(0)))
    await client.is_ended(0x82)


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_no_local_keeps_own_messages_away_from_their_publisher(broker: RunningBroker, qos: int) -> None:
    """[3.8.3-3]."""
    client, other = await broker.connect(level=5), await broker.connect(level=5)
    for each in (client, other):
        await each.subscribe(("t", mqtt.options(2, no_local=True)))
    await client.publish("t", b"mine", qos=qos)
    assert await other.payloads(1) == [b"mine"]
    await client.is_quiet()
    await other.publish("t", b"yours", qos=qos)
    assert await client.payloads(1) == [b"yours"]
    await other.is_quiet()


async def test_no_local_on_one_subscription_takes_only_that_one_out(broker: RunningBroker) -> None:
    """[3.8.3-3] and section 3.3.4: another subscription still asks for the message."""
    client = await broker.connect(level=5)
    await client.subscribe(("t/#", mqtt.options(2, no_local=True)), properties=mqtt.subscription_identifier(1))
    await client.subscribe(("t", mqtt.options(1)), properties=mqtt.subscription_identifier(2))
    await client.publish("t", b"mine", qos=2)
    (message,) = await client.messages(1)
    assert (message.qos, message.values(11)) == (1, [2])


@EVERY_LEVEL
async def test_unsubscribe_names_what_there_was_and_what_there_was_not(broker: RunningBroker, level: int) -> None:
    """[3.10.4-1] [3.10.4-4] [3.10.4-5] [3.11.3-1]; 3.x gets no codes."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("a/b", "c", qos=1)
    assert await subscriber.unsubscribe("a/+", "c") == ([0x11, 0x00] if level == 5 else [])
    publisher = await broker.connect()
    for topic in ("c", "a/b"):
        await publisher.publish(topic)
    assert [each.topic for each in await subscriber.messages(1)] == ["a/b"]
    await subscriber.is_quiet()


@EVERY_LEVEL
async def test_unsubscribe_lets_a_delivery_under_way_complete(broker: RunningBroker, level: int) -> None:
    """[3.10.4-3]."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t", qos=2)
    await (await broker.connect()).publish("t", qos=2)
    message = await subscriber.message()
    subscriber.send(mqtt.pubrec(message.packet_id))
    assert await subscriber.answered(mqtt.PUBREL, message.packet_id) == 0
    await subscriber.unsubscribe("t")
    subscriber.send(mqtt.pubcomp(message.packet_id))
    await subscriber.is_quiet()


async def test_messages_in_flight_are_completed_after_an_unsubscribe(broker: RunningBroker) -> None:
    """[3.10.4-2]: nothing new is added; what was in flight is completed, under its id."""
    subscriber = await broker.connect_durable("careful")
    await subscriber.subscribe("t", qos=1)
    publisher = await broker.connect()
    await publisher.publish("t", b"in flight")
    sent = await subscriber.message()
    await subscriber.unsubscribe("t")
    await publisher.publish("t", b"too late")
    await subscriber.is_quiet()
    subscriber.acknowledge(sent)
    await subscriber.is_quiet()


@EVERY_LEVEL
async def test_subscribing_again_in_a_resumed_session_loses_and_repeats_nothing(
    broker: RunningBroker, level: int
) -> None:
    """[3.8.4-3]."""
    subscriber = await broker.connect_durable("steady", level)
    await subscriber.subscribe("t", qos=1)
    await subscriber.leave()
    publisher = await broker.connect()
    await publisher.publish("t", b"while away")
    subscriber = await broker.connect_durable("steady", level)
    await subscriber.subscribe("t", qos=1)
    await publisher.publish("t", b"live")
    assert await subscriber.payloads(2) == [b"while away", b"live"]
    await subscriber.is_quiet()


@pytest.mark.parametrize("per_packet", [1, 2 * FILTERS_PER_TURN_MAX])
async def test_many_requests_without_asks_are_not_all_carried_out_in_one_turn(
    broker: RunningBroker, per_packet: int
) -> None:
    """What came behind them waits, in its order, and the other clients do not."""
    broker.ignores_violations()
    client = await broker.connect()
    (connection,) = broker.node.mqtt.open_connections()
    before = broker.node.default.space.subscriptions_count
    filters = [f"nothing/{each}" for each in range(per_packet)]
    ids = range(1, 2 * FILTERS_PER_TURN_MAX // per_packet + 1)
    packets = [mqtt.unsubscribe(*filters, packet_id=each) for each in ids]
    connection.received(b"".join([*packets, mqtt.subscribe(("t", 0), packet_id=1000)]))
    assert broker.node.default.space.subscriptions_count == before
    connection.received(mqtt.subscribe(("u", 0), packet_id=1001))
    for each in ids:
        assert mqtt.packet_id_of(await client.awaited(mqtt.UNSUBACK)) == each
    for each in (1000, 1001):
        assert mqtt.packet_id_of(await client.awaited(mqtt.SUBACK)) == each
    assert broker.node.default.space.subscriptions_count == before + 2


async def test_many_subscriptions_of_one_client_are_not_all_made_in_one_turn(broker: RunningBroker) -> None:
    """Else a client that sends thousands in one write would keep all others waiting for as long as they take."""
    broker.ignores_violations()
    client = await broker.connect()
    (connection,) = broker.node.mqtt.open_connections()
    before = broker.node.default.space.subscriptions_count
    packets = [mqtt.subscribe((f"t/{each}", 0), packet_id=each) for each in range(1, 3 * ASKED_NOW_MAX)]
    connection.received(b"".join(packets))
    assert broker.node.default.space.subscriptions_count - before == ASKED_NOW_MAX
    for each in range(1, 3 * ASKED_NOW_MAX):
        assert mqtt.packet_id_of(await client.awaited(mqtt.SUBACK)) == each
    assert broker.node.default.space.subscriptions_count - before == 3 * ASKED_NOW_MAX - 1
