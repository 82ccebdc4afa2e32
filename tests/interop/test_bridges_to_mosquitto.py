"""Bridges of the gateway to mosquitto: in both directions and versions, while mosquitto is killed and started again."""

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.foreign.paho_client import PahoClient
from support.processes.foreign_programs import program
from support.processes.gateway import GatewayProcess, free_port, wait_until

ANSWER_S = 60
COUNT = 300

pytestmark = [pytest.mark.interop]

CONFIGURATION = """
listener {port} 127.0.0.1
allow_anonymous true
persistence true
persistence_location {folder}/
max_queued_messages 0
log_dest none
"""


class Mosquitto:
    """A mosquitto with persistence, on one port."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._file = folder / "mosquitto.conf"
        self._file.write_text(f"user root{CONFIGURATION.format(port=self.port, folder=folder)}")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and wait until it listens."""
        self._process = subprocess.Popen([program("mosquitto"), "-c", self._file])
        wait_until(self._listens, within_s=ANSWER_S, what="mosquitto")

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), ANSWER_S).close()
        except ConnectionRefusedError:
            return False
        return True

    def stop(self) -> None:
        """Stop in good order: it saves its sessions."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(ANSWER_S)

    def kill9(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(ANSWER_S)


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    broker = Mosquitto(tmp_path)
    broker.start()
    yield broker
    broker.kill9()


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
        there.connect(mosquitto.port)
        here.subscribe(f"{topic}/down", 1)
        there.subscribe("from-gateway/#", 1)
        here.publish(f"{topic}/up", b"up", 1)
        there.publish(f"{topic}/down", b"down", 1)
        got = there.next()
        assert (got.topic, got.payload) == (f"from-gateway/{topic}/up", b"up")
        got = here.next()
        assert (got.topic, got.payload) == (f"{topic}/down", b"down")
    assert node.command("bridge", "delete", queue).returncode == 0


@pytest.mark.parametrize(("version", "qos"), [("5", 1), ("5", 2), ("3.1.1", 1)])
def test_nothing_is_lost_while_mosquitto_restarts(
    node: GatewayProcess, mosquitto: Mosquitto, topic: str, version: str, qos: int
) -> None:
    """The ledger: what the gateway has confirmed reaches a durable subscriber of mosquitto, which keeps sessions."""
    queue = topic.replace("/", "-")
    node.create_queue(queue, subscriptions=[f"{topic}/#"])
    reader = PahoClient("reader", persistent=True)
    reader.connect(mosquitto.port)
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
        assert again.connect(mosquitto.port)
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
            mosquitto.kill9()
            for number in range(20):
                publisher.publish(f"{topic}/x", b"%d %d" % (round_number, number), 1)
            mosquitto.start()
            wait_until(lambda: node.held_count(queue) == 0, within_s=ANSWER_S, what="an empty queue")
        publisher.subscribe("back/#", 1)
        with PahoClient("there") as there:
            there.connect(mosquitto.port)
            there.publish("back/x", b"alive", 1)
            assert publisher.next().payload == b"alive"
    assert node.command("bridge", "delete", queue).returncode == 0
