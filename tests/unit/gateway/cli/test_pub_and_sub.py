"""`pub` and `sub` against a broker that is not ours, in every protocol version."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from sluicegate.gateway.cli import app
from sluicegate.testing.ports import free_port
from support.processes.gateway import PYTHON, wait_until
from support.processes.programs import running

ANSWER_S = 45
MOSQUITTO = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not Path(MOSQUITTO).exists(), reason="mosquitto is not installed"),
]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The port of a mosquitto that is ready."""
    configuration = tmp_path_factory.mktemp("mosquitto") / "mosquitto.conf"
    chosen = free_port()
    configuration.write_text(f"listener {chosen} 127.0.0.1\nallow_anonymous true\nlog_dest none\n")
    with running([MOSQUITTO, "-c", configuration]) as broker:
        wait_until(lambda: broker.poll() is not None or answers(chosen), within_s=30, what="mosquitto's port")
        assert broker.poll() is None, broker.communicate()
        yield str(chosen)


def answers(port: int) -> bool:
    """Return whether somebody listens on the port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("version", ["3.1", "3.1.1", "5"])
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_published_messages_are_received(port: str, version: str, qos: str) -> None:
    """A retained message, so that neither side has to wait for the other."""
    common = ["-p", port, "-V", version, "-q", qos, "--json"]
    topic = f"t/{version}/{qos}"
    published = CliRunner().invoke(app, ["pub", "-t", topic, "-m", "[red]hello", "-r", *common])
    assert (published.exit_code, orjson.loads(published.stdout)) == (0, {"confirmed": 1, "refused": 0, "unmatched": 0})

    received = CliRunner().invoke(app, ["sub", "-t", topic, "-n", "1", "--timeout", "30", *common])
    assert received.exit_code == 0, received.stderr
    message = orjson.loads(received.stdout)
    assert (message["topic"], message["payload"], message["retained"]) == (topic, "[red]hello", True)


def test_lines_of_standard_input_are_messages_and_the_key_is_a_property(port: str) -> None:
    arguments = ["pub", "-t", "lines", "-r", "-k", "device-7", "-P", "a=b", "-p", port]
    published = subprocess.run([*PYTHON, *arguments], input=b"one\r\ntwo\x1b[2J", capture_output=True, timeout=ANSWER_S)
    assert (published.returncode, published.stderr) == (0, b"2 messages confirmed\n")
    received = CliRunner().invoke(app, ["sub", "-t", "lines", "-n", "1", "--timeout", "30", "-p", port])
    assert received.stdout == "lines two\\x1b[2J  JMSXGroupID=device-7 a=b retained\n"


def test_too_few_messages_in_time_are_a_failure(port: str) -> None:
    waited = CliRunner().invoke(app, ["sub", "-t", "silence", "-n", "2", "--timeout", "0.1", "-p", port])
    assert waited.exit_code == 1
    assert "only 0 of 2 messages arrived in 0.1 s" in waited.stderr


def test_a_message_that_reaches_nobody_is_reported(port: str) -> None:
    """MQTT 5: 0x10, No matching subscribers."""
    published = CliRunner().invoke(app, ["pub", "-t", "nobody", "-m", "x", "-p", port])
    assert published.exit_code == 0
    assert published.stderr.splitlines() == [
        "1 message confirmed",
        "warning: no queue and no client subscribes to 'nobody': 1 message reached nobody",
    ]
    required = ["pub", "-t", "nobody", "-m", "x", "-p", port, "--require-match", "--json"]
    refused = CliRunner().invoke(app, required)
    assert refused.exit_code == 1
    assert "1 message reached nobody" in refused.stderr
    assert orjson.loads(refused.stdout) == {"confirmed": 1, "refused": 0, "unmatched": 1}


@pytest.mark.parametrize("given", [["-V", "3.1.1"], ["-q", "0"], ["-q", "2"]])
def test_a_match_cannot_be_required_where_the_protocol_does_not_tell(port: str, given: list[str]) -> None:
    refused = CliRunner().invoke(app, ["pub", "-t", "t", "-m", "x", "-p", port, "--require-match", *given])
    assert refused.exit_code == 2


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["pub"], "no topic and no queue is given"),
        (["pub", "-t", "t", "-Q", "q"], "a topic and a queue are given"),
        (["pub", "-t", "a/#"], "--topic 'a/#', level 2: '#' in a topic that is published to"),
        (["pub", "-t", ""], "--topic '': it is empty"),
        (["pub", "-Q", "a+b"], "--queue: 'a+b' cannot be named over MQTT; allowed: a name without '+' and '#'"),
        (["sub"], "no topic and no queue is given"),
        (["sub", "-t", "ok", "-t", "a/#/b"], "--topic 'a/#/b', level 2: levels follow '#'"),
        (["sub", "-t", "$share/x"], "--topic '$share/x': no filter after the share name"),
        (["sub", "-Q", ""], "--queue: '' cannot be named over MQTT"),
    ],
)
def test_a_destination_that_cannot_be_is_refused_before_connecting(given: list[str], problem: str) -> None:
    refused = CliRunner().invoke(app, [*given, "-p", str(free_port())])  # nobody listens there
    assert refused.exit_code == 2
    assert f"error: {problem}" in refused.stderr
