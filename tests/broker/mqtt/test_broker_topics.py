"""`$SYS/broker/...`: the state of the node, under the names of mosquitto."""

import math
import re
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.config.load import load
from sluicegate.gateway.observability.broker_topics import (
    LOADS,
    PREFIX,
    TRAFFIC_TOPICS,
    VPN_TOPICS,
    BrokerFigures,
    BrokerTopics,
    LoadAverages,
    TrafficFigures,
    values_of,
)
from sluicegate.messaging.routing.destinations import Subscriber, Subscription
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from support.broker.inside_client import until
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import RawClient

EVERY_LEVEL = pytest.mark.parametrize("level", [3, 4, 5])
EVERY_SECOND = pytest.mark.settings("mqtt.sys_interval_s=1")
TOPICS_COUNT = 23
VPN_TOPICS_COUNT = 14  # in a message VPN other than `default`
LOADS_COUNT = 24


async def values(client: RawClient, count: int = TOPICS_COUNT, topic_filter: str = "$SYS/broker/#") -> dict[str, str]:
    """Return the retained values by topic, without the prefix."""
    await client.subscribe(topic_filter)
    found: dict[str, str] = {}
    while len(found) < count:
        message = await client.message()
        found[message.topic.removeprefix(PREFIX)] = message.payload.decode()
    return found


def is_published(broker: RunningBroker) -> bool:
    """Whether anything is retained."""
    return broker.node.default.space.retained.get(PREFIX + "uptime") is not None


@EVERY_SECOND
async def test_there_are_none_until_somebody_subscribes_and_after_the_last_has_gone(broker: RunningBroker) -> None:
    client = await broker.connect()
    await client.subscribe("#", "+/broker/uptime", "$SYS/LOG/#", "other/$SYS/broker/uptime")
    assert not is_published(broker)
    await client.subscribe("$SYS/+/uptime")
    assert (await client.message()).retain
    assert is_published(broker)
    await client.unsubscribe("$SYS/+/uptime")
    await until(lambda: not is_published(broker), "the end")
    assert broker.node.default.space.retained.count == 0
    broker.node.default.space.retained.check()
    await client.subscribe("$share/monitors/$SYS/broker/uptime")
    assert is_published(broker)


@pytest.mark.settings("mqtt.sys_interval_s=0")
async def test_with_an_interval_of_zero_there_are_none(broker: RunningBroker) -> None:
    client = await broker.connect()
    await client.subscribe("$SYS/#")
    await client.is_quiet()
    assert not is_published(broker)


async def test_by_default_they_are_there_for_who_subscribes(broker: RunningBroker) -> None:
    client = await broker.connect()
    assert len(await values(client)) == TOPICS_COUNT


async def test_a_session_that_stays_has_them_after_a_restart(broker: RunningBroker) -> None:
    client = await broker.connect_durable("monitor")
    await client.subscribe("$SYS/broker/uptime")
    await client.vanish()
    await broker.restart()
    assert is_published(broker)


@pytest.mark.settings("mqtt.sys_interval_s=1", "vpns.sales.max_connection_count=9")
async def test_a_message_vpn_is_told_of_itself_alone(broker: RunningBroker) -> None:
    """What others send is not its business: there are no counts of messages and bytes."""
    await broker.connect("elsewhere")
    monitor = await broker.connect("monitor", user_name="x@sales")
    found = await values(monitor, VPN_TOPICS_COUNT)
    assert (found["clients/connected"], found["clients/total"], found["clients/maximum"]) == ("1", "1", "1")
    assert not [topic for topic in found if topic.startswith(("load/", "bytes/", "messages/re", "heap/"))]
    await monitor.round_trip()
    assert not is_published(broker)


@EVERY_SECOND
async def test_sessions_that_expire_are_counted(broker: RunningBroker) -> None:
    client = await broker.connect("away", 5, properties=mqtt.session_expiry(1))
    await client.vanish()
    await until(lambda: broker.node.default.sessions_count == 0, "the end of the session")
    found = await values(await broker.connect("watcher"))
    assert (found["clients/expired"], found["clients/total"], found["clients/maximum"]) == ("1", "1", "1")


@EVERY_SECOND
@EVERY_LEVEL
async def test_a_subscriber_gets_all_values_at_once_and_then_what_changes(broker: RunningBroker, level: int) -> None:
    client = await broker.connect(level=level)
    found = await values(client)
    assert re.fullmatch(r"\d+ seconds", found["uptime"])
    assert found["version"].startswith("sluicegate version ")
    while True:
        message = await client.message()
        if message.topic == PREFIX + "uptime" and not message.retain:
            break
    assert message.qos == 0
    assert re.fullmatch(r"\d+ seconds", message.payload.decode())


@EVERY_SECOND
async def test_values_follow_what_happens(broker: RunningBroker) -> None:
    await (await broker.connect_durable("away")).vanish()
    publisher = await broker.connect("publisher")
    await publisher.publish("kept", retain=True)
    watcher = await broker.connect("watcher")
    seen = await values(watcher, TOPICS_COUNT + LOADS_COUNT)
    await publisher.publish("other")
    while (
        seen["clients/connected"] != "2"
        or seen["clients/disconnected"] != "1"
        or seen["publish/messages/received"] != "2"
        or float(seen["load/publish/received/1min"]) <= float(seen["load/publish/received/15min"])
    ):
        message = await watcher.message()
        seen[message.topic.removeprefix(PREFIX)] = message.payload.decode()
    assert seen["clients/total"] == "3"
    assert seen["clients/inactive"] == seen["clients/disconnected"]
    assert int(seen["bytes/received"]) > 0
    assert int(seen["retained messages/count"]) >= 1


@EVERY_SECOND
@EVERY_LEVEL
async def test_wildcards_do_not_match_them_and_nobody_publishes_there(broker: RunningBroker, level: int) -> None:
    """[4.7.2-1]; PUBLISH is refused by 0x87 in 5.0, and acknowledged and dropped in 3.x."""
    client = await broker.connect(level=level)
    await client.subscribe("#", "+/broker/uptime")
    assert await client.publish("$SYS/broker/uptime", b"forged", retain=True) == (0x87 if level == 5 else 0)
    await client.is_quiet()


@pytest.mark.settings(
    "mqtt.sys_interval_s=1",
    "authentication.acl_profiles=[{name: default, subscribe_topic_default_action: allow, "
    "publish_topic_default_action: allow, subscribe_topic_exceptions: [{topic: '$SYS/broker/>'}]}]",
)
@pytest.mark.parametrize(("level", "code"), [(4, 0x80), (5, 0x87)])
async def test_reading_them_needs_the_right(broker: RunningBroker, level: int, code: int) -> None:
    client = await broker.connect(level=level)
    assert await client.subscribe("$SYS/broker/#", "$SYS/broker/uptime", "other") == [code, code, 0]


@EVERY_SECOND
async def test_a_reload_switches_them_off_and_on(broker: RunningBroker) -> None:
    """Nothing stays retained, and no timer runs."""
    retained = broker.node.default.space.retained
    await values(await broker.connect())
    assert retained.count >= TOPICS_COUNT
    off = load(None, settings=(*broker.settings, "mqtt.sys_interval_s=0"))
    await broker.node.reload(off)
    assert retained.count == 0
    await broker.node.reload(broker.config)
    assert retained.count >= TOPICS_COUNT
    retained.check()


@EVERY_SECOND
async def test_they_are_not_stored(broker: RunningBroker) -> None:
    await values(await broker.connect())
    await broker.restart("mqtt.sys_interval_s=0")
    assert broker.node.default.space.retained.count == 0


async def test_a_filter_that_matches_none_of_them_has_no_session_looked_at(broker: RunningBroker) -> None:
    """The figures are counted over all sessions: for who gets them, and not with each subscription below `$SYS/`."""
    services, space, counted = broker.node.services, TopicSpace(), []

    def count() -> BrokerFigures:
        counted.append("all sessions")
        return figures()

    spool, own = services.spool.inbox, broker.node.event_log.inbox
    topics = BrokerTopics(services.runtime, space, figures=count, tells_traffic=True, spool=spool, own=own)
    topics.follow(10)
    for text in ("$SYS/broker/nothing", "$SYS/LOG/#", "$SYS/other/+"):
        space.subscribe(parse_filter(text, Syntax.MQTT), text, Subscription(Subscriber("c"), 0))
    assert not counted
    load_topics = parse_filter("$SYS/broker/load/+/received/5min", Syntax.MQTT)
    space.subscribe(load_topics, "loads", Subscription(Subscriber("c"), 0))
    assert counted == ["all sessions"]
    topics.end()


def test_the_names_that_are_looked_for_are_those_of_the_values() -> None:
    assert tuple(values_of(figures())) == (*VPN_TOPICS, *TRAFFIC_TOPICS)


def traffic(received_total: int) -> TrafficFigures:
    return TrafficFigures(
        sockets_total=0, received_total=received_total, sent_total=0, dropped_total=0,
        bytes_received_total=0, bytes_sent_total=0, memory_bytes=1, memory_bytes_max=1,
    )  # fmt: skip


def figures() -> BrokerFigures:
    return BrokerFigures(
        uptime_s=0, clients_connected=0, sessions_count=0, sessions_count_max=0, expired_total=0,
        subscriptions_count=0, retained_count=0, stored_count=0, stored_bytes=0, traffic=traffic(0),
    )  # fmt: skip


def test_load_averages_are_those_of_mosquitto() -> None:
    """Per minute, and weighted by exp(-interval / period) (`sys_tree.c`)."""
    averages = LoadAverages(traffic(0), 0)
    for step in range(6):
        averages.add(traffic(step * 10), traffic(step * 10 + 10), 10.0)
    shown = averages.values()
    for minutes in (1, 5, 15):
        expected = 60 * (1 - math.exp(-60 / (60 * minutes)))
        assert shown[f"load/publish/received/{minutes}min"] == f"{expected:.2f}"
        assert shown[f"load/publish/sent/{minutes}min"] == "0.00"


def test_load_averages_begin_with_that_since_the_start() -> None:
    assert LoadAverages(traffic(600), 120).values()["load/publish/received/1min"] == "300.00"


def test_the_page_has_all_topics() -> None:
    """docs/connect/mqtt.md, the table of `$SYS/broker`."""
    page = (Path(__file__).parents[3] / "docs" / "connect" / "mqtt.md").read_text()
    section = page.split("## $SYS/broker")[1].split("\n## ")[0]
    assert len(values_of(figures())) == TOPICS_COUNT
    for topic in [*values_of(figures()), *[topic for topic, _ in LOADS]]:
        assert f"`{topic}" in section, topic
