"""Bridges over the flow protocol: to another broker, and to another message VPN of the same one."""

import asyncio
import time
from functools import partial
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate import Client, Delivery, Message
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.queues.queues import QueueView
from sluicegate.messaging.message.headers import USER_PROPERTIES_MAX, UserPropertyValue
from sluicegate.protocols.bridges.remotes import flow
from sluicegate.protocols.flow.codec.frame import BIND
from sluicegate.testing.ports import free_port
from support.bridges.brokers import all_up, another_broker, configure, connect, rule, shown, shows
from support.broker.named_queues import change, create
from support.broker.named_queues import shown as queue_shown
from support.broker.named_queues import shows as queue_shows
from support.broker.running_broker import RunningBroker
from support.flow.cutting_proxy import CuttingProxy
from support.mqtt.raw_client import RawClient

COUNT = 300
MANY = 1500  # messages: some are under way whenever something happens
FAILURES = 2  # of an incoming rule
USER_PROPERTY = 38


def flow_url(broker: RunningBroker, vpn: str = "") -> str:
    return f"flow://127.0.0.1:{broker.node.flow.listeners['flow'].port}{f'/{vpn}' if vpn else ''}"


def has_at_least(count: int, queue: QueueView) -> bool:
    return queue.ready_count >= count


async def publish_numbers(client: RawClient, count: int) -> None:
    for number in range(count):
        await client.publish("out/x", b"%d" % number, qos=1)


async def test_messages_of_queues_go_both_ways(broker: RunningBroker, tmp_path: Path) -> None:
    await create(broker, "q", subscriptions=["out/>"])
    await create(broker, "back")
    async with another_broker(tmp_path) as other:
        await create(other, "got", subscriptions=["hq/>"])
        await create(other, "for-us", subscriptions=["in/>"])
        await connect(
            broker,
            remote_url=flow_url(other),
            outgoing=[{"queue": "q", "strip_prefix": "out/", "add_prefix": "hq/"}],
            incoming=[{"remote_queue": "for-us", "queue": "back"}],
        )
        here, there = await broker.connect("", 5), await other.connect("", 5)
        key = mqtt.user_property("JMSXGroupID", "line-7") + mqtt.content_type("text/x")
        await here.publish("out/x", b"1", qos=1, properties=key)
        await there.publish("in/x", b"2", qos=1, properties=key)
        await queue_shows(other, lambda queue: queue.ready_count == 1, "got")
        await queue_shows(broker, lambda queue: queue.ready_count == 1, "back")
        await there.subscribe("$queue/got", qos=1)
        got = await there.message()
        assert (got.topic, got.payload) == ("hq/x", b"1")
        assert ("JMSXGroupID", "line-7") in got.values(USER_PROPERTY)
        assert ("Sluicegate-Path", "sluicegate/default/b") in got.values(USER_PROPERTY)
        await queue_shows(broker, lambda queue: not queue.ready_count and not queue.unacked_count)
        await queue_shows(other, lambda queue: not queue.ready_count and not queue.unacked_count, "for-us")


async def travelled(broker: RunningBroker, queue: str) -> Delivery:
    """Return the next message of a queue, accepted."""
    async with Client(flow_url(broker)) as client, client.consumer(queue) as consumer:
        delivery = await consumer.receive()
        delivery.accept()
        return delivery


@pytest.mark.parametrize("direction", ["outgoing", "incoming"])
async def test_a_message_arrives_with_all_properties_that_were_published(
    broker: RunningBroker, tmp_path: Path, direction: str
) -> None:
    """Flow: publishing, properties."""
    user_properties: list[tuple[str, UserPropertyValue]] = [
        ("n", 1),
        ("t", "x"),
        ("b", b"y"),
        ("none", None),
        ("n", 2.5),
        ("traceparent", "00-1-2-01"),
    ]
    is_outgoing = direction == "outgoing"
    async with another_broker(tmp_path) as other:
        from_, to = (broker, other) if is_outgoing else (other, broker)
        await create(from_, "from")
        await create(to, "to", respect_ttl_enabled=True)
        rule_of = {
            "outgoing": {"queue": "from", "remote_queue": "to"},
            "incoming": {"remote_queue": "from", "queue": "to"},
        }
        await connect(broker, remote_url=flow_url(other), **{direction: [rule_of[direction]]})
        async with Client(flow_url(from_)) as client, client.publisher() as publisher:
            await publisher.publish(
                Message(
                    b"payload",
                    queue="from",
                    key="k-1",
                    priority=7,
                    ttl_ms=3_600_000,
                    message_id="m-1",
                    correlation=b"c-1",
                    reply_to="answers",
                    content_type="text/plain",
                    timestamp_ms=1_700_000_000_000,
                    is_text=True,
                    dmq_eligible=True,
                    deliver_to_one=True,
                    eliding_eligible=True,
                    properties=user_properties,
                )
            )
            published_ms = time.time() * 1000
        got = await travelled(to, "to")
        got_ms = time.time() * 1000
    path = [("Sluicegate-Path", "sluicegate/default/b")] if is_outgoing else []
    assert got.properties == user_properties + path
    assert (got.payload, got.key, got.priority, got.is_text) == (b"payload", "k-1", 7, True)
    assert (got.message_id, got.correlation, got.reply_to) == ("m-1", b"c-1", "answers")
    assert (got.content_type, got.timestamp_ms) == ("text/plain", 1_700_000_000_000)
    assert (got.dmq_eligible, got.deliver_to_one, got.eliding_eligible) == (True, True, True)
    assert published_ms < got.expires_at_ms <= got_ms + 3_600_000  # what is on its way between two brokers does not age


async def test_what_the_other_broker_never_takes_is_rejected(broker: RunningBroker, tmp_path: Path) -> None:
    """More properties than a PUBLISH of the flow protocol has: it would end one connection after the other."""
    await create(broker, "dead")
    await create(broker, "q", subscriptions=["out/>"], dead_msg_queue="dead")
    async with another_broker(tmp_path) as other:
        await create(other, "got")
        await connect(broker, remote_url=flow_url(other), outgoing=[{"queue": "q", "remote_queue": "got"}])
        publisher = await broker.connect("", 5)
        too_many = b"".join(mqtt.user_property(str(number), "x") for number in range(USER_PROPERTIES_MAX))
        await publisher.publish("out/x", b"1", qos=1, properties=too_many)
        await publisher.publish("out/x", b"2", qos=1)
        assert (await travelled(other, "got")).payload == b"2"
        view = await shows(broker, lambda view: rule(view, "outgoing").dropped == {"refused": 1})
        assert (view.connections, view.failures) == (1, 0)
        await queue_shows(broker, lambda queue: not queue.ready_count and not queue.unacked_count)


async def test_a_message_of_a_dead_message_queue_says_why_it_died(broker: RunningBroker, tmp_path: Path) -> None:
    await create(broker, "dead")
    await create(broker, "q", dead_msg_queue="dead")
    async with Client(flow_url(broker)) as client:
        async with client.publisher() as publisher:
            await publisher.publish(Message(b"1", queue="q", dmq_eligible=True))
        async with client.consumer("q") as consumer:
            (await consumer.receive()).reject()
            await queue_shows(broker, lambda queue: queue.ready_count == 1, "dead")
    async with another_broker(tmp_path) as other:
        await create(other, "got")
        await connect(broker, remote_url=flow_url(other), outgoing=[{"queue": "dead", "remote_queue": "got"}])
        properties = dict((await travelled(other, "got")).properties)
    assert properties["sluicegate-dead-queue"] == "q"
    assert properties["sluicegate-dead-reason"] == "rejected"


async def test_direct_messages_go_both_ways(broker: RunningBroker, tmp_path: Path) -> None:
    async with another_broker(tmp_path) as other:
        await connect(
            broker,
            remote_url=flow_url(other),
            outgoing=[{"topic": "out/#"}],
            incoming=[{"remote_topic": "in/>", "qos": 0}],
        )
        here, there = await broker.connect(), await other.connect()
        await here.subscribe("in/#")
        await there.subscribe("out/#")
        await here.publish("out/x", b"1", qos=0)
        await there.publish("in/x", b"2", qos=0)
        assert (await here.message()).payload == b"2"
        assert (await there.message()).payload == b"1"


async def test_exactly_once_also_when_the_other_broker_crashes(broker: RunningBroker, tmp_path: Path) -> None:
    """A named publisher: the other broker knows what it has stored, over a crash of its own."""
    await create(broker, "q", subscriptions=["out/>"])
    async with another_broker(tmp_path, f"listeners.flow.port={free_port()}") as other:
        await create(other, "got", subscriptions=["out/>"], deliver_after_commit=True)
        await connect(broker, remote_url=flow_url(other), outgoing=[{"queue": "q", "qos": 2}])
        here = await broker.connect()
        publishing = asyncio.create_task(publish_numbers(here, COUNT))
        for stored_count in (1, COUNT // 3, 2 * COUNT // 3):
            await queue_shows(other, partial(has_at_least, stored_count), "got")
            await other.crash()
        await publishing
        await queue_shows(broker, lambda queue: not queue.ready_count and not queue.unacked_count)
        queue = await queue_shows(other, lambda queue: queue.ready_count >= COUNT, "got")
        assert queue.ready_count == COUNT
        consumer = await other.connect("", 5)
        await consumer.subscribe("$queue/got", qos=1)
        assert [int(each) for each in await consumer.payloads(COUNT)] == list(range(COUNT))


async def test_exactly_once_also_when_an_incoming_rule_fails(broker: RunningBroker, tmp_path: Path) -> None:
    """The connection ends with the rule; what it had under way keeps its sequences, and its order."""
    await create(broker, "q", subscriptions=["out/>"])
    here = await broker.connect()
    for number in range(MANY):
        await here.publish("out/x", b"%d" % number, qos=1)
    async with another_broker(tmp_path) as other:
        await create(other, "got", deliver_after_commit=True)
        await create(other, "for-us")
        told = {
            "remote_url": flow_url(other),
            "window_messages": 20,
            "outgoing": [{"queue": "q", "qos": 2, "remote_queue": "got"}],
            "incoming": [{"remote_queue": "for-us", "topic": "t"}],
        }
        await configure(broker, told)
        for _ in range(FAILURES):
            await shows(broker, lambda view: view.up and rule(view, "outgoing").unconfirmed > 0)
            await NodeOperations(other.node).delete_queue("for-us")
            await shows(broker, lambda view: not view.up and "for-us" in view.reason)
            await create(other, "for-us")
        await queue_shows(broker, lambda queue: not queue.ready_count and not queue.unacked_count)
        assert (await queue_shown(other, "got")).ready_count == MANY
        consumer = await other.connect("", 5)
        await consumer.subscribe("$queue/got", qos=1)
        assert [int(each) for each in await consumer.payloads(MANY)] == list(range(MANY))


async def test_no_more_messages_come_than_the_window_has_room_for(broker: RunningBroker, tmp_path: Path) -> None:
    """The window is that of all incoming rules together."""
    await create(broker, "full", max_msg_spool_usage=1)
    filler = await broker.connect("", 5)
    for _ in range(9):
        await filler.publish("$queue/full", b"x" * 100_000, qos=1)
    async with another_broker(tmp_path) as other:
        publisher = await other.connect("", 5)
        for queue in ("one", "two"):
            await create(other, queue, subscriptions=[f"{queue}/>"])
            for _ in range(20):
                await publisher.publish(f"{queue}/x", b"x" * 50_000, qos=1)
        told = {
            "remote_url": flow_url(other),
            "window_messages": 8,
            "incoming": [{"remote_queue": each, "queue": "full"} for each in ("one", "two")],
        }
        await configure(broker, told)
        await shows(broker, lambda view: any(each.failures > 1 for each in view.rules))
        queues = [await queue_shown(other, queue) for queue in ("one", "two")]
        assert 2 <= sum(each.unacked_count for each in queues) <= 8
        await change(broker, "full", max_msg_spool_usage=10)
        await queue_shows(broker, lambda queue: queue.ready_count == 49, "full")


async def test_a_broker_that_opens_nothing_is_given_up(
    broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the connection, and does not answer the request for a consumer. A pause ends the attempt at once."""
    async with another_broker(tmp_path) as other:
        await create(other, "q")
        with CuttingProxy(other.node.flow.listeners["flow"].port) as proxy:
            proxy.dies_at((BIND, 1), (BIND, 1), (BIND, 1), (BIND, 1))
            await configure(broker, {"remote_url": proxy.url, "incoming": [{"remote_queue": "q", "topic": "t"}]})
            await shows(broker, lambda view: view.state == "connecting")
            await NodeOperations(broker.node).pause_bridge("b")
            assert (await shown(broker)).state == "paused"
            monkeypatch.setattr(flow, "CONNECT_S_MAX", 1)
            await NodeOperations(broker.node).resume_bridge("b")
            view = await shows(broker, lambda view: view.failures >= 1)
            assert view.reason == "no consumer of the queue 'q' within 1 s"
            await NodeOperations(broker.node).pause_bridge("b")


@pytest.mark.settings("vpns.sales.authentication.allow_anonymous=true")
async def test_two_message_vpns_of_one_broker_are_joined(broker: RunningBroker, tmp_path: Path) -> None:
    await create(broker, "q", subscriptions=["out/>"])
    url = flow_url(broker, "sales")
    await connect(broker, remote_url=url, outgoing=[{"queue": "q", "remote_topic": "from/default"}])
    sales = broker.node.vpns["sales"]
    assert sales.bridges.views() == []
    publisher = await broker.connect()
    await publisher.publish("out/x", b"1", qos=1)
    view = await shows(broker, lambda view: rule(view, "outgoing").messages == 1)
    assert view.remote_url == url


async def test_a_refusal_is_the_reason(broker: RunningBroker, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("wrong\n")
    async with another_broker(tmp_path, me="right") as other:
        told = {
            "remote_url": flow_url(other),
            "username": "me",
            "password_file": str(password),
            "incoming": [{"remote_queue": "q", "topic": "t"}],
        }
        await configure(broker, told)
        view = await shows(broker, lambda view: view.failures >= 1)
        assert view.reason == "the gateway does not accept these credentials (SCRAM-SHA-256)"
        password.write_text("right\n")
        await configure(broker, told)
        view = await shows(broker, lambda view: "not_found" in view.reason or "queue" in view.reason)
        await create(other, "q")
        await shows(broker, all_up)
