"""The limits that a node has together with the other brokers of its machine: which ones, and what it gives back.

`messaging.limits` says how. The node registers its own, and each message VPN what it has; `settle` is called several
times a second, and shows the others what this broker uses of totals that nobody reports when they fall.
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.limits.counts import SharedCounts, key_of
from sluicegate.messaging.limits.places import SharedPlaces
from sluicegate.messaging.limits.quota import SharedQuota
from sluicegate.messaging.limits.slices import Slice
from sluicegate.messaging.limits.totals import SharedTotal
from sluicegate.messaging.queues.admission import SpoolGate
from sluicegate.protocols.transport.listeners import BaseListener

SETTLE_S: Final = 0.1  # between two calls of `settle`: so long may a broker keep what it no longer uses


@final
class SharedLimits:
    """The limits of one node that hold for its machine."""

    def __init__(self, counts: SharedCounts) -> None:
        self._counts: Final = counts
        self._node: Callable[[], None] = lambda: None
        self._vpns: dict[str, Callable[[], None]] = {}

    def share_node(self, gate: SpoolGate) -> None:
        """Share the limits of the spool."""
        gate.share(*[Slice(self._counts, key_of(what, outlives=True)) for what in ("spool bytes", "spool messages")])
        self._node = gate.settle

    def share_vpn(self, vpn: str, gate: SpoolGate, clients: ClientRoster) -> SharedQuota:
        """Share the limits of a message VPN. Return what of its quota to settle with `settles`."""
        gate.share(Slice(self._counts, _spool_key(vpn)))
        clients.share(SharedPlaces(self._counts, vpn))
        shared = clients.quota.shared = SharedQuota(self._counts, vpn)
        return shared

    def settles(self, vpn: str, settle: Callable[[], None]) -> None:
        """Have `settle` called from time to time, until the message VPN is deleted."""
        self._vpns[vpn] = settle

    def forget(self, vpn: str) -> None:
        """A message VPN was deleted, and nothing is left in it."""
        self._vpns.pop(vpn, None)
        SharedQuota(self._counts, vpn).forget()
        self._counts.set(_spool_key(vpn), 0)

    def share_listener(self, listener: BaseListener) -> None:
        """Share the places of a listener."""
        listener.shared = SharedTotal(self._counts, "listener", listener.name)

    def publish(self) -> None:
        """Show the other brokers what this one has, from now on: it has read its spool."""
        self.settle()
        self._counts.publish()

    def settle(self) -> None:
        """Give back what is not used."""
        self._node()
        for settle in self._vpns.values():
            settle()

    @property
    def unshared_count(self) -> int:
        """How many counts the other brokers were not shown, for want of room."""
        return self._counts.unshared_count


def _spool_key(vpn: str) -> int:
    return key_of("spool bytes", vpn, outlives=True)
