"""mqtt.js as the interop tests use it: a node process that publishes, or prints what it receives."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from support.processes.foreign_programs import node_modules, program
from support.processes.programs import running

SCRIPT: Final = Path(__file__).with_name("mqtt_js.js")
ANSWER_S: Final = 30
# How mqtt.js says which version it speaks.
VERSIONS: Final[dict[str, dict[str, Any]]] = {
    "3.1": {"protocolVersion": 3, "protocolId": "MQIsdp"},
    "3.1.1": {"protocolVersion": 4},
    "5.0": {"protocolVersion": 5},
}


def publish(url: str, version: str, messages: list[tuple[str, str, dict[str, Any]]], **options: Any) -> None:
    """Publish messages, given with mqtt.js' options, and wait until all are confirmed."""
    task = {"url": url, "options": {**VERSIONS[version], **options}, "publish": messages}
    done = subprocess.run(_command(task), capture_output=True, text=True, timeout=ANSWER_S, env=_environment())
    assert (done.returncode, done.stderr) == (0, "")


@contextmanager
def subscribed(
    url: str, version: str, filter_text: str, qos: int, count: int, **options: Any
) -> "Iterator[MqttJsSubscriber]":
    """Run a subscriber that ends after so many messages below a `with` block that begins when it has subscribed."""
    task = {
        "url": url,
        "options": {**VERSIONS[version], **options},
        "subscribe": [filter_text, qos],
        "count": count,
    }
    with running(_command(task), environment=_environment()) as process:
        yield MqttJsSubscriber(process, qos)


class MqttJsSubscriber:
    """A subscriber that is there."""

    def __init__(self, process: "subprocess.Popen[str]", qos: int) -> None:
        self._process = process
        assert process.stdout is not None
        self._early: list[str] = []  # a server may send messages before it answers SUBSCRIBE (3.8.4)
        while "subscribed" not in (line := process.stdout.readline()):
            assert line, process.communicate(timeout=ANSWER_S)[1]
            self._early.append(line)
        assert json.loads(line) == {"subscribed": [qos]}

    def messages(self) -> list[dict[str, Any]]:
        """Everything received, once that is all that was asked for."""
        output, complaints = self._process.communicate(timeout=ANSWER_S)
        assert (self._process.returncode, complaints) == (0, "")
        return [json.loads(line) for line in [*self._early, *output.splitlines()]]


def _command(task: dict[str, Any]) -> list[str]:
    return [program("node"), str(SCRIPT), json.dumps(task)]


def _environment() -> dict[str, str]:
    return {**os.environ, "NODE_PATH": str(node_modules("mqtt"))}
