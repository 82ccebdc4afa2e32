"""Bridges over MQTT 3.1.1, by another client library: what differs from MQTT 5."""

from pathlib import Path

from support.bridges.brokers import (
    all_up,
    another_broker,
    configure,
    connect,
    mqtt_url,
    rule,
    shows,
    takes_the_right_certificates,
)
from support.broker.named_queues import create
from support.broker.named_queues import shows as queue_shows
from support.broker.running_broker import RunningBroker
from support.network.certificates import make_certificates

COUNT = 200


async def test_messages_go_both_ways_and_are_settled_when_the_other_side_has_them(
    broker: RunningBroker, tmp_path: Path
) -> None:
    await create(broker, "q", subscriptions=["out/>"])
    await create(broker, "back", subscriptions=["in/>"])
    async with another_broker(tmp_path) as other:
        reader = await other.connect("reader")
        await reader.subscribe("from-a/#", qos=1)
        outgoing = {"queue": "q", "strip_prefix": "out/", "add_prefix": "from-a/"}
        incoming = [{"remote_topic": "alarms/#", "add_prefix": "in/"}, {"remote_topic": "state/+", "qos": 0}]
        await connect(broker, mqtt_version="3.1.1", remote_url=mqtt_url(other), outgoing=[outgoing], incoming=incoming)
        here, there = await broker.connect(), await other.connect()
        await here.publish("out/line/1", b"1", qos=1)
        got = await reader.message()
        assert (got.topic, got.payload, got.qos) == ("from-a/line/1", b"1", 1)
        await queue_shows(broker, lambda queue: not queue.ready_count and not queue.unacked_count)
        await here.subscribe("state/#")
        await there.publish("alarms/fire", b"2", qos=1)
        await there.publish("state/x", b"3", qos=0)
        await queue_shows(broker, lambda queue: queue.ready_count == 1, "back")
        assert (await here.message()).payload == b"3"
        await shows(broker, lambda view: [each.messages for each in view.rules] == [1, 1, 1])


async def test_nothing_is_lost_when_connections_are(broker: RunningBroker, tmp_path: Path) -> None:
    await create(broker, "q", subscriptions=["out/>"])
    await create(broker, "back", subscriptions=["in/>"])
    async with another_broker(tmp_path) as other:
        await create(other, "got", subscriptions=["hq/>"])
        outgoing = [{"queue": "q", "add_prefix": "hq/"}]
        incoming = [{"remote_topic": "in/#"}]
        await connect(broker, mqtt_version="3.1.1", remote_url=mqtt_url(other), outgoing=outgoing, incoming=incoming)
        here, there = await broker.connect(), await other.connect()
        for number in range(COUNT):
            await here.publish("out/x", b"%d" % number, qos=1)
            await there.publish("in/x", b"%d" % number, qos=1)
            if number % 60 == 30:
                other.node.disconnect(other.node.default, "sluicegate-b")
                await shows(broker, all_up)
        for at, name in ((other, "got"), (broker, "back")):
            consumer = await at.connect("", 5)
            await consumer.subscribe(f"$queue/{name}", qos=1)
            got: set[int] = set()
            while len(got) < COUNT:
                message = await consumer.message()
                consumer.acknowledge(message)
                got.add(int(message.payload))


async def test_a_wrong_password_is_the_reason(broker: RunningBroker, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("wrong\n")
    async with another_broker(tmp_path, me="right") as other:
        told = {
            "remote_url": mqtt_url(other),
            "mqtt_version": "3.1.1",
            "username": "me",
            "password_file": str(password),
            "outgoing": [{"topic": "a/#"}],
        }
        await configure(broker, told)
        view = await shows(broker, lambda view: view.failures >= 1)
        assert view.reason == "the connection was refused: Not authorized (5)"
        password.write_text("right\n")
        await configure(broker, told)
        await shows(broker, all_up)


async def test_a_bridge_uses_tls_and_shows_its_certificate(broker: RunningBroker, tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = made.in_tls("listeners.mqtt_tls")
    async with another_broker(tmp_path, *tls, f"listeners.mqtt_tls.client_ca={made.authority}") as other:
        port = other.node.mqtt.listeners["mqtt_tls"].port
        url = f"mqtts://127.0.0.1:{port}"
        await takes_the_right_certificates(broker, made, remote_url=url, mqtt_version="3.1.1")


async def test_an_absent_foreign_broker_is_the_reason(broker: RunningBroker, tmp_path: Path) -> None:
    async with another_broker(tmp_path) as other:
        url = mqtt_url(other)
    await configure(broker, {"remote_url": url, "mqtt_version": "3.1.1", "outgoing": [{"topic": "a/#"}]})
    view = await shows(broker, lambda view: view.failures >= 1)
    assert view.reason == "Connection refused"
    assert rule(view, "outgoing").reason == "not connected yet"
