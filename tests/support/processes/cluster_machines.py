"""Machines with replicas of several brokers, over three NATS servers: each a `sluicegate serve` and what it starts."""

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from sluicegate.testing.ports import free_port
from support.http.plain import HTTP
from support.processes.gateway import PYTHON, STOP_S, wait_until
from support.processes.nats import NatsCluster

MACHINES: Final = ("m1", "m2", "m3")
BROKERS: Final = ("orders", "stock", "bills")  # the first is for the first machine rather than for others, and so on
LISTENERS: Final = ("mqtt", "flow")
UNUSED: Final = ("mqtt_websocket", "amqp", "http")
SETTLED_S: Final = 90.0  # on a busy machine
ASK_S: Final = 5.0


class ClusterMachine:
    """One machine; its processes end together, as those of a machine do that loses its power."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name: Final = name
        self.folder: Final = folder
        # By broker, and then by listener; `admin` as well.
        self.ports: Final = {each: {port: free_port() for port in (*LISTENERS, "admin")} for each in BROKERS}
        self._config: Final = folder / "config.yaml"
        self._process: subprocess.Popen[bytes] | None = None

    def configure(self, servers: list[str], links: dict[str, object]) -> None:
        """Write the configuration."""
        brokers: dict[str, object] = {}
        for place, broker in enumerate(BROKERS):
            ports = self.ports[broker]
            settings = {
                "admin": {"port": ports["admin"]},
                "listeners": {each: {"port": ports[each]} for each in LISTENERS},
            }
            brokers[broker] = {"replicas": [*MACHINES[place:], *MACHINES[:place]], "settings": settings}
        document = {
            "cluster": {"servers": servers, "replica": self.name, "log_bytes_max": "256 MiB", "brokers": brokers},
            "listeners": {each: {"enabled": False} for each in UNUSED},
            "backup": {"path": str(self.folder / "backups")},
            "links": links,
            "authentication": {"client_profiles": [{"name": "default", "allow_bridge_connections_enabled": True}]},
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        self._config.write_text(json.dumps(document))

    def start(self) -> None:
        command = [*PYTHON, "serve", "--config", str(self._config), "--data", str(self.folder / "data")]
        with (self.folder / "stderr.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def replica_pids(self) -> list[int]:
        """Return the processes of its replicas."""
        assert self._process is not None
        pid = self._process.pid
        try:
            return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except OSError:  # it has ended
            return []

    def lose(self) -> None:
        """Kill everything at once."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # it starts none again meanwhile
        for pid in self.replica_pids():
            os.kill(pid, signal.SIGKILL)
        self.kill_supervisor()

    def kill_supervisor(self) -> None:
        """Kill the process that has started the others."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(STOP_S)
        self._process = None
        assert code == 0, f"exit code {code}\n{self.stderr[-4000:]}"

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr.log").read_text()

    def admin_url(self, broker: str) -> str:
        return f"http://127.0.0.1:{self.ports[broker]['admin']}"


class ClusterMachines:
    """Three machines and three brokers, which are linked; use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.servers: Final = NatsCluster(folder)
        self.machines: Final = {name: ClusterMachine(name, folder / name) for name in MACHINES}
        links: dict[str, object] = {}
        for broker in BROKERS:
            first, *others = [f"flow://127.0.0.1:{each.ports[broker]['flow']}" for each in self.machines.values()]
            links[broker] = {"url": first, "other_urls": others}
        for machine in self.machines.values():
            machine.configure(self.servers.urls, links)

    def survey(self) -> dict[str, dict[str, Any]]:
        """Return all brokers of the cluster by name, as a replica says; empty if none answers."""
        for machine in self.machines.values():
            for broker in BROKERS if machine.is_running else ():
                with suppress(httpx.HTTPError):
                    answer = HTTP.get(f"{machine.admin_url(broker)}/cluster/brokers", timeout=ASK_S)
                    if answer.is_success:
                        return {each["broker"]: each for each in answer.json()["brokers"]}
        return {}

    def owner(self, broker: str) -> ClusterMachine:
        """Return the machine whose replica owns a broker and serves its clients, as soon as there is one."""
        found: list[ClusterMachine] = []

        def is_there() -> bool:
            found[:] = [each for each in self.machines.values() if each.is_running and _serves(each, broker)]
            return len(found) == 1

        wait_until(is_there, within_s=SETTLED_S, what=f"an owner of {broker}")
        return found[0]

    def until_whole(self) -> None:
        """Wait until each broker has an owner, and all of its replicas that run could take over."""
        running = {each.name for each in self.machines.values() if each.is_running}

        def is_whole() -> bool:
            found = self.survey()
            warm = {name: {one["name"] for one in each["replicas"] if one["caught_up"]} for name, each in found.items()}
            return set(found) == set(BROKERS) and all(
                each["owner"] and running <= warm[each["broker"]] for each in found.values()
            )

        wait_until(is_whole, within_s=SETTLED_S, what="owners, and standbys that have caught up")

    def prefer(self) -> None:
        """Have each broker owned by the machine that it is for, as `cluster handover --preferred` does."""

        def is_settled() -> bool:
            found = self.survey()
            asked = next(each for each in self.machines.values() if each.is_running)
            for each in found.values():
                if each["preferred"]:
                    where = {"broker": each["broker"], "to": each["preferred"]}
                    with suppress(httpx.HTTPError):
                        HTTP.post(f"{asked.admin_url(BROKERS[0])}/cluster/handover", params=where, timeout=ASK_S)
            return bool(found) and all(each["owner"] and not each["preferred"] for each in found.values())

        wait_until(is_settled, within_s=SETTLED_S, what="brokers at the machines that they are for")

    def __enter__(self) -> Self:
        self.servers.__enter__()
        for machine in self.machines.values():
            machine.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for machine in self.machines.values():
                if machine.is_running:
                    (machine.stop if error is None else machine.lose)()
                if error is None:
                    assert "Traceback" not in machine.stderr, machine.stderr[-8000:]
                else:
                    error.add_note(f"{machine.name} wrote to standard error:\n{machine.stderr[-8000:]}")
        finally:
            self.servers.__exit__(kind, error, trace)


def _serves(machine: ClusterMachine, broker: str) -> bool:
    with suppress(httpx.HTTPError):
        return HTTP.get(f"{machine.admin_url(broker)}/health/active", timeout=ASK_S).status_code == 200
    return False
