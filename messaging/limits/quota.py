"""What brokers of a machine share of the quotas of one message VPN, beside places of connections and the spool."""

from typing import Final, final

from sluicegate.messaging.limits.counts import SharedCounts
from sluicegate.messaging.limits.totals import SharedTotal


@final
class SharedQuota:
    """The totals of one message VPN that a configuration limits."""

    def __init__(self, counts: SharedCounts, vpn: str) -> None:
        self.subscriptions: Final = SharedTotal(counts, "subscriptions", vpn, outlives=True)
        self.subscription_bytes: Final = SharedTotal(counts, "subscription bytes", vpn, outlives=True)
        self.endpoints: Final = SharedTotal(counts, "endpoints", vpn, outlives=True)
        self.sessions: Final = SharedTotal(counts, "sessions", vpn, outlives=True)
        self.session_bytes: Final = SharedTotal(counts, "session bytes", vpn, outlives=True)

    def forget(self) -> None:
        """Show that nothing is left: the message VPN was deleted."""
        for each in (
            *(self.subscriptions, self.subscription_bytes, self.endpoints),
            *(self.sessions, self.session_bytes),
        ):
            each.settle(0)
