"""A whole node for tests: the real store in a folder, real sockets on free ports, in the test's own event loop."""

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import mqtt_packets as mqtt
from actors.clock import SystemClock
from gateway.config import Config, load
from gateway.node import Node, open_store
from raw_client import RawClient

class MovableClock(SystemClock):
    """The machine's clock, which a test can put forward. Timers of the event loop do not follow it."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def forward(self, seconds: float) -> None:
        self._ahead_ms += int(seconds * 1000)

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms

    def wall_ms(self) -> int:
        return super().wall_ms() + self._ahead_ms


class RunningBroker:
    """A node between start and stop, and the clients that a test has on it."""

    def __init__(
        self, folder: Path, settings: tuple[str, ...] = (), accounts: Mapping[str, str] | None = None
    ) -> None:
        """`accounts` are user names and passwords or hashes; with any, nobody else is let in."""
        self.clock = MovableClock()
        self.config: Config = load(
            None if not accounts else _file_of_accounts(folder, accounts),
            settings=(
                f"data.path={folder}",
                "listeners.mqtt.port=0",
                "listeners.mqtt_websocket.port=0",
                "admin.enabled=false",
                "spool.map_bytes_max=256MiB",
                "spool.usage_bytes_max=128MiB",
                *settings,
            ),
        )
        self._node: Node | None = None
        self._clients: list[RawClient] = []

    @property
    def node(self) -> Node:
        assert self._node is not None, "the broker is stopped"
        return self._node

    @property
    def port(self) -> int:
        return self.node.mqtt.listeners["mqtt"].port

    @property
    def websocket_port(self) -> int:
        return self.node.mqtt.listeners["mqtt_websocket"].port

    def forward(self, seconds: float) -> None:
        """Put the broker's clock forward, and have it see to keep alive and connect timeouts."""
        self.clock.forward(seconds)
        self.node.mqtt.look_at_the_clock()

    async def open(self, level: int = 4) -> RawClient:
        """Return a client whose socket is open, and that has said nothing yet."""
        client = await RawClient.open(self.port, level)
        self._clients.append(client)
        return client

    async def connect(self, client_id: str = "", level: int = 4, **options: object) -> RawClient:
        """Return a client whose CONNECT was accepted. Without an id it gets one of its own."""
        client = await self.open(level)
        answer = await client.connect(client_id or f"client-{len(self._clients)}", **options)
        assert answer.reason_code == 0
        return client

    async def connect_durable(self, client_id: str, level: int = 5, **options: object) -> RawClient:
        """Return a client that keeps its session: it resumes the one there is, or begins one."""
        if level == 5:
            extra = options.pop("properties", b"")
            assert isinstance(extra, bytes)
            options["properties"] = mqtt.session_expiry(3600) + extra
        return await self.connect(client_id, level, clean_start=False, **options)

    async def start(self) -> None:
        self._node = Node(self.config, store=open_store(self.config), clock=self.clock, rng=random.Random(1))
        await self._node.start()

    async def stop(self) -> None:
        node, self._node = self.node, None
        await node.stop()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            await client.vanish()
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
