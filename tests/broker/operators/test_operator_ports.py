"""The ports of operators open after those of clients; that one of them cannot be had is known before."""

import socket
from pathlib import Path

import pytest

from sluicegate.gateway.views.errors import CannotStart
from support.broker.running_broker import RunningBroker
from support.network.event_loops import RunOnLoop


def test_nobody_is_let_in_when_the_admin_port_is_taken(run: RunOnLoop, tmp_path: Path) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            settings = ("admin.enabled=true", f"admin.port={taken.getsockname()[1]}", "health.enabled=true")
            broker = RunningBroker(tmp_path / "data", (*settings, "health.port=0"))
            with pytest.raises(CannotStart, match="admin"):
                await broker.start()
            assert not any(front.listeners for front in broker.node.fronts)
            await broker.stop()

    run(scenario())


def test_the_admin_port_is_open_when_the_node_is_ready(run: RunOnLoop, tmp_path: Path) -> None:
    async def scenario() -> None:
        broker = RunningBroker(tmp_path / "data", ("admin.enabled=true", "admin.port=0"))
        await broker.start()
        (name, url) = broker.node.endpoints()[-1]
        assert broker.node.ready
        assert (name, url) == ("admin", f"http://127.0.0.1:{broker.node.operator_ports.servers['admin'].port}")
        await broker.stop()

    run(scenario())
