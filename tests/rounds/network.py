"""The network between the machines of a round: namespaces of Linux, or loopback with proxies.

Each replica and each NATS server has a place of its own in it, so that one can be cut off without the other.
"""

import os
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Final, Protocol, Self

from support.network.tcp_proxy import TcpProxy
from support.processes.gateway import LOOPBACK


class Network(Protocol):
    """Where processes run, and what can be broken between them. Use it as a context manager."""

    cuts_servers: bool  # whether a place of a NATS server can be cut off

    def host(self, place: str) -> str:
        """Return the address of a place."""

    def begins_with(self, place: str) -> list[str]:
        """Return what the command of a process in that place begins with."""

    def way(self, replica: str, server: str, port: int) -> str:
        """Return the address by which a replica reaches a port of a server."""

    def cut(self, place: str) -> None:
        """Let nothing pass to a place or from it, and tell neither side."""

    def cut_from_servers(self, replica: str) -> None:
        """Let nothing pass between a replica and the servers; its clients reach it as before."""

    def heal(self) -> None:
        """Let everything pass again."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Namespaces:
    """A network namespace for each place, and a bridge between them. Needs root."""

    cuts_servers = True

    def __init__(self, replicas: Sequence[str], servers: Sequence[str]) -> None:
        self._servers = servers
        self._mark = os.getpid() % 100_000
        self._net = f"10.{200 + self._mark % 50}.{self._mark // 50 % 250}"
        self._addresses: Final = {
            place: f"{self._net}.{number}" for number, place in enumerate([*replicas, *servers], start=1)
        }
        self._cut: set[str] = set()
        self._without_servers: set[str] = set()

    @staticmethod
    def is_possible() -> bool:
        """Whether this user may make namespaces here."""
        if os.geteuid() != 0:
            return False
        with suppress(OSError):
            name = f"sgr{os.getpid()}"
            if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0:
                return subprocess.run(["ip", "netns", "delete", name], capture_output=True).returncode == 0
        return False

    def host(self, place: str) -> str:
        return self._addresses[place]

    def begins_with(self, place: str) -> list[str]:
        return ["ip", "netns", "exec", self._namespace(place)]

    def way(self, replica: str, server: str, port: int) -> str:
        return f"{self._addresses[server]}:{port}"

    def cut(self, place: str) -> None:
        self._cut.add(place)
        _ip("link", "set", self._port(place), "down")

    def cut_from_servers(self, replica: str) -> None:
        self._without_servers.add(replica)
        for server in self._servers:
            _ip("-n", self._namespace(replica), "route", "add", "blackhole", f"{self._addresses[server]}/32")

    def heal(self) -> None:
        for place in self._cut:
            _ip("link", "set", self._port(place), "up")
        self._cut.clear()
        for replica in self._without_servers:
            for server in self._servers:
                _ip("-n", self._namespace(replica), "route", "delete", "blackhole", f"{self._addresses[server]}/32")
        self._without_servers.clear()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.push(self)
            self._make()
            undo.pop_all()
        return self

    def _make(self) -> None:
        bridge = self._bridge()
        _ip("link", "add", bridge, "type", "bridge")
        _ip("address", "add", f"{self._net}.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for place, address in self._addresses.items():
            namespace, port = self._namespace(place), self._port(place)
            _ip("netns", "add", namespace)
            _ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            _ip("link", "set", port, "master", bridge, "up")
            _ip("-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", namespace, "link", "set", "eth0", "up")
            _ip("-n", namespace, "link", "set", "lo", "up")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place in self._addresses:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", self._namespace(place))
        with suppress(subprocess.CalledProcessError):
            _ip("link", "delete", self._bridge())

    def _bridge(self) -> str:
        return f"sgb{self._mark}"

    def _port(self, place: str) -> str:
        return f"sgv{self._mark}-{place}"

    def _namespace(self, place: str) -> str:
        return f"sg{self._mark}-{place}"


class Loopback:
    """All on 127.0.0.1, with a proxy on each way from a replica to a server. Servers reach each other always."""

    cuts_servers = False

    def __init__(self) -> None:
        self._proxies: dict[tuple[str, str], TcpProxy] = {}

    def host(self, place: str) -> str:
        return LOOPBACK

    def begins_with(self, place: str) -> list[str]:
        return []

    def way(self, replica: str, server: str, port: int) -> str:
        proxy = self._proxies.get((replica, server))
        if proxy is None:
            proxy = self._proxies[replica, server] = TcpProxy(port)
            proxy.__enter__()
        return f"{LOOPBACK}:{proxy.port}"

    def cut(self, place: str) -> None:
        self.cut_from_servers(place)

    def cut_from_servers(self, replica: str) -> None:
        for proxy in self._of(replica):
            proxy.cut()

    def heal(self) -> None:
        for proxy in self._proxies.values():
            proxy.heal()

    def _of(self, replica: str) -> Iterable[TcpProxy]:
        return [proxy for (name, _), proxy in self._proxies.items() if name == replica]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for proxy in self._proxies.values():
            proxy.__exit__(kind, error, trace)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
