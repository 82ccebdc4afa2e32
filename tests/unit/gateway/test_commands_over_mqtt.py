"""`pub` and `sub` against a broker that is not ours, in every protocol version."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from gateway.cli import app

MOSQUITTO = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not Path(MOSQUITTO).exists(), reason="mosquitto is not installed"),
]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A mosquitto on a port of its own choice, which it tells in its log."""
    folder = tmp_path_factory.mktemp("mosquitto")
    configuration = folder / "mosquitto.conf"
    # Port 0 means a Unix socket to mosquitto, so the port is one the system just had free.
    configuration.write_text(f"listener {_free_port()} 127.0.0.1\nallow_anonymous true\n")
    with subprocess.Popen(
        [MOSQUITTO, "-c", str(configuration), "-v"], stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        found = ""
        for line in broker.stdout:
            if opened := re.search(r"listen socket on port (\d+)", line):
                found = opened.group(1)
            if line.rstrip().endswith("running"):
                break
        assert found, "mosquitto did not start"
        yield found
        broker.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


@pytest.mark.parametrize("version", ["3.1", "3.1.1", "5"])
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_what_was_published_is_received(port: str, version: str, qos: str) -> None:
    """A retained message, so that neither side has to wait for the other."""
    common = ["-p", port, "-V", version, "-q", qos, "--json"]
    topic = f"t/{version}/{qos}"
    published = CliRunner().invoke(app, ["pub", "-t", topic, "-m", "[red]hello", "-r", *common])
    assert (published.exit_code, orjson.loads(published.stdout)) == (0, {"confirmed": 1, "refused": 0})

    received = CliRunner().invoke(app, ["sub", "-t", topic, "-n", "1", "--timeout", "10", *common])
    assert received.exit_code == 0, received.stderr
    message = orjson.loads(received.stdout)
    assert (message["topic"], message["payload"], message["retained"]) == (topic, "[red]hello", True)


def test_lines_of_standard_input_are_messages_and_the_key_is_a_property(port: str) -> None:
    arguments = ["pub", "-t", "lines", "-r", "-k", "device-7", "-P", "a=b", "-p", port]
    published = CliRunner().invoke(app, arguments, input="one\ntwo\n")
    assert published.exit_code == 0
    assert published.stderr == "2 confirmed\n"
    received = CliRunner().invoke(app, ["sub", "-t", "lines", "-n", "1", "--timeout", "10", "-p", port])
    assert received.stdout == "lines two  JMSXGroupID=device-7 a=b retained\n"


def test_too_few_messages_in_time_are_a_failure(port: str) -> None:
    waited = CliRunner().invoke(app, ["sub", "-t", "silence", "-n", "2", "--timeout", "0.1", "-p", port])
    assert waited.exit_code == 1
    assert "0 of 2 messages came in 0.1 s" in waited.stderr
