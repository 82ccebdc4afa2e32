"""What a command says when the gateway ends its connection."""

import asyncio

from typer.testing import CliRunner

from sluicegate.gateway.cli import app
from sluicegate.gateway.cli.terminal.failures import FAILED
from support.broker.running_broker import RunningBroker


async def test_the_gateway_says_why_it_closed_the_connection(broker: RunningBroker) -> None:
    """By the Reason String of its DISCONNECT: the name of the code says little."""
    port = str(broker.port)
    asked = ["pub", "--topic", "t", "--key", "k" * 256, "--message", "m", "--port", port]
    said = await asyncio.to_thread(CliRunner(env={"NO_COLOR": "1"}).invoke, app, asked)
    assert (said.exit_code, "JMSXGroupID has 256 bytes, at most 255" in said.stderr) == (FAILED, True), said.stderr
