"""`$SYS/broker/...`: the state of the node, under the names of mosquitto."""

import math
import re
from pathlib import Path

import pytest

from sluicegate.gateway.config.load import load
from sluicegate.gateway.observability.broker_topics import LOADS, PREFIX, BrokerFigures, LoadAverages, values_of
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import RawClient

EVERY_LEVEL = pytest.mark.parametrize("level", [3, 4, 5])
EVERY_SECOND = pytest.mark.settings("mqtt.sys_interval_s=1")
TOPICS_COUNT = 20
LOADS_COUNT = 24


async def values(client: RawClient, count: int = TOPICS_COUNT, topic_filter: str = "$SYS/broker/#") -> dict[str, str]:
    """Return the retained values by topic, without the prefix."""
    await client.subscribe(topic_filter)
    found: dict[str, str] = {}
    while len(found) < count:
        message = await client.message()
        found[message.topic.removeprefix(PREFIX)] = message.payload.decode()
    return found


async def test_there_are_none_by_default(broker: RunningBroker) -> None:
    client = await broker.connect()
    await client.subscribe("$SYS/#")
    await client.is_quiet()
    assert broker.node.default.space.retained.count == 0


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
    while (
        seen["clients/connected"] != "2"
        or seen["clients/disconnected"] != "1"
        or seen["publish/messages/received"] != "1"
        or float(seen["load/publish/received/1min"]) == 0
    ):
        message = await watcher.message()
        seen[message.topic.removeprefix(PREFIX)] = message.payload.decode()
    assert seen["clients/total"] == "3"
    assert seen["clients/inactive"] == seen["clients/disconnected"]
    assert float(seen["load/publish/received/1min"]) > float(seen["load/publish/received/15min"])
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
    assert retained.count >= TOPICS_COUNT
    off = load(None, settings=(*broker.settings, "mqtt.sys_interval_s=0"))
    await broker.node.reload(off)
    assert retained.count == 0
    await broker.node.reload(broker.config)
    assert retained.count >= TOPICS_COUNT
    retained.check()


@EVERY_SECOND
async def test_they_are_not_stored(broker: RunningBroker) -> None:
    await broker.restart("mqtt.sys_interval_s=0")
    assert broker.node.default.space.retained.count == 0


def figures(received_total: int) -> BrokerFigures:
    return BrokerFigures(
        uptime_s=0, clients_connected=0, sessions_count=0, subscriptions_count=0, retained_count=0, stored_count=0,
        stored_bytes=0, sockets_total=0, received_total=received_total, sent_total=0, dropped_total=0,
        bytes_received_total=0, bytes_sent_total=0,
    )  # fmt: skip


def test_load_averages_are_those_of_mosquitto() -> None:
    """Per minute, and weighted by exp(-interval / period) (`sys_tree.c`)."""
    averages = LoadAverages()
    for step in range(6):
        averages.add(figures(step * 10), figures(step * 10 + 10), 10.0)
    shown = averages.values()
    for minutes in (1, 5, 15):
        expected = 60 * (1 - math.exp(-60 / (60 * minutes)))
        assert shown[f"load/publish/received/{minutes}min"] == f"{expected:.2f}"
        assert shown[f"load/publish/sent/{minutes}min"] == "0.00"


def test_the_page_has_all_topics() -> None:
    """docs/connect/mqtt.md, the table of `$SYS/broker`."""
    page = (Path(__file__).parents[3] / "docs" / "connect" / "mqtt.md").read_text()
    section = page.split("## $SYS/broker")[1].split("\n## ")[0]
    assert len(values_of(figures(0), 0)) == TOPICS_COUNT
    for topic in [*values_of(figures(0), 0), *[topic for topic, _ in LOADS]]:
        assert f"`{topic}" in section, topic
