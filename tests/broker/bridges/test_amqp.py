"""Bridges over AMQP 1.0: messages with their properties, outcomes, refusals, and foreign brokers that come and go."""

from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.testing.ports import free_port
from support.bridges.brokers import (
    all_up,
    another_broker,
    configure,
    connect,
    rule,
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
MANY = 250  # topics: more than a bridge has links


def amqp_url(broker: RunningBroker) -> str:
    return f"amqp://127.0.0.1:{broker.amqp_port}"


async def numbers_of(broker: RunningBroker, queue: str, count: int) -> list[int]:
    """Consume a queue until so many different numbers were there; return all in their order."""
    consumer = await broker.connect("", 5)
    await consumer.subscribe(f"$queue/{queue}", qos=1)
    got: list[int] = []
    while len(set(got)) < count:
        message = await consumer.message()
        consumer.acknowledge(message)
        got.append(int(message.payload))
    return got


async def test_messages_of_a_queue_go_to_a_queue_and_are_settled_then(broker: RunningBroker, tmp_path: Path) -> None:
    await create(broker, "q", subscriptions=["out/>"])
    publisher = await broker.connect()
    await publisher.publish("out/1", b"1", qos=1)
    async with another_broker(tmp_path) as other:
        await create(other, "got")
        view = await connect(broker, remote_url=amqp_url(other), outgoing=[{"queue": "q", "remote_queue": "got"}])
        assert view.up
        await publisher.publish("out/2", b"2", qos=1)
        assert await numbers_of(other, "got", 2) == [1, 2]
        await queue_shows(broker, lambda queue: not queue.ready_count and not queue.unacked_count)
        await shows(broker, lambda view: rule(view, "outgoing").messages == 2)


async def test_messages_of_a_foreign_queue_come_here_and_are_settled_when_they_are_stored(
    broker: RunningBroker, tmp_path: Path
) -> None:
    await create(broker, "q")
    async with another_broker(tmp_path) as other:
        await create(other, "theirs", subscriptions=["in/>"])
        publisher = await other.connect()
        await publisher.publish("in/1", b"1", qos=1)
        await connect(broker, remote_url=amqp_url(other), incoming=[{"remote_queue": "theirs", "queue": "q"}])
        await publisher.publish("in/2", b"2", qos=1)
        assert await numbers_of(broker, "q", 2) == [1, 2]
        await queue_shows(other, lambda queue: not queue.ready_count and not queue.unacked_count, "theirs")
        await shows(broker, lambda view: rule(view, "incoming").messages == 2)


async def test_topics_are_mapped_in_both_directions(broker: RunningBroker, tmp_path: Path) -> None:
    async with another_broker(tmp_path) as other:
        await connect(
            broker,
            remote_url=amqp_url(other),
            outgoing=[{"topic": "state/#", "strip_prefix": "state/", "add_prefix": "from-a/"}],
            incoming=[{"remote_topic": "alarms/#", "strip_prefix": "alarms/", "add_prefix": "in/", "qos": 0}],
        )
        here, there = await broker.connect(), await other.connect()
        await here.subscribe("in/#")
        await there.subscribe("from-a/#")
        await here.publish("state/x/y", b"1", qos=0)
        await there.publish("alarms/fire", b"2", qos=0)
        got = await there.message()
        assert (got.topic, got.payload) == ("from-a/x/y", b"1")
        got = await here.message()
        assert (got.topic, got.payload) == ("in/fire", b"2")


@pytest.mark.parametrize("add_prefix", ["", "topic://"])
async def test_more_topics_than_links_are_reached(broker: RunningBroker, tmp_path: Path, add_prefix: str) -> None:
    """With a link for each; or with one for all, where the address says that it is a topic."""
    await create(broker, "q", subscriptions=["out/>"])
    async with another_broker(tmp_path) as other:
        await create(other, "got", subscriptions=["out/>"])
        outgoing = {"queue": "q", "add_prefix": add_prefix}
        await connect(broker, remote_url=amqp_url(other), window_messages=1000, outgoing=[outgoing])
        publisher = await broker.connect()
        for number in range(MANY):
            await publisher.publish(f"out/{number}", b"%d" % number, qos=1)
        assert sorted(await numbers_of(other, "got", MANY)) == [*range(MANY)]
        await shows(broker, lambda view: rule(view, "outgoing").messages == MANY)


async def test_properties_travel_and_a_key_is_a_key_on_both_sides(broker: RunningBroker, tmp_path: Path) -> None:
    """Over both directions of a bridge each: AMQP's group-id is the key."""
    await create(broker, "q", subscriptions=["out/>"], respect_ttl_enabled=True)
    async with another_broker(tmp_path) as other:
        await create(other, "got", access_type="non-exclusive", partition_count=4, respect_ttl_enabled=True)
        await connect(broker, remote_url=amqp_url(other), outgoing=[{"queue": "q", "remote_queue": "got"}])
        publisher = await broker.connect("", 5)
        properties = b"".join(
            (
                mqtt.message_expiry(60),
                mqtt.content_type("text/x"),
                mqtt.response_topic("answers"),
                mqtt.correlation_data(b"c1"),
                mqtt.user_property("JMSXGroupID", "line-7"),
                mqtt.user_property("unit", "°C"),
                mqtt.user_property("subject", "a subject"),
            )
        )
        await publisher.publish("out/x", b"1", qos=1, properties=properties)
        consumer = await other.connect("", 5)
        await consumer.subscribe("$queue/got", qos=1)
        got = await consumer.message()
        [left_s] = got.values(EXPIRY)
        assert isinstance(left_s, int)
        assert 50 < left_s <= 60
        assert got.values(CONTENT_TYPE) == ["text/x"]
        assert got.values(RESPONSE_TOPIC) == ["answers"]
        assert got.values(CORRELATION) == [b"c1"]
        told = dict(each for each in got.values(USER_PROPERTY) if isinstance(each, tuple))
        assert told["JMSXGroupID"] == "line-7"
        assert told["unit"] == "°C"
        assert told["subject"] == "a subject"
        assert told["Sluicegate-Path"] == "sluicegate/default/b"


async def test_a_message_that_comes_back_is_dropped_and_counted(broker: RunningBroker, tmp_path: Path) -> None:
    """The property `Sluicegate-Path` travels as an application property."""
    await create(broker, "q", subscriptions=["out/>"])
    await create(broker, "back")
    async with another_broker(tmp_path) as other:
        await create(other, "round")
        await connect(
            broker,
            remote_url=amqp_url(other),
            outgoing=[{"queue": "q", "remote_queue": "round"}],
            incoming=[{"remote_queue": "round", "queue": "back"}],
        )
        publisher = await broker.connect()
        await publisher.publish("out/x", b"1", qos=1)
        await shows(broker, lambda view: rule(view, "incoming").dropped == {"came_back": 1})
        await queue_shows(broker, lambda queue: not queue.ready_count, "back")
        await queue_shows(other, lambda queue: not queue.ready_count and not queue.unacked_count, "round")


async def test_nothing_is_lost_when_connections_are(broker: RunningBroker, tmp_path: Path) -> None:
    count = 300
    await create(broker, "q", subscriptions=["out/>"])
    await create(broker, "back")
    async with another_broker(tmp_path) as other:
        await create(other, "got")
        await create(other, "theirs", subscriptions=["in/>"])
        await connect(
            broker,
            remote_url=amqp_url(other),
            outgoing=[{"queue": "q", "remote_queue": "got"}],
            incoming=[{"remote_queue": "theirs", "queue": "back"}],
        )
        here, there = await broker.connect(), await other.connect()
        for number in range(count):
            await here.publish("out/x", b"%d" % number, qos=1)
            await there.publish("in/x", b"%d" % number, qos=1)
            if number % 100 == 50:
                other.node.disconnect(other.node.default, "sluicegate-b")
                await shows(broker, all_up)
        for at, name in ((other, "got"), (broker, "back")):
            assert list(dict.fromkeys(await numbers_of(at, name, count))) == [*range(count)]


async def test_what_the_foreign_broker_never_takes_is_rejected(broker: RunningBroker, tmp_path: Path) -> None:
    """3.4.3; here larger than the link's max-message-size."""
    await create(broker, "dead")
    await create(broker, "q", subscriptions=["out/>"], dead_msg_queue="dead")
    async with another_broker(tmp_path, "amqp.max_message_size=20KiB") as other:
        await create(other, "got")
        await connect(broker, remote_url=amqp_url(other), outgoing=[{"queue": "q", "remote_queue": "got"}])
        publisher = await broker.connect()
        await publisher.publish("out/x", b"1" * 50_000, qos=1)
        await publisher.publish("out/x", b"2", qos=1)
        assert await numbers_of(other, "got", 1) == [2]
        await shows(broker, lambda view: rule(view, "outgoing").dropped == {"refused": 1})
        await queue_shows(broker, lambda queue: not queue.ready_count and not queue.unacked_count)


async def test_a_link_that_is_refused_is_the_reason_and_is_tried_again(broker: RunningBroker, tmp_path: Path) -> None:
    async with another_broker(tmp_path) as other:
        told = {"remote_url": amqp_url(other), "incoming": [{"remote_queue": "theirs", "topic": "in"}]}
        await configure(broker, told)
        view = await shows(broker, lambda view: view.failures >= 1)
        assert "the foreign broker has refused the link from 'theirs': amqp:not-found" in view.reason
        assert "(rule 'theirs')" in view.reason
        await create(other, "theirs")
        await shows(broker, all_up)


async def test_messages_wait_in_their_queue_while_the_foreign_broker_is_away(
    broker: RunningBroker, tmp_path: Path
) -> None:
    await create(broker, "q", subscriptions=["out/>"])
    async with another_broker(tmp_path, f"listeners.amqp.port={free_port()}") as other:
        await create(other, "got")
        await connect(broker, remote_url=amqp_url(other), outgoing=[{"queue": "q", "remote_queue": "got"}])
        await other.stop()
        await shows(broker, lambda view: view.failures >= 1 and not view.up)
        publisher = await broker.connect()
        await publisher.publish("out/x", b"1", qos=1)
        await queue_shows(broker, lambda queue: queue.ready_count == 1)
        await other.start()
        assert await numbers_of(other, "got", 1) == [1]


async def test_a_wrong_password_is_the_reason(broker: RunningBroker, tmp_path: Path) -> None:
    reason = "the sign-in was refused: amqp:unauthorized-access"
    async with another_broker(tmp_path, me="right") as other:
        await takes_the_right_password(broker, amqp_url(other), tmp_path, reason=reason)


async def test_the_path_of_the_url_is_the_message_vpn(broker: RunningBroker, tmp_path: Path) -> None:
    """2.7.1: `hostname` of open is `vhost:NAME`, as RabbitMQ has it."""
    async with another_broker(tmp_path, "vpns.sales.max_retained_message_count=1") as other:
        told = {"remote_url": amqp_url(other) + "/nobody", "outgoing": [{"topic": "a/#"}]}
        await configure(broker, told)
        view = await shows(broker, lambda view: view.failures >= 1)
        assert "nobody" in view.reason
        await configure(broker, {**told, "remote_url": amqp_url(other) + "/sales"})
        await shows(broker, all_up)


async def test_a_bridge_uses_tls_and_shows_its_certificate(broker: RunningBroker, tmp_path: Path) -> None:
    """SASL EXTERNAL, where a client certificate is all that it has."""
    made = make_certificates(tmp_path)
    tls = made.in_tls("listeners.amqp_tls")
    async with another_broker(tmp_path, *tls, f"listeners.amqp_tls.client_ca={made.authority}") as other:
        port = other.node.amqp.listeners["amqp_tls"].port
        await takes_the_right_certificates(broker, made, remote_url=f"amqps://127.0.0.1:{port}")


async def test_large_messages_cross_in_many_frames(broker: RunningBroker, tmp_path: Path) -> None:
    await create(broker, "q", subscriptions=["out/>"])
    await create(broker, "back")
    async with another_broker(tmp_path) as other:
        await create(other, "got", subscriptions=["in/>"])
        await connect(
            broker,
            remote_url=amqp_url(other),
            window_bytes=65_536,
            outgoing=[{"queue": "q", "remote_topic": "in/x"}],
            incoming=[{"remote_queue": "got", "queue": "back", "name": "i"}],
        )
        publisher, there = await broker.connect(), await other.connect()
        consumer = await broker.connect("", 5)
        await consumer.subscribe("$queue/back", qos=1)
        for number in range(3):
            await there.publish("in/y", b"%d" % number * 700_000, qos=1)
            message = await consumer.message()
            consumer.acknowledge(message)
            assert message.payload == b"%d" % number * 700_000
        await publisher.publish("out/x", b"3" * 700_000, qos=1)
        await shows(broker, lambda view: rule(view, "incoming").dropped == {"came_back": 1})
