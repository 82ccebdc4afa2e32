"""The settings of a link, checked and with the contents of the files that the configuration names."""

import ssl
from dataclasses import dataclass
from typing import final

from sluicegate.messaging.routing.local_interest import ExportRules
from sluicegate.protocols.flow.client.options import ClientOptions, Target


@final
@dataclass(frozen=True)
class LinkSettings:
    """One link, to one neighbor broker."""

    name: str  # of the neighbor broker
    target: Target | None  # where it listens; None: it connects to us, unless it is a sibling
    other_targets: tuple[Target, ...]  # where it listens if not there: a broker with replicas is at one of them
    options: ClientOptions  # how to log in there
    tls: ssl.SSLContext | None  # of a target that is TLS
    tls_digests: tuple[bytes, ...]  # differ where the files of `tls` do
    vpns: tuple[tuple[str, str], ...]  # name of a message VPN here, name there
    peer_username: str  # that the neighbor logs in with when it connects; empty: any
    export: ExportRules
    export_texts: tuple[tuple[str, ...], ...]  # the same, to be compared
    dead_time_ms: int  # the neighbor is gone when nothing was heard of it for so long
    subscribe_wait_ms: int  # subscribers are answered when the neighbor knows, after so long at the latest
    direct_bytes_max: int  # direct messages that wait for the neighbor; beyond, the oldest are dropped
    dials_sibling: bool = False  # the neighbor is another broker of this machine, and this one connects to it

    @property
    def dials(self) -> bool:
        """Whether this broker connects to the neighbor."""
        return self.target is not None or self.dials_sibling

    @property
    def address(self) -> str:
        """Where this broker connects to, for logs."""
        return "a Unix socket" if self.target is None else f"{self.target.host}:{self.target.port}"

    def targets(self, attempt: int) -> list[Target]:
        """Return where to connect, in turn; each attempt begins with another one, for one may accept and be silent."""
        found = [] if self.target is None else [self.target, *self.other_targets]
        place = attempt % len(found) if found else 0
        return found[place:] + found[:place]

    def runs_as(self, other: "LinkSettings | None") -> bool:
        """Return whether a link with other settings need not be made anew."""
        return other is not None and self._compared() == other._compared()

    def _compared(self) -> tuple[object, ...]:
        return (
            self.name,
            self.target,
            self.other_targets,
            self.options,
            self.tls_digests,
            self.vpns,
            self.peer_username,
            self.export_texts,
            self.dead_time_ms,
            self.subscribe_wait_ms,
            self.direct_bytes_max,
            self.dials_sibling,
        )
