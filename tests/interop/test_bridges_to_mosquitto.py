"""Bridges of the gateway to mosquitto: in both directions and versions, while mosquitto is killed and started again."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.foreign.brokers import Mosquitto, running
from support.foreign.paho_client import PahoClient
from support.load.bridged_load import BridgedLoad
from support.processes.foreign_programs import program
from support.processes.gateway import GatewayProcess, wait_until

ANSWER_S = 60
COUNT = 300
BACKLOG = 900  # messages: more than a window, and less than what mosquitto keeps by default
BETWEEN = 150  # messages that come through before the next restart

pytestmark = [pytest.mark.interop]


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    program("mosquitto")
    with running(Mosquitto(tmp_path / "mosquitto")) as broker:
        yield broker


def is_up(node: GatewayProcess, name: str) -> bool:
    return node.metric("sluicegate_bridge_up", bridge=name) == 1


def bridge(node: GatewayProcess, name: str, mosquitto: Mosquitto, **settings: object) -> None:
    """Create a bridge, and wait until it is up."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    given = [f"{key}={text}" for key, text in texts.items()]
    made = node.command("bridge", "create", name, f"remote_url={mosquitto.url}", "retry_delay_s=1", *given)
    assert made.returncode == 0, made.stderr
    wait_until(lambda: is_up(node, name), within_s=ANSWER_S, what="the bridge")


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_messages_go_both_ways(node: GatewayProcess, mosquitto: Mosquitto, topic: str, version: str) -> None:
    queue = topic.replace("/", "-")
    node.create_queue(queue, subscriptions=[f"{topic}/up"])
    outgoing = [{"queue": queue, "add_prefix": "from-gateway/"}]
    incoming = [{"remote_topic": f"{topic}/down"}]
    bridge(node, queue, mosquitto, mqtt_version=version, outgoing=outgoing, incoming=incoming)
    with PahoClient("here") as here, PahoClient("there") as there:
        here.connect(node.mqtt_port)
        there.connect(mosquitto.mqtt_port)
        here.subscribe(f"{topic}/down", 1)
        there.subscribe("from-gateway/#", 1)
        here.publish(f"{topic}/up", b"up", 1)
        there.publish(f"{topic}/down", b"down", 1)
        got = there.next()
        assert (got.topic, got.payload) == (f"from-gateway/{topic}/up", b"up")
        got = here.next()
        assert (got.topic, got.payload) == (f"{topic}/down", b"down")
    assert node.command("bridge", "delete", queue).returncode == 0


@pytest.mark.parametrize(("version", "qos"), [("5", 1), ("5", 2), ("3.1.1", 1), ("3.1.1", 2)])
def test_nothing_is_lost_while_mosquitto_restarts(
    node: GatewayProcess, mosquitto: Mosquitto, topic: str, version: str, qos: int
) -> None:
    """The ledger: what the gateway has confirmed reaches a durable subscriber of mosquitto, which keeps sessions."""
    queue = topic.replace("/", "-")
    node.create_queue(queue, subscriptions=[f"{topic}/#"])
    reader = PahoClient("reader", persistent=True)
    reader.connect(mosquitto.mqtt_port)
    reader.subscribe("hq/#", 2)
    reader.vanish()
    bridge(node, queue, mosquitto, mqtt_version=version, outgoing=[{"queue": queue, "qos": qos, "add_prefix": "hq/"}])
    with PahoClient("publisher") as publisher:
        publisher.connect(node.mqtt_port)
        for number in range(COUNT):
            publisher.publish(f"{topic}/x", b"%d" % number, 1)
            if number % 120 == 60:
                mosquitto.stop()
                publisher.publish(f"{topic}/x", b"%d" % (COUNT + number), 1)
                mosquitto.start()
    wait_until(lambda: node.held_count(queue) == 0, within_s=ANSWER_S, what="an empty queue")
    published = {*range(COUNT), *[COUNT + number for number in range(COUNT) if number % 120 == 60]}
    again = PahoClient("reader", persistent=True)
    with again:
        assert again.connect(mosquitto.mqtt_port)
        got: list[int] = []
        while set(got) != published:
            got.append(int(again.next().payload))
        if qos == 2:
            assert len(got) == len(published), "doubled"
            again.receives_nothing_more()
    assert node.command("bridge", "delete", queue).returncode == 0


def test_a_bridge_goes_on_after_mosquitto_was_killed(node: GatewayProcess, mosquitto: Mosquitto, topic: str) -> None:
    """mosquitto loses what it has not saved; the gateway, which asks for QoS 2, loses nothing that is not confirmed."""
    queue = topic.replace("/", "-")
    node.create_queue(queue, subscriptions=[f"{topic}/#"])
    bridge(node, queue, mosquitto, outgoing=[{"queue": queue, "qos": 2}], incoming=[{"remote_topic": "back/#"}])
    with PahoClient("publisher") as publisher:
        publisher.connect(node.mqtt_port)
        for round_number in range(3):
            mosquitto.kill()
            for number in range(20):
                publisher.publish(f"{topic}/x", b"%d %d" % (round_number, number), 1)
            mosquitto.start()
            wait_until(lambda: node.held_count(queue) == 0, within_s=ANSWER_S, what="an empty queue")
        publisher.subscribe("back/#", 1)
        with PahoClient("there") as there:
            there.connect(mosquitto.mqtt_port)
            there.publish("back/x", b"alive", 1)
            assert publisher.next().payload == b"alive"
    assert node.command("bridge", "delete", queue).returncode == 0


def test_a_backlog_larger_than_the_window_comes_over(node: GatewayProcess, mosquitto: Mosquitto, topic: str) -> None:
    """mosquitto 2.0.11 ignores Receive Maximum, and sends all that it has for a session at once."""
    queue = topic.replace("/", "-")
    node.create_queue(queue)
    bridge(node, queue, mosquitto, incoming=[{"remote_topic": f"{topic}/#", "queue": queue}], window_messages=50)
    assert node.command("bridge", "pause", queue).returncode == 0
    with PahoClient("there") as there:
        there.connect(mosquitto.mqtt_port)
        for number in range(BACKLOG):
            there.publish(f"{topic}/x", b"%d" % number, 1)
    assert node.command("bridge", "resume", queue).returncode == 0
    wait_until(lambda: node.held_count(queue) >= BACKLOG, within_s=ANSWER_S, what="the backlog")
    assert node.held_count(queue) == BACKLOG
    assert node.metric("sluicegate_bridge_connections_total", bridge=queue) == 2
    assert node.command("bridge", "delete", queue).returncode == 0


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_no_confirmed_message_is_lost_under_load(mosquitto: Mosquitto, tmp_path: Path, version: str) -> None:
    """Out of one gateway, and into another. Both are killed; mosquitto is stopped, for it saves its sessions then."""
    with BridgedLoad.over_mqtt(tmp_path, mosquitto, version=version) as load:
        load.deliver(BETWEEN)
        mosquitto.stop()
        mosquitto.start()
        load.deliver(BETWEEN)
        load.kill(load.first)
        load.kill(load.second)
        load.deliver(BETWEEN)
        load.record.check_nothing_is_lost(load.drain())
        load.record.check_order()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_messages_of_qos_2_cross_exactly_once_under_load(mosquitto: Mosquitto, tmp_path: Path, version: str) -> None:
    """MQTT 4.3.3. mosquitto runs on: when 2.0.11 starts again, it sends PUBLISH for what it had sent PUBREL for."""
    with BridgedLoad.over_mqtt(tmp_path, mosquitto, version=version, qos=2) as load:
        load.deliver(4 * BETWEEN)
        load.record.check_nothing_is_lost(load.drain())
        load.record.check_order()
        load.record.check_nothing_is_repeated()
