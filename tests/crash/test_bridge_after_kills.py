"""kill -9 of either end of a bridge under load: nothing that was confirmed is lost, and QoS 2 is not doubled.

The ledger: each message is confirmed to its publisher by the broker `here`, crosses the bridge to the broker `there`,
and lies in a queue there at the end.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from support.foreign.paho_client import PahoClient
from support.processes.gateway import GatewayProcess, wait_until
from support.thorough import cases, only_thorough

SEED = 20_261_127
ROUNDS = 2
PER_ROUND = (150, 500)  # how much is published before the next kill; drawn
DRAIN_S = 90

pytestmark = [pytest.mark.crash, pytest.mark.slow]


class Publisher:
    """Publishes numbers with QoS 1, again and again until each is confirmed, over crashes of its broker."""

    def __init__(self, port: int) -> None:
        self._sent: list[mqtt.MQTTMessageInfo] = []  # by number
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, "load", protocol=MQTTProtocolVersion.MQTTv5)
        self._client.reconnect_delay_set(1, 1)
        self._client.max_inflight_messages_set(50)
        self._client.connect("127.0.0.1", port, clean_start=False)
        self._client.loop_start()
        wait_until(self._client.is_connected, within_s=DRAIN_S, what="CONNACK")  # paho repeats what was sent before it

    def publish(self, count: int) -> None:
        """Publish so many more, and wait for none. Paho counts as failed what it publishes without a connection."""
        wait_until(self._client.is_connected, within_s=DRAIN_S, what="a connection")
        for _ in range(count):
            self._sent.append(self._client.publish("out/x", b"%d" % len(self._sent), 1))

    def finish(self) -> set[int]:
        """Wait until everything is confirmed; return the numbers."""
        wait_until(lambda: all(each.is_published() for each in self._sent), within_s=DRAIN_S, what="all confirmations")
        self._client.disconnect()
        self._client.loop_stop()
        return set(range(len(self._sent)))


def bridge_up(node: GatewayProcess) -> bool:
    return node.metric("sluicegate_bridge_up", bridge="b") == 1


@contextmanager
def bridged(
    tmp_path: Path, url: Callable[[GatewayProcess], str], **settings: str
) -> Iterator[tuple[GatewayProcess, GatewayProcess]]:
    """Yield two brokers, with a bridge from a queue of the first to a queue of the second."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    with GatewayProcess(tmp_path / "there", {"node.name": "there"}) as there:
        there.create_queue("got", subscriptions=["out/>"])
        with GatewayProcess(tmp_path / "here", {"node.name": "here"}) as here:
            here.create_queue("q", subscriptions=["out/>"])
            given = [f"{key}={value}" for key, value in settings.items()]
            made = here.command("bridge", "create", "b", f"remote_url={url(there)}", "retry_delay_s=1", *given)
            assert made.returncode == 0, made.stderr
            wait_until(lambda: bridge_up(here), within_s=DRAIN_S, what="the bridge")
            yield here, there


def something_crosses(there: GatewayProcess) -> None:
    """Wait until there is more in the queue there."""
    before = there.held_count("got")
    wait_until(lambda: there.held_count("got") > before, within_s=DRAIN_S, what="messages there")


def received(there: GatewayProcess, count: int) -> Counter[int]:
    """Consume all that lies in the queue there."""
    got: Counter[int] = Counter()
    with PahoClient("reader") as reader:
        reader.connect(there.mqtt_port)
        reader.subscribe("$queue/got", 1)
        for _ in range(count):
            got[int(reader.next().payload)] += 1
    return got


def mqtt_url(node: GatewayProcess) -> str:
    return f"mqtt://127.0.0.1:{node.mqtt_port}"


def flow_url(node: GatewayProcess) -> str:
    return f"flow://127.0.0.1:{node.ports['flow']}"


@pytest.mark.parametrize(
    ("url", "version", "qos"),
    [
        pytest.param(mqtt_url, "5", 1, id="mqtt-5-qos-1", marks=only_thorough),
        pytest.param(mqtt_url, "5", 2, id="mqtt-5-qos-2"),
        pytest.param(mqtt_url, "3.1.1", 1, id="mqtt-3-qos-1"),
        pytest.param(mqtt_url, "3.1.1", 2, id="mqtt-3-qos-2", marks=only_thorough),
        pytest.param(flow_url, "5", 2, id="flow-qos-2"),
    ],
)
def test_the_other_broker_is_killed(
    tmp_path: Path, url: Callable[[GatewayProcess], str], version: str, qos: int
) -> None:
    random.seed(SEED)
    rule = json.dumps([{"queue": "q", "qos": qos}])
    with bridged(tmp_path, url, mqtt_version=version, outgoing=rule) as (here, there):
        publisher = Publisher(here.mqtt_port)
        for _ in range(ROUNDS):
            publisher.publish(random.randint(*PER_ROUND))
            something_crosses(there)
            there.kill9()
            publisher.publish(random.randint(*PER_ROUND) // 4)  # they wait in the queue here
            there.start()
            wait_until(lambda: bridge_up(here), within_s=DRAIN_S, what="the bridge")
        confirmed = publisher.finish()
        wait_until(lambda: here.held_count("q") == 0, within_s=DRAIN_S, what="an empty queue")
        got = received(there, there.held_count("got"))
        assert confirmed <= set(got), "confirmed and lost"
        if qos == 2:
            doubled = sorted(number for number, count in got.items() if count > 1)
            assert doubled == []


@pytest.mark.parametrize("url", cases([mqtt_url, flow_url], each_run=1), ids=["mqtt-5", "flow"])
def test_the_broker_with_the_bridge_is_killed(tmp_path: Path, url: Callable[[GatewayProcess], str]) -> None:
    random.seed(SEED)
    rule = json.dumps([{"queue": "q", "qos": 2}])
    with bridged(tmp_path, url, outgoing=rule) as (here, there):
        publisher = Publisher(here.mqtt_port)
        for _ in range(ROUNDS):
            publisher.publish(random.randint(*PER_ROUND))
            something_crosses(there)
            here.kill9()
            here.start()
            wait_until(lambda: bridge_up(here), within_s=DRAIN_S, what="the bridge")
        confirmed = publisher.finish()
        wait_until(lambda: here.held_count("q") == 0, within_s=DRAIN_S, what="an empty queue")
        got = received(there, there.held_count("got"))
        assert confirmed <= set(got), "confirmed and lost"
