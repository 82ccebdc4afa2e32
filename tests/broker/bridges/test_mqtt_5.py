"""Bridges over MQTT 5: messages with their properties, guarantees, refusals, and foreign brokers that come and go."""

import asyncio
import contextlib
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.testing.ports import free_port
from support.bridges.brokers import (
    all_up,
    another_broker,
    configure,
    connect,
    mqtt_url,
    rule,
    shown,
    shows,
    takes_the_right_certificates,
    takes_the_right_password,
)
from support.broker.named_queues import create
from support.broker.named_queues import shows as queue_shows
from support.broker.running_broker import RunningBroker
from support.network.certificates import make_certificates

USER_PROPERTY = 38
EXPIRY = 2
CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION = 3, 8, 9


async def test_messages_of_a_queue_go_to_the_foreign_broker_and_are_settled_then(
    broker: RunningBroker, tmp_path: Path
) -> None:
    await create(broker, "q", subscriptions=["out/>"])
    publisher = await broker.connect()
    await publisher.publish("out/line/1", b"before", qos=1)
    async with another_broker(tmp_path) as other:
        reader = await other.connect("reader", 5)
        await reader.subscribe("from-a/#", qos=1)
        outgoing = {"queue": "q", "strip_prefix": "out/", "add_prefix": "from-a/"}
        await connect(broker, remote_url=mqtt_url(other), outgoing=[outgoing])
        await publisher.publish("out/line/2", b"after", qos=1)
        got = await reader.messages(2)
        assert [(each.topic, each.payload, each.qos) for each in got] == [
            ("from-a/line/1", b"before", 1),
            ("from-a/line/2", b"after", 1),
        ]
        await queue_shows(broker, lambda queue: not queue.ready_count and not queue.unacked_count)
        view = await shows(broker, lambda view: rule(view, "outgoing").messages == 2)
        assert rule(view, "outgoing").bytes == len(b"beforeafter")


async def test_messages_of_the_foreign_broker_come_here_and_are_acknowledged_when_they_are_stored(
    broker: RunningBroker, tmp_path: Path
) -> None:
    await create(broker, "q", subscriptions=["in/>"])
    async with another_broker(tmp_path) as other:
        incoming = {"remote_topic": "alarms/#", "strip_prefix": "alarms/", "add_prefix": "in/"}
        await connect(broker, remote_url=mqtt_url(other), incoming=[incoming])
        publisher = await other.connect()
        await publisher.publish("alarms/fire", b"1", qos=1)
        await publisher.publish("alarms/water", b"2", qos=0)
        await queue_shows(broker, lambda queue: queue.ready_count == 2)
        consumer = await broker.connect("", 5)
        await consumer.subscribe("$queue/q", qos=1)
        assert [each.topic for each in await consumer.messages(2)] == ["in/fire", "in/water"]
        await shows(broker, lambda view: rule(view, "incoming").messages == 2)


async def test_a_queue_of_the_foreign_broker_is_read_whatever_the_topics_of_its_messages(
    broker: RunningBroker, tmp_path: Path
) -> None:
    await create(broker, "q")
    async with another_broker(tmp_path) as other:
        await create(other, "theirs", subscriptions=["in/>"])
        publisher = await other.connect()
        await publisher.publish("in/1", b"1", qos=1)
        await connect(broker, remote_url=mqtt_url(other), incoming=[{"remote_topic": "$queue/theirs", "queue": "q"}])
        await publisher.publish("in/2", b"2", qos=1)
        await queue_shows(broker, lambda queue: queue.ready_count == 2)
        await queue_shows(other, lambda queue: not queue.ready_count and not queue.unacked_count, "theirs")


async def test_properties_travel_and_a_key_is_a_key_on_both_sides(broker: RunningBroker, tmp_path: Path) -> None:
    await create(broker, "q", subscriptions=["out/>"], respect_ttl_enabled=True)
    async with another_broker(tmp_path) as other:
        await create(other, "parts", subscriptions=["out/>"], access_type="non-exclusive", partition_count=4)
        reader = await other.connect("reader", 5)
        await reader.subscribe("out/#", qos=1)
        await connect(broker, remote_url=mqtt_url(other), outgoing=[{"queue": "q"}])
        publisher = await broker.connect("", 5)
        properties = b"".join(
            (
                mqtt.message_expiry(60),
                mqtt.content_type("text/x"),
                mqtt.response_topic("answers"),
                mqtt.correlation_data(b"\x01\x02"),
                mqtt.user_property("JMSXGroupID", "line-7"),
                mqtt.user_property("unit", "°C"),
            )
        )
        await publisher.publish("out/x", b"1", qos=1, properties=properties)
        got = await reader.message()
        [left_s] = got.values(EXPIRY)
        assert isinstance(left_s, int)
        assert 50 < left_s <= 60
        assert got.values(CONTENT_TYPE) == ["text/x"]
        assert got.values(RESPONSE_TOPIC) == ["answers"]
        assert got.values(CORRELATION) == [b"\x01\x02"]
        assert got.values(USER_PROPERTY) == [
            ("JMSXGroupID", "line-7"),
            ("unit", "°C"),
            ("Sluicegate-Path", "sluicegate/default/b"),
        ]
        consumer = await other.connect("", 5)
        await consumer.subscribe("$queue/parts", qos=1)
        partition = dict(each for each in (await consumer.message()).values(USER_PROPERTY) if isinstance(each, tuple))
        assert partition["JMSXGroupID"] == "line-7"


async def test_direct_messages_of_a_topic_go_at_most_once(broker: RunningBroker, tmp_path: Path) -> None:
    async with another_broker(tmp_path, f"listeners.mqtt.port={free_port()}") as other:
        reader = await other.connect()
        await reader.subscribe("state/#", qos=1)
        await connect(broker, remote_url=mqtt_url(other), outgoing=[{"topic": "state/#"}])
        publisher = await broker.connect()
        await publisher.publish("state/x", b"1", qos=0)
        assert (await reader.message()).payload == b"1"
        await other.stop()
        await shows(broker, lambda view: not view.up)
        await publisher.publish("state/x", b"2", qos=0)
        await shows(broker, lambda view: rule(view, "outgoing").dropped == {"not_connected": 1})
        await other.start()
        await shows(broker, all_up)


async def test_qos_2_goes_from_end_to_end(broker: RunningBroker, tmp_path: Path) -> None:
    await create(broker, "q", subscriptions=["out/>"])
    async with another_broker(tmp_path) as other:
        reader = await other.connect("reader", 5)
        await reader.subscribe("out/#", qos=2)
        await connect(
            broker,
            remote_url=mqtt_url(other),
            outgoing=[{"queue": "q", "qos": 2}],
            incoming=[{"remote_topic": "in/#", "qos": 2}],
        )
        publisher = await broker.connect()
        await publisher.publish("out/x", b"1", qos=2)
        got = await reader.message()
        assert (got.payload, got.qos) == (b"1", 2)
        here = await broker.connect("here", 5)
        await here.subscribe("in/#", qos=2)
        there = await other.connect()
        await there.publish("in/x", b"2", qos=2)
        got = await here.message()
        assert (got.payload, got.qos) == (b"2", 2)


async def test_a_lower_qos_than_a_rule_asks_for_is_told(
    broker: RunningBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """3.2.2.3.4, 3.9.3. Messages go all the same; each connection counts, and there is one event."""
    text = "the foreign broker grants QoS 1; the rule asks for 2"
    async with another_broker(tmp_path, "mqtt.maximum_qos=1") as other:
        await create(broker, "q", subscriptions=["out/>"])
        reader = await other.connect()
        await reader.subscribe("out/#", qos=1)
        view = await connect(
            broker,
            remote_url=mqtt_url(other),
            outgoing=[{"queue": "q", "qos": 2}],
            incoming=[{"remote_topic": "in/#", "qos": 2}],
        )
        assert [(each.up, each.shortfall, each.lowered) for each in view.rules] == [(True, text, 1)] * 2
        await (await broker.connect()).publish("out/x", b"1", qos=1)
        assert (await reader.message()).payload == b"1"
        other.node.disconnect(other.node.default, "sluicegate-b")
        await shows(broker, lambda view: all_up(view) and all(each.lowered == 2 for each in view.rules))
    assert caplog.text.count(f"bridge rule b/q: {text}") == 1
    assert caplog.text.count(f"bridge rule b/in/#: {text}") == 1


@pytest.mark.parametrize("qos", [1, 2])
async def test_nothing_is_lost_and_qos_2_not_doubled_when_connections_are_lost(
    broker: RunningBroker, tmp_path: Path, qos: int
) -> None:
    """MQTT 4.3: the state of each message outlives its connection, on both sides."""
    count = 300
    await create(broker, "q", subscriptions=["out/>"])
    await create(broker, "back", subscriptions=["in/>"])
    async with another_broker(tmp_path) as other:
        await create(other, "got", subscriptions=["out/>"])
        await connect(
            broker,
            remote_url=mqtt_url(other),
            outgoing=[{"queue": "q", "qos": qos}],
            incoming=[{"remote_topic": "in/#", "qos": qos}],
        )
        here, there = await broker.connect(), await other.connect()
        for number in range(count):
            await here.publish("out/x", b"%d" % number, qos=1)
            await there.publish("in/x", b"%d" % number, qos=qos)
            if number % 60 == 30:
                other.node.disconnect(other.node.default, "sluicegate-b")
                await shows(broker, all_up)
        for at, name in ((other, "got"), (broker, "back")):
            await queue_shows(at, lambda queue: queue.ready_count >= count, name)
            consumer = await at.connect("", 5)
            await consumer.subscribe(f"$queue/{name}", qos=1)
            got: list[int] = []
            while len(set(got)) < count:
                message = await consumer.message()
                consumer.acknowledge(message)
                got.append(int(message.payload))
            if qos == 2:
                assert got == list(range(count))
                await consumer.is_quiet()


async def test_a_bridge_that_fails_says_why_and_tries_again(broker: RunningBroker, tmp_path: Path) -> None:
    async with another_broker(tmp_path, f"listeners.mqtt.port={free_port()}") as other:
        url = mqtt_url(other)
        await other.stop()
        await configure(broker, {"remote_url": url, "outgoing": [{"topic": "a/#"}]})
        view = await shows(broker, lambda view: view.failures >= 2)
        assert (view.up, view.reason) == (False, "Connection refused")
        await other.start()
        await shows(broker, all_up)


async def test_a_bridge_gives_up_after_so_many_failures_until_an_operator_resumes_it(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """Solace: retryCount; 0 is for ever."""
    async with another_broker(tmp_path, f"listeners.mqtt.port={free_port()}") as other:
        url = mqtt_url(other)
        await other.stop()
        await configure(broker, {"remote_url": url, "retry_count": 1, "outgoing": [{"topic": "a/#"}]})
        view = await shows(broker, lambda view: view.state == "given-up")
        assert view.reason == "given up after 2 failures, the last: Connection refused"
        await other.start()
        await broker.node.default.bridges.resume("b")
        await shows(broker, all_up)


async def test_a_wrong_password_is_the_reason(broker: RunningBroker, tmp_path: Path) -> None:
    reason = "the connection was refused: Bad user name or password (0x86)"
    async with another_broker(tmp_path, me="right") as other:
        await takes_the_right_password(broker, mqtt_url(other), tmp_path, reason=reason)


async def test_a_bridge_uses_tls_and_shows_its_certificate(broker: RunningBroker, tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = made.in_tls("listeners.mqtt_tls")
    async with another_broker(tmp_path, *tls, f"listeners.mqtt_tls.client_ca={made.authority}") as other:
        port = other.node.mqtt.listeners["mqtt_tls"].port
        await takes_the_right_certificates(broker, made, remote_url=f"mqtts://127.0.0.1:{port}")


async def test_a_paused_bridge_carries_nothing_and_a_resumed_one_all(broker: RunningBroker, tmp_path: Path) -> None:
    await create(broker, "q", subscriptions=["out/>"])
    async with another_broker(tmp_path) as other:
        await create(other, "got", subscriptions=["out/>"])
        await connect(broker, remote_url=mqtt_url(other), outgoing=[{"queue": "q"}])
        publisher = await broker.connect()
        await publisher.publish("out/x", b"1", qos=1)
        await queue_shows(other, lambda queue: queue.ready_count == 1, "got")
        await broker.node.default.bridges.pause("b")
        view = await shown(broker)
        assert (view.state, view.reason) == ("paused", "paused by an operator")
        await publisher.publish("out/x", b"2", qos=1)
        await queue_shows(broker, lambda queue: queue.ready_count == 1)
        await broker.node.default.bridges.resume("b")
        await queue_shows(other, lambda queue: queue.ready_count == 2, "got")
        assert rule(await shows(broker, lambda view: rule(view, "outgoing").messages == 2), "outgoing").up


async def test_a_paused_bridge_stays_paused_when_it_is_changed(broker: RunningBroker, tmp_path: Path) -> None:
    async with another_broker(tmp_path) as other:
        remote: dict[str, object] = {"remote_url": mqtt_url(other), "outgoing": [{"topic": "out/#"}]}
        await connect(broker, **remote)
        await broker.node.default.bridges.pause("b")
        await configure(broker, remote | {"retry_delay_s": 7})
        assert (await shown(broker)).state == "paused"
        await broker.node.default.bridges.resume("b")
        await shows(broker, all_up)


async def test_a_running_bridge_outlives_a_file_that_cannot_be_read_and_says_so(
    broker: RunningBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A password or a certificate may be away for a moment while it is replaced."""
    caplog.handler.addFilter(lambda record: "goes on with the settings it has" not in record.getMessage())
    password = tmp_path / "password"
    password.write_text("right\n")
    async with another_broker(tmp_path, "node.name=sluicegate") as other:
        await other.node.default.bridges.create(
            {
                "name": "b",
                "remote_url": mqtt_url(broker),
                "username": "me",
                "password_file": str(password),
                "outgoing": [{"topic": "out/#"}],
            }
        )
        await shows(other, all_up)
        password.unlink()
        await configure(other)
        view = await shown(other)
        assert view.up
        assert str(password) in view.reason


async def test_a_message_that_comes_back_is_dropped_and_counted(broker: RunningBroker, tmp_path: Path) -> None:
    """Two bridges to one foreign broker, whose maps make a circle; No Local knows one connection only."""
    async with another_broker(tmp_path) as other:
        await configure(
            broker,
            {"name": "there", "remote_url": mqtt_url(other), "outgoing": [{"topic": "round/#"}]},
            {"name": "back", "remote_url": mqtt_url(other), "incoming": [{"remote_topic": "round/#"}]},
        )
        await shows(broker, all_up, "there")
        await shows(broker, all_up, "back")
        reader = await broker.connect()
        await reader.subscribe("round/#")
        await reader.publish("round/x", b"1", qos=0)
        assert (await reader.message()).payload == b"1"
        view = await shows(broker, lambda view: rule(view, "incoming").dropped == {"came_back": 1}, "back")
        assert rule(view, "incoming").messages == 0
        await reader.is_quiet()


async def test_a_bridge_of_both_directions_does_not_hear_itself(broker: RunningBroker, tmp_path: Path) -> None:
    """MQTT 3.8.3.1: No Local. And what a bridge brings here it does not take back."""
    async with another_broker(tmp_path) as other:
        both = {"outgoing": [{"topic": "t/#"}], "incoming": [{"remote_topic": "t/#", "qos": 0}]}
        await connect(broker, remote_url=mqtt_url(other), **both)
        here, there = await broker.connect(), await other.connect()
        await here.subscribe("t/#")
        await there.subscribe("t/#")
        await here.publish("t/x", b"from here", qos=0)
        await there.publish("t/x", b"from there", qos=0)
        assert sorted(await here.payloads(2)) == [b"from here", b"from there"]
        assert sorted(await there.payloads(2)) == [b"from here", b"from there"]
        await here.is_quiet()
        await there.is_quiet()
        await shows(broker, lambda view: rule(view, "outgoing").dropped == {"own": 1})


async def test_a_full_queue_here_leaves_messages_at_the_foreign_broker(broker: RunningBroker, tmp_path: Path) -> None:
    await create(broker, "small", subscriptions=["in/>"], max_msg_spool_usage=1)
    async with another_broker(tmp_path) as other:
        await connect(broker, remote_url=mqtt_url(other), window_messages=4, incoming=[{"remote_topic": "in/#"}])
        publisher = await other.connect()
        for number in range(10):
            await publisher.publish("in/x", b"%d" % number * 400_000, qos=1)
        view = await shows(broker, lambda view: rule(view, "incoming").failures > 0)
        assert "the queue's message spool quota is used up" in rule(view, "incoming").reason
        assert not rule(view, "incoming").up
        consumer = await broker.connect("", 5)
        await consumer.subscribe("$queue/small", qos=1)
        got: list[bytes] = []
        while len(got) < 10:
            message = await consumer.message()
            got.append(message.payload[:1])
            consumer.acknowledge(message)
        assert got == [b"%d" % number for number in range(10)]
        await shows(broker, all_up)


async def test_a_message_without_an_image_is_rejected(broker: RunningBroker, tmp_path: Path) -> None:
    await create(broker, "dead")
    await create(broker, "q", subscriptions=["out/>"], dead_msg_queue="dead")
    async with another_broker(tmp_path) as other:
        await connect(broker, remote_url=mqtt_url(other), outgoing=[{"queue": "q", "strip_prefix": "out/a/"}])
        publisher = await broker.connect()
        await publisher.publish("out/b/1", b"1", qos=1)
        await shows(broker, lambda view: rule(view, "outgoing").dropped == {"unmapped": 1})
        await queue_shows(broker, lambda queue: not queue.ready_count and not queue.unacked_count)


async def test_a_missing_queue_is_waited_for(broker: RunningBroker, tmp_path: Path) -> None:
    async with another_broker(tmp_path) as other:
        await configure(broker, {"remote_url": mqtt_url(other), "outgoing": [{"queue": "q"}]})
        view = await shows(broker, lambda view: view.up and rule(view, "outgoing").reason == "there is no queue 'q'")
        assert not rule(view, "outgoing").up
        await create(broker, "q")
        await shows(broker, all_up)


async def test_a_queue_that_is_deleted_and_made_anew_is_bound_again(broker: RunningBroker, tmp_path: Path) -> None:
    """Deliveries of the first flow may still be on their way."""
    await create(broker, "q", subscriptions=["out/>"])
    async with another_broker(tmp_path) as other:
        await create(other, "got", subscriptions=["out/>"])
        await connect(broker, remote_url=mqtt_url(other), window_messages=5, outgoing=[{"queue": "q"}])
        publisher = await broker.connect()
        for number in range(50):
            await publisher.publish("out/x", b"%d" % number, qos=1)
        await NodeOperations(broker.node).delete_queue("q")
        await shows(broker, lambda view: not rule(view, "outgoing").up)
        await create(broker, "q", subscriptions=["out/>"])
        await shows(broker, all_up)
        await publisher.publish("out/x", b"last", qos=1)
        consumer = await other.connect("", 5)
        await consumer.subscribe("$queue/got", qos=1)
        while (message := await consumer.message()).payload != b"last":
            consumer.acknowledge(message)
        assert (await shown(broker)).connections == 1, "the connection stayed"


async def test_a_slow_foreign_broker_stops_the_flow_from_the_queue_and_nothing_else(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """It reads nothing; the window is what is out, and the rest stays in the queue."""
    await create(broker, "q", subscriptions=["out/>"])

    has_ended = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2)
        writer.write(b"\x20\x03\x00\x00\x00")  # CONNACK, and nothing after it
        await writer.drain()
        with contextlib.suppress(ConnectionError):
            while await reader.read(65_536):
                pass
        writer.transport.abort()
        has_ended.set()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await connect(broker, remote_url=f"mqtt://127.0.0.1:{port}", window_messages=10, outgoing=[{"queue": "q"}])
    client = await broker.connect()
    await client.subscribe("out/#")
    for number in range(50):
        await client.publish("out/x", b"%d" % number, qos=1)
    assert len(await client.payloads(50)) == 50
    queue = await queue_shows(broker, lambda queue: queue.unacked_count == 10)
    assert queue.ready_count == 40
    await configure(broker)
    await queue_shows(broker, lambda queue: queue.ready_count == 50)
    server.close()
    await has_ended.wait()
