"""The three machines of a round: a replica and a NATS server on each, with a disk that can be filled."""

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import httpx

from rounds.balancer import Target
from rounds.network import Network
from sluicegate.storage.errors import StorageError
from sluicegate.storage.replication.jetstream import connected, stream_name
from sluicegate.storage.replication.requests import Requests
from sluicegate.testing.ports import free_port
from support.http.plain import HTTP
from support.processes.nats import NatsServer
from support.processes.replicas import BROKER, NAMES, ReplicaProcess

SERVERS: Final = ("n1", "n2", "n3")
PROTOCOLS: Final = ("mqtt", "amqp", "flow", "http")
OPERATOR: Final = ("operator", "of-the-rounds")
DISK_MB: Final = 192
QUEUE: Final = "load"
EXACT: Final = "exact"  # first level of the topics of what comes once
RECOVERED_S: Final = 120.0
ASK_S: Final = 5.0
LOOK_S: Final = 0.05


class NotWhole(Exception):
    """The broker is not as it has to be again."""


class Machine(ReplicaProcess):
    """A replica in its place of the network."""

    @property
    def admin_url(self) -> str:
        return f"http://{OPERATOR[0]}:{OPERATOR[1]}@{self.host}:{self.ports['admin']}"

    def is_owner(self) -> bool:
        with suppress(httpx.HTTPError):
            return HTTP.get(f"{self.health_url}/health/active", timeout=ASK_S).status_code == 200
        return False

    def target(self) -> Target:
        """Return it as a balancer knows it."""
        return Target(self.name, self.host, self.ports["health"], {each: self.ports[each] for each in PROTOCOLS})


class Machines:
    """The replicas and the servers of one broker. Use it as a context manager."""

    def __init__(self, folder: Path, network: Network) -> None:
        self.network: Final = network
        self._folder: Final = folder
        self._disks: Final = ExitStack()
        ports = {name: (free_port(), free_port()) for name in SERVERS}
        routes = [f"{network.host(name)}:{ports[name][1]}" for name in SERVERS]
        folder.mkdir(parents=True)
        password_file = folder / "password"
        password_file.write_text(OPERATOR[1])
        user = {"name": OPERATOR[0], "password_file": str(password_file), "global_access_level": "admin"}
        self._settings: Final[dict[str, object]] = {
            "admin.users": json.dumps([user]),
            "health.enabled": True,
            "authentication.allow_anonymous": True,
        }
        self.servers: Final = [
            NatsServer(
                name,
                folder,
                *ports[name],
                routes,
                host=network.host(name),
                begins_with=network.begins_with(name),
            )
            for name in SERVERS
        ]
        self.replicas: Final = [self._replica(name) for name in NAMES]

    def _replica(self, name: str) -> Machine:
        urls = [f"nats://{self.network.way(name, server.name, server.port)}" for server in self.servers]
        replica = Machine(self._folder / name, name, urls, self._settings)
        replica.host = self.network.host(name)
        replica.begins_with = self.network.begins_with(name)
        return replica

    # --- who is what ---

    def owner(self) -> Machine:
        """Return the replica that owns the broker, as soon as it is one. Raises NotWhole."""
        found: list[Machine] = []

        def is_there() -> bool:
            found[:] = [each for each in self.replicas if each.is_running() and each.is_owner()]
            return len(found) == 1

        until(is_there, "one owner")
        return found[0]

    def standbys(self) -> list[Machine]:
        """Return the replicas that are not the owner."""
        owner = self.owner()
        return [each for each in self.replicas if each is not owner]

    def leader(self) -> NatsServer:
        """Return the server that leads the stream. Raises NotWhole."""

        async def ask() -> str:
            client = await connected([server.url for server in self.servers])
            try:
                info = await Requests(client, stream_name(BROKER), answer_s=ASK_S).ask(
                    f"STREAM.INFO.{stream_name(BROKER)}"
                )
                return str(info["cluster"]["leader"])
            finally:
                await client.close()

        found = ""

        def is_known() -> bool:
            nonlocal found
            with suppress(StorageError, KeyError):
                found = asyncio.run(ask())
            return bool(found)

        until(is_known, "a leader of the stream")
        return next(server for server in self.servers if server.name == found)

    def until_whole(self) -> None:
        """Wait until one replica is the owner, and the others could take over. Raises NotWhole."""

        def is_whole() -> bool:
            if not all(each.is_running() and each.is_ready() for each in self.replicas):
                return False
            return all(self.owner().knows().get(name, False) for name in NAMES)

        until(is_whole, "all replicas")

    def start_ended(self) -> None:
        """Start what has ended by itself, as a supervisor would."""
        for replica in self.replicas:
            if replica.has_ended():
                replica.start()

    # --- disks ---

    def fill_disk(self, replica: Machine) -> None:
        """Leave no room on the disk of a replica."""
        with open(replica.data / "filler", "wb", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(bytes(1 << 20))

    def clear_disk(self, replica: Machine) -> None:
        """Make room again."""
        (replica.data / "filler").unlink(missing_ok=True)

    # --- as a context ---

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._end)
            if os.geteuid() == 0:
                for replica in self.replicas:
                    self._mount(replica.data)
            for server in self.servers:
                server.start()
            for replica in self.replicas:
                replica.start()
            self.until_whole()
            self.owner().create_queue(
                QUEUE,
                access_type="non-exclusive",
                partition_count=4,
                subscriptions=[f"{QUEUE}/>"],
                respect_ttl_enabled=True,
                partition_rebalance_delay_s=0,
                partition_rebalance_max_handoff_time_s=1,
            )
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _mount(self, folder: Path) -> None:
        folder.mkdir(parents=True, mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=700", "tmpfs", str(folder)], check=True)
        self._disks.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=False)

    def _end(self) -> None:
        for replica in self.replicas:
            if replica.is_running():
                replica.kill9()
        for server in self.servers:
            server.kill()
        self._disks.close()


def until(condition: Callable[[], bool], what: str, within_s: float = RECOVERED_S) -> None:
    """Wait for a condition. Raises NotWhole."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise NotWhole(f"waited {within_s:.0f} s for {what}")
        time.sleep(LOOK_S)


def keep_logs(folder: Path, kept: Path) -> None:
    """Copy what the processes wrote, and what they were configured with."""
    kept.mkdir(parents=True, exist_ok=True)
    for file in [*folder.glob("*.log"), *folder.glob("*.conf"), *folder.glob("*/stderr.log")]:
        name = file.name if file.parent == folder else f"{file.parent.name}-{file.name}"
        shutil.copy(file, kept / name)
