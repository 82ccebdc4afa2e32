"""A broker at two sites, each with one replica and with NATS servers of its own."""

import json
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from support.http.plain import HTTP
from support.processes.gateway import wait_until
from support.processes.nats import NatsCluster
from support.processes.replicas import ASK_S, TAKEN_OVER_S, ReplicaProcess

SITES: Final = ("paris", "london")
REPLICA: Final = "a"


class Site:
    """One site: its servers, and the one replica there."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True)
        self.name = name
        self.servers = NatsCluster(folder)
        self.folder = folder
        self.replica: ReplicaProcess

    def configure(self, mate: "Site", *, is_active: bool) -> None:
        settings: dict[str, object] = {
            "cluster.replicas": json.dumps([REPLICA]),
            "cluster.log_bytes_max": "64 MiB",
            "cluster.replication.site": self.name,
            "cluster.replication.mate": mate.name,
            "cluster.replication.mate_servers": json.dumps(mate.servers.urls),
            "cluster.replication.role": "active" if is_active else "standby",
        }
        self.replica = ReplicaProcess(self.folder / REPLICA, REPLICA, self.servers.urls, settings)

    def status(self) -> dict[str, Any]:
        """Return what it says of the sites; nothing while it does not answer."""
        with suppress(httpx.HTTPError):
            answer = HTTP.get(f"{self.replica.admin_url}/replication", timeout=ASK_S)
            if answer.status_code == 200:
                found: dict[str, Any] = answer.json()
                return found
        return {}

    def has(self, **wanted: object) -> None:
        """Wait until it says that of the sites."""

        def is_so() -> bool:
            said = self.status()
            return said != {} and all(said[name] == value for name, value in wanted.items())

        wait_until(is_so, within_s=TAKEN_OVER_S, what=f"site {self.name} to have {wanted}; it has {self.status()}")

    def has_all(self) -> None:
        """Wait until this standby site has all of the log, which nobody writes to."""
        self.has(is_receiving=True, lag_messages=0, mate_role="active", problem="")

    def demote(self) -> None:
        HTTP.post(f"{self.replica.admin_url}/replication/demote").raise_for_status()

    def promote(self, *, accept_loss: bool = False) -> httpx.Response:
        url = f"{self.replica.admin_url}/replication/promote?accept_loss={int(accept_loss)}"
        return HTTP.post(url)

    def is_promoted(self) -> None:
        """Promote it, as soon as all of the log is there."""
        within_s = TAKEN_OVER_S
        wait_until(lambda: self.promote().status_code == 202, within_s=within_s, what=f"{self.name} to be promoted")

    def serves(self) -> None:
        """Wait until its replica owns the broker."""
        wait_until(self.replica.is_owner, within_s=TAKEN_OVER_S, what=f"site {self.name} to serve")


class TwoSites:
    """Both sites, of which the first is active; use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self.paris, self.london = [Site(folder / name, name) for name in SITES]
        self.paris.configure(self.london, is_active=True)
        self.london.configure(self.paris, is_active=False)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        try:
            for site in (self.paris, self.london):
                self._open.enter_context(site.servers)
            for site in (self.paris, self.london):
                site.replica.start()
                self._open.push(site.replica)
                if site is self.paris:
                    site.serves()
        except BaseException as error:
            self._open.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)
