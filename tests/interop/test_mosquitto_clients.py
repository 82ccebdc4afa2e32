"""mosquitto_pub and mosquitto_sub: every version, TCP and TLS with an authority of our own."""

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from support.network.certificates import Certificates
from support.processes.foreign_programs import program
from support.processes.gateway import GatewayProcess, wait_until
from support.processes.programs import running

ANSWER_S = 30
VERSIONS = {"3.1": "mqttv31", "3.1.1": "mqttv311", "5.0": "mqttv5"}

pytestmark = [pytest.mark.interop]
each_version = pytest.mark.parametrize("version", VERSIONS)


class Mosquitto:
    """The two programs against one gateway."""

    def __init__(self, node: GatewayProcess, version: str, authority: Path | None = None) -> None:
        self._node = node
        port = node.mqtt_port if authority is None else node.tls_port
        self._common = ["-V", VERSIONS[version], "-h", "127.0.0.1", "-p", str(port)]
        self._common += [] if authority is None else ["--cafile", str(authority)]

    def publishes(self, topic: str, message: str, *options: str) -> None:
        done = self._publishes(topic, message, *options)
        assert (done.returncode, done.stderr) == (0, "")

    def complains(self, topic: str, *options: str) -> str:
        """Publish, and return what mosquitto_pub says of it."""
        return self._publishes(topic, "message", *options).stderr

    def _publishes(self, topic: str, message: str, *options: str) -> "subprocess.CompletedProcess[str]":
        command = [program("mosquitto_pub"), *self._common, "-t", topic, "-m", message, *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S)

    def reads(self, filter_text: str, count: int, *options: str) -> list[str]:
        """Run mosquitto_sub until it has so many messages, which are there already; return its lines."""
        with self._runs(filter_text, count, *options) as process:
            return printed(process)

    @contextmanager
    def subscribes(self, filter_text: str, count: int, *options: str) -> "Iterator[subprocess.Popen[str]]":
        """Run mosquitto_sub for so many messages below a `with` block that begins when it has subscribed."""
        topic = filter_text.removesuffix("/#")  # which the filter matches as well [4.7.1-2]
        with self._runs(filter_text, count, *options) as process:
            wait_until(lambda: filter_text in self._node.leads_to(topic), within_s=ANSWER_S, what="the subscription")
            yield process

    def _runs(self, filter_text: str, count: int, *options: str) -> AbstractContextManager["subprocess.Popen[str]"]:
        command = [program("mosquitto_sub"), *self._common, "-t", filter_text, "-C", str(count), "-W", str(ANSWER_S)]
        return running([*command, *options])


def printed(process: "subprocess.Popen[str]") -> list[str]:
    output, complaints = process.communicate(timeout=ANSWER_S)
    assert (process.returncode, complaints) == (0, "")
    return output.splitlines()


@each_version
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("tls", [False, True], ids=["TCP", "TLS"])
def test_topic_payload_and_qos_arrive(
    node: GatewayProcess, certificates: Certificates, topic: str, version: str, qos: int, tls: bool
) -> None:
    mosquitto = Mosquitto(node, version, certificates.authority if tls else None)
    with mosquitto.subscribes(f"{topic}/#", 2, "-q", "2", "-F", "%t %q %p") as subscriber:
        mosquitto.publishes(f"{topic}/a", "one", "-q", str(qos))
        mosquitto.publishes(f"{topic}/b/c", "two", "-q", str(qos))
        assert printed(subscriber) == [f"{topic}/a {qos} one", f"{topic}/b/c {qos} two"]


@each_version
def test_a_retained_message_comes_with_its_flag(node: GatewayProcess, topic: str, version: str) -> None:
    mosquitto = Mosquitto(node, version)
    mosquitto.publishes(topic, "state", "-q", "1", "-r")
    assert mosquitto.reads(topic, 1, "-q", "1", "-F", "%r %p") == ["1 state"]


def test_properties_of_version_5_are_printed_as_they_were_given(node: GatewayProcess, topic: str) -> None:
    mosquitto = Mosquitto(node, "5.0")
    given = {"content-type": "text/plain", "response-topic": "re/ply", "correlation-data": "c1"}
    options = [part for name, value in given.items() for part in ("-D", "publish", name, value)]
    with mosquitto.subscribes(topic, 1, "-q", "1", "-F", "%C %R %D %P") as subscriber:
        mosquitto.publishes(topic, "x", "-q", "1", *options, "-D", "publish", "user-property", "colour", "red")
        assert printed(subscriber) == ["text/plain re/ply c1 colour:red"]


@each_version
def test_a_queue_is_read_to_its_end(node: GatewayProcess, topic: str, version: str) -> None:
    mosquitto = Mosquitto(node, version)
    name = f"mosquitto-{version}"
    node.create_queue(name, subscriptions=[f"{topic}/>"])
    for message in ("first", "second", "third"):
        mosquitto.publishes(f"{topic}/x", message, "-q", "1")
    lines = mosquitto.reads(f"$queue/{name}", 3, "-q", "1", "-F", "%t %p")
    assert lines == [f"{topic}/x {message}" for message in ("first", "second", "third")]
    wait_until(lambda: node.held_count(name) == 0, within_s=ANSWER_S, what="the queue to be empty")


def test_unsupported_features_are_announced_in_version_5_and_end_other_connections(tmp_path: Path) -> None:
    """MQTT 5.0 [3.2.2-9] [3.2.2-11] [3.2.2-14]: libmosquitto itself sends nothing that CONNACK excludes."""
    settings: dict[str, object] = {"mqtt.maximum_qos": 1, "mqtt.retain_available": False}
    with GatewayProcess(tmp_path, settings) as node:
        five, three = Mosquitto(node, "5.0"), Mosquitto(node, "3.1.1")
        assert "QoS not supported" in five.complains("t", "-q", "2")
        five.publishes("t", "not kept", "-q", "1", "-r")  # it leaves the flag out
        assert "connection was lost" in three.complains("t", "-q", "2")
        assert "connection was lost" in three.complains("t", "-q", "1", "-r")
        for each in (five, three):
            with each.subscribes("t", 1, "-q", "2", "-F", "%q %p") as subscriber:
                each.publishes("t", "below", "-q", "1")
                assert printed(subscriber) == ["1 below"]
