"""The limits that a node has together with the other brokers of its machine: which ones, and what it gives back.

`messaging.limits` says how. The node registers its own, and each message VPN what it has. `settle_spool` and `settle`
are called several times a second: they show the others what this broker uses of what nobody reports when it falls.
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.limits.counts import SharedCounts, key_of
from sluicegate.messaging.limits.failures import SharedFailures
from sluicegate.messaging.limits.places import SharedPlaces
from sluicegate.messaging.limits.quota import SharedQuota
from sluicegate.messaging.limits.slices import Slice
from sluicegate.messaging.limits.totals import SharedTotal
from sluicegate.messaging.queues.admission import SpoolGate
from sluicegate.protocols.security.login_attempts import LoginAttempts
from sluicegate.protocols.transport.listeners import BaseListener

# Between two calls of `settle_spool`: so long may a broker keep room that it no longer uses. Another may use it
# already, for messages that have left for there, so that quotas are exceeded by what leaves within this time.
SETTLE_S: Final = 0.02
SETTLES_PER_TOTAL: Final = 5  # so often for one `settle`


@final
class SharedLimits:
    """The limits of one node that hold for its machine."""

    def __init__(self, counts: SharedCounts) -> None:
        self._counts: Final = counts
        self._gates: dict[str, SpoolGate] = {}  # by message VPN; empty: of the node
        self._vpns: dict[str, Callable[[], None]] = {}

    def share_node(self, gate: SpoolGate) -> None:
        """Share the limits of the spool."""
        gate.share(*[Slice(self._counts, key_of(what, outlives=True)) for what in ("spool bytes", "spool messages")])
        self._gates[""] = gate

    def share_vpn(self, vpn: str, gate: SpoolGate, clients: ClientRoster) -> SharedQuota:
        """Share the limits of a message VPN. Return what of its quota to settle with `settles`."""
        gate.share(Slice(self._counts, _spool_key(vpn)))
        self._gates[vpn] = gate
        clients.share(SharedPlaces(self._counts, vpn))
        shared = clients.quota.shared = SharedQuota(self._counts, vpn)
        return shared

    def settles(self, vpn: str, settle: Callable[[], None]) -> None:
        """Have `settle` called from time to time, until the message VPN is deleted."""
        self._vpns[vpn] = settle

    def forget(self, vpn: str) -> None:
        """A message VPN was deleted, and nothing is left in it."""
        self._vpns.pop(vpn, None)
        self._gates.pop(vpn, None)
        SharedQuota(self._counts, vpn).forget()
        self._counts.set(_spool_key(vpn), 0)

    def share_logins(self, attempts: LoginAttempts) -> None:
        """Share what is known of failed logins."""
        attempts.share(SharedFailures(self._counts))

    def share_listener(self, listener: BaseListener) -> None:
        """Share the places of a listener."""
        listener.shared = SharedTotal(self._counts, "listener", listener.name)

    def publish(self) -> None:
        """Show the other brokers what this one has, from now on: it has read its spool."""
        self.settle()
        self._counts.publish()

    def settle(self) -> None:
        """Give back what is not used."""
        self.settle_spool()
        for settle in self._vpns.values():
            settle()

    def settle_spool(self) -> None:
        """Give back what is not used of the spool."""
        for gate in self._gates.values():
            gate.settle()

    @property
    def unshared_count(self) -> int:
        """How many counts the other brokers were not shown, for want of room."""
        return self._counts.unshared_count


def _spool_key(vpn: str) -> int:
    return key_of("spool bytes", vpn, outlives=True)
