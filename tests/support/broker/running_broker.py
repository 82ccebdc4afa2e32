"""A whole node for tests: the real store in a folder, real sockets on free ports, in the test's own event loop."""

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from sluicegate.actors.messages.directory import ListQueues
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.node.environment import Environment
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.process.operator_ports import AdminPorts
from sluicegate.testing.running.host import BrokerHost
from sluicegate.testing.running.movable_time import MovableClock
from support.mqtt.raw_client import DEADLINE_S, Clients
from support.referees.wire import judged


class RunningBroker(Clients):
    """A node between start and stop, and the clients that a test has on it."""

    def __init__(self, folder: Path, settings: tuple[str, ...] = (), accounts: Mapping[str, str] | None = None) -> None:
        """`accounts` are user names and passwords or hashes; with any, nobody else is let in."""
        super().__init__()
        self.settings = (
            f"data.path={folder}",
            f"backup.path={folder.with_name('backups')}",
            "listeners.mqtt.port=0",
            "listeners.mqtt_websocket.port=0",
            "listeners.amqp.port=0",
            "listeners.flow.port=0",
            "listeners.http.port=0",
            "admin.enabled=false",
            "spool.map_bytes_max=256MiB",
            "spool.usage_bytes_max=128MiB",
            "spool.sync=false",  # a crash of the machine is tests/crash's matter, and an fsync costs most of a test
            *settings,
        )
        self._file = _file_of_accounts(folder, accounts) if accounts else None
        self.host = BrokerHost(load(self._file, settings=self.settings))
        self._wire_violations: list[str] = []  # what the referees of the wire have seen
        self._is_judged = True

    @property
    def node(self) -> Node:
        return self.host.node

    @property
    def config(self) -> Config:
        return self.host.config

    @config.setter
    def config(self, config: Config) -> None:
        self.host.config = config

    @property
    def clock(self) -> MovableClock:
        return self.host.clock

    @property
    def operator_ports(self) -> AdminPorts:
        ports = self.node.operator_ports
        assert isinstance(ports, AdminPorts)
        return ports

    @property
    def port(self) -> int:
        return self.node.mqtt.listeners["mqtt"].port

    @property
    def websocket_port(self) -> int:
        return self.node.mqtt.listeners["mqtt_websocket"].port

    @property
    def amqp_port(self) -> int:
        return self.node.amqp.listeners["amqp"].port

    @property
    def flow_port(self) -> int:
        return self.node.flow.listeners["flow"].port

    def ignores_violations(self) -> None:
        """Judge the wire no more: a test hands bytes to a connection itself, of which no referee hears."""
        self._is_judged = False

    def forward(self, seconds: float) -> None:
        """Put the broker's clock forward, and have it see to keep alive and connect timeouts."""
        self.clock.forward(seconds)
        for server in self.node.servers:
            server.tick()

    async def has_no_more_than(self, *, sessions: int, queues: int) -> None:
        """Wait until no more than these are left: a client's end is not seen by its peer at once."""
        async with asyncio.timeout(DEADLINE_S):
            while (
                len(await self.node.default.queues.ask(ListQueues())) > queues
                or self.node.default.sessions_count > sessions
            ):
                await asyncio.sleep(0.01)

    async def node_releases(self, user: str) -> None:
        """Wait until a user has no connection left."""
        async with asyncio.timeout(DEADLINE_S):
            while self.node.default.clients.connected_count(user):
                await asyncio.sleep(0.01)

    async def start(self) -> None:
        await self.make_node().start()

    def environment(self) -> Environment:
        return Environment(listener=judged(self._wire_violations))

    def make_node(self) -> Node:
        self.host.environment = self.environment()
        self.host.rng = random.Random(1)
        return self.host.make_node()

    async def stop(self) -> None:
        await self.host.stop()
        assert not (self._wire_violations and self._is_judged), self._wire_violations[0]

    async def restart(self, *settings: str) -> None:
        """Stop and start, with some settings changed."""
        await self.stop()
        if settings:
            self.config = load(self._file, settings=(*self.settings, *settings))
        await self.start()

    async def crash(self) -> None:
        """Start again from what was in the store at this moment; see `BrokerHost.crash`."""
        await self.host.crash()
        await self.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.all_vanish()
        if self.host.is_running:
            await self.stop()
        await asyncio.sleep(0)  # transports that were closed say so in the next turn


def _file_of_accounts(folder: Path, accounts: Mapping[str, str]) -> Path:
    """Write a configuration file. Passwords stand in files of their own, the one place for plain ones."""
    folder.mkdir()
    lines = ["authentication:", "  allow_anonymous: false", "  users:"]
    for name, password in accounts.items():
        secret = folder / f"{name}.password"
        secret.write_text(password)
        lines += [f"    - name: {name}", f"      password_file: {secret}"]
    file = folder / "gateway.yaml"
    file.write_text("\n".join(lines) + "\n")
    return file
