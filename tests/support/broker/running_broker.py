"""A whole node for tests: the real store in a folder, real sockets on free ports, in the test's own event loop."""

import asyncio
import random
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from sluicegate.actors.messages.directory import ListQueues
from sluicegate.actors.runtime.clock import Clock, SystemClock
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.node.environment import Environment
from sluicegate.gateway.node.node import Node, open_store
from sluicegate.gateway.process.operator_ports import AdminPorts
from support.mqtt.raw_client import DEADLINE_S, Clients
from support.referees.wire import judged


class MovableClock(Clock):
    """The machine's clock, which a test can put forward and set. Timers of the event loop do not follow it."""

    def __init__(self) -> None:
        self._machine = SystemClock()
        self._ahead_ms = 0
        self._wall_ahead_ms = 0

    def forward(self, seconds: float) -> None:
        self._ahead_ms += int(seconds * 1000)

    def set_wall(self, moment: datetime) -> None:
        """Let it be this moment on the wall; what has run stays as it is."""
        self._wall_ahead_ms = int(moment.timestamp() * 1000) - self._machine.wall_ms()

    def now_ms(self) -> int:
        return self._machine.now_ms() + self._ahead_ms

    def wall_ms(self) -> int:
        return self._machine.wall_ms() + self._wall_ahead_ms + self._ahead_ms

    def now_ns(self) -> int:
        return self._machine.now_ns()


class RunningBroker(Clients):
    """A node between start and stop, and the clients that a test has on it."""

    def __init__(self, folder: Path, settings: tuple[str, ...] = (), accounts: Mapping[str, str] | None = None) -> None:
        """`accounts` are user names and passwords or hashes; with any, nobody else is let in."""
        super().__init__()
        self.clock = MovableClock()
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
        self.config: Config = load(self._file, settings=self.settings)
        self._node: Node | None = None
        self._wire_violations: list[str] = []  # what the referees of the wire have seen
        self._is_judged = True

    @property
    def node(self) -> Node:
        assert self._node is not None, "the broker is stopped"
        return self._node

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
        store = open_store(self.config)
        self._node = Node(
            self.config,
            store=store,
            clock=self.clock,
            rng=random.Random(1),
            environment=self.environment(),
            operator_ports=AdminPorts,
        )
        return self._node

    async def stop(self) -> None:
        node, self._node = self.node, None
        await node.stop()
        assert not (self._wire_violations and self._is_judged), self._wire_violations[0]

    async def restart(self, *settings: str) -> None:
        """Stop and start, with some settings changed."""
        await self.stop()
        if settings:
            self.config = load(self._file, settings=(*self.settings, *settings))
        await self.start()

    async def crash(self) -> None:
        """Start again from what was in the store at this moment; what happens while the node stops is undone."""
        idle = asyncio.get_running_loop().create_future()
        self.node.services.spool_actor().when_idle(lambda: idle.set_result(None))
        await asyncio.wait_for(idle, DEADLINE_S)
        data: Path = self.config.data.path
        kept = data.with_name("at-the-crash")
        shutil.copytree(data, kept)
        await self.stop()
        shutil.rmtree(data)
        kept.rename(data)
        await self.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.all_vanish()
        if self._node is not None:
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
