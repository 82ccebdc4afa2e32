"""Commands over TLS, and what a command reports when the gateway disconnects it."""

import asyncio
import os
from asyncio.subprocess import PIPE
from pathlib import Path

from typer.testing import CliRunner

from sluicegate.gateway.cli import app
from sluicegate.gateway.cli.terminal.failures import FAILED, OK, UNREACHABLE
from support.broker.running_broker import RunningBroker
from support.network.certificates import make_certificates
from support.processes.gateway import COMMAND_S, PYTHON


async def told(authority: Path, *arguments: str) -> tuple[int | None, str]:
    """Run a command that believes an authority; return its exit code and what it printed."""
    environment = os.environ | {"SSL_CERT_FILE": str(authority)}
    process = await asyncio.create_subprocess_exec(*PYTHON, *arguments, env=environment, stdout=PIPE, stderr=PIPE)
    printed, problems = await asyncio.wait_for(process.communicate(), COMMAND_S)
    return process.returncode, (printed + problems).decode()


async def test_operators_come_over_tls_where_the_authority_is_known(tmp_path: Path) -> None:
    """docs/operate/operations.md, the admin port."""
    certificates = make_certificates(tmp_path)
    async with RunningBroker(tmp_path / "data", certificates.in_tls("admin.tls")) as broker:
        command = ("queue", "list", "--url", broker.operator_ports.ports.servers["admin.tls"].url)
        exit_code, _ = await told(certificates.authority, *command)
        assert exit_code == OK
        exit_code, problems = await told(certificates.client, *command)
        assert exit_code == UNREACHABLE
        assert "SSL_CERT_FILE" in problems


async def test_pub_and_sub_work_over_tls(tmp_path: Path) -> None:
    """`pub` and `sub` with `--tls`; a server that nobody vouches for gets nothing."""
    certificates = make_certificates(tmp_path)
    async with RunningBroker(tmp_path / "data", certificates.in_tls("listeners.mqtt_tls")) as broker:
        peer = ("--tls", "--port", str(broker.node.mqtt.listeners["mqtt_tls"].port), "--topic", "a")
        exit_code, _ = await told(certificates.authority, "pub", *peer, "--message", "hello", "--retain")
        assert exit_code == OK
        exit_code, printed = await told(certificates.authority, "sub", *peer, "--count", "1", "--timeout", "30")
        assert exit_code == OK
        assert "hello" in printed
        exit_code, problems = await told(certificates.client, "pub", *peer, "--message", "hello")
        assert exit_code == UNREACHABLE
        assert "its certificate is not trusted" in problems
        assert "SSL_CERT_FILE" in problems
        exit_code, problems = await told(certificates.authority, "pub", *peer[1:], "--message", "hello")
        assert exit_code == UNREACHABLE
        assert "If the port uses TLS, give --tls." in problems
        plain = ("--tls", "--port", str(broker.port), "--topic", "a", "--message", "hello")
        exit_code, problems = await told(certificates.authority, "pub", *plain)
        assert exit_code == UNREACHABLE
        assert "Does that port use TLS?" in problems


async def test_the_gateway_says_why_it_closed_the_connection(broker: RunningBroker) -> None:
    """By the Reason String of its DISCONNECT: the name of the code says little."""
    port = str(broker.port)
    asked = ["pub", "--topic", "t", "--key", "k" * 256, "--message", "m", "--port", port]
    said = await asyncio.to_thread(CliRunner(env={"NO_COLOR": "1"}).invoke, app, asked)
    assert (said.exit_code, "JMSXGroupID has 256 bytes, at most 255" in said.stderr) == (FAILED, True), said.stderr
