"""Bridges over the flow protocol: to another broker, and to another message VPN of the same one."""

from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from support.bridges.brokers import all_up, another_broker, configure, connect, rule, shows
from support.broker.named_queues import create
from support.broker.named_queues import shows as queue_shows
from support.broker.running_broker import RunningBroker
from support.processes.gateway import free_port

COUNT = 300
USER_PROPERTY = 38


def flow_url(broker: RunningBroker, vpn: str = "") -> str:
    return f"flow://127.0.0.1:{broker.node.flow.listeners['flow'].port}{f'/{vpn}' if vpn else ''}"


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
        for number in range(COUNT):
            await here.publish("out/x", b"%d" % number, qos=1)
            if number % 100 == 50:
                await other.crash()
        await queue_shows(broker, lambda queue: not queue.ready_count and not queue.unacked_count)
        queue = await queue_shows(other, lambda queue: queue.ready_count >= COUNT, "got")
        assert queue.ready_count == COUNT
        consumer = await other.connect("", 5)
        await consumer.subscribe("$queue/got", qos=1)
        assert [int(each) for each in await consumer.payloads(COUNT)] == list(range(COUNT))


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
