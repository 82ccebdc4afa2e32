"""A broker with three replicas, each a process of its own, over three NATS servers: what a test starts and hurts."""

import json
import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx

from support.http.plain import HTTP
from support.processes.gateway import START_S, GatewayProcess, wait_until
from support.processes.nats import NatsCluster

BROKER: Final = "edge"
NAMES: Final = ("a", "b", "c")
LEASE_S: Final = 3.0
TAKEN_OVER_S: Final = 60.0  # on a busy machine
ASK_S: Final = 2.0  # of a question that is asked again and again


class ReplicaProcess(GatewayProcess):
    """One replica. It is ready as a standby, too."""

    def __init__(self, folder: Path, name: str, servers: list[str], settings: dict[str, object]) -> None:
        cluster = {
            "brokers": None,
            "node.name": BROKER,
            "cluster.servers": json.dumps(servers),
            "cluster.replica": name,
            "cluster.replicas": json.dumps(NAMES),
            "cluster.log_bytes_max": "256 MiB",
            "cluster.lease_ms": int(LEASE_S * 1000),
        }
        super().__init__(folder, {**cluster, **settings})
        del self.settings["brokers"]
        self.name = name

    def is_owner(self) -> bool:
        """Whether it owns the broker and serves clients."""
        with suppress(httpx.HTTPError):
            return HTTP.get(f"{self.admin_url}/health/active", timeout=ASK_S).status_code == 200
        return False

    def is_ready(self) -> bool:
        """Whether it is the owner and takes traffic, or a standby that could; not while its process is replaced."""
        with suppress(httpx.HTTPError):
            return super().is_ready()
        return False

    def role(self) -> str:
        """What it says of itself; empty when it says nothing."""
        with suppress(httpx.HTTPError):
            return str(HTTP.get(f"{self.admin_url}/cluster", timeout=ASK_S).json()["role"])
        return ""

    def knows(self) -> dict[str, bool]:
        """The replicas, as this one hears of them, and whether each has caught up."""
        with suppress(httpx.HTTPError):
            answer = HTTP.get(f"{self.admin_url}/cluster", timeout=ASK_S).json()
            return {each["name"]: each["caught_up"] for each in answer["replicas"]}
        return {}

    def is_running(self) -> bool:
        return self._process is not None

    def exit_code_of_a_start(self) -> int:
        """Start a process that ends by itself, and return its exit code."""
        with self.stderr_file.open("ab") as stderr:
            self._process = subprocess.Popen(self._command(), stdout=subprocess.PIPE, stderr=stderr)
        return self.wait_for_exit(START_S)

    def kill9(self) -> None:
        self._running().send_signal(signal.SIGCONT)
        super().kill9()

    def _read_endpoints(self) -> None:
        """Read the announcement that it stands by; those that follow are read by nobody."""
        process = self._running()
        assert process.stdout is not None
        output, deadline = b"", time.monotonic() + START_S
        while b"stands by." not in output:
            readable, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(process.stdout.fileno(), 65536) if readable else b""
            assert piece, f"it did not start (exit code {process.poll()}):\n{output.decode()}{self.stderr}"
            output += piece


class WaitingReplica(ReplicaProcess):
    """One that waits for its servers, or until it is added."""

    def is_ready(self) -> bool:
        with suppress(httpx.HTTPError):
            return HTTP.get(f"{self.admin_url}/health/live", timeout=ASK_S).status_code == 200
        return False

    def _read_endpoints(self) -> None:
        """Its ports for operators are open, and it says nothing yet."""


class ReplicatedBroker:
    """The replicas and their servers; use it as a context manager."""

    def __init__(self, folder: Path, settings: dict[str, object] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.servers = NatsCluster(folder)
        self._folder = folder
        self._settings = settings or {}
        self.replicas = [ReplicaProcess(*self._given(name)) for name in NAMES]

    def _given(self, name: str) -> tuple[Path, str, list[str], dict[str, object]]:
        return self._folder / name, name, self.servers.urls, self._settings

    def start(self) -> None:
        """Start all; return when one is the owner, and the others could take over."""
        for replica in self.replicas:
            replica.start()
        self.until_whole()

    def add_process(self, name: str) -> ReplicaProcess:
        """Start the process of one more replica, which waits until it is added to the list of the cluster."""
        replica = WaitingReplica(*self._given(name))
        self.replicas.append(replica)
        replica.start()
        return replica

    def owner(self) -> ReplicaProcess:
        """Return the replica that owns the broker, as soon as there is one."""
        found: list[ReplicaProcess] = []

        def is_there() -> bool:
            found[:] = [each for each in self.replicas if each.is_running() and each.is_owner()]
            return len(found) == 1

        wait_until(is_there, within_s=TAKEN_OVER_S, what="an owner")
        return found[0]

    def standbys(self) -> list[ReplicaProcess]:
        """Return the replicas that run and are not the owner."""
        owner = self.owner()
        return [each for each in self.replicas if each.is_running() and each is not owner]

    def until_whole(self) -> None:
        """Wait until one owns the broker, and knows that all others that run could take over."""
        running = {each.name for each in self.replicas if each.is_running()}

        def is_whole() -> bool:
            if not all(each.is_ready() for each in self.replicas if each.is_running()):
                return False
            return running <= {name for name, is_caught_up in self.owner().knows().items() if is_caught_up}

        wait_until(is_whole, within_s=TAKEN_OVER_S, what="standbys that have caught up")

    def hand_over(self, successor: str = "") -> None:
        """Have a standby own the broker, as an operator does, by asking any replica."""
        asked = next(each for each in self.replicas if each.is_running())
        where = {"to": successor} if successor else {}
        HTTP.post(f"{asked.admin_url}/cluster/handover", params=where).raise_for_status()

    def until_owned_by(self, replica: ReplicaProcess) -> None:
        """Wait until a replica owns the broker."""
        wait_until(replica.is_owner, within_s=TAKEN_OVER_S, what=f"replica {replica.name} as the owner")

    def __enter__(self) -> Self:
        self.servers.__enter__()
        try:
            self.start()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for replica in self.replicas:
                if error is None and not replica.is_running():
                    continue
                replica.__exit__(kind, error, trace)
        finally:
            self.servers.__exit__(kind, error, trace)
