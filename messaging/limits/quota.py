"""What brokers of a machine share of the quotas of one message VPN, beside places of connections and the spool."""

from typing import Final, final

from sluicegate.messaging.limits.counts import SharedCounts, Want, key_of
from sluicegate.messaging.limits.totals import SharedTotal


@final
class SharedHttpFlows:
    """The flows of HTTP clients of one message VPN: all, and those of each client."""

    def __init__(self, counts: SharedCounts, vpn: str) -> None:
        self._counts: Final = counts
        self._vpn: Final = vpn
        self._all_key: Final = key_of("http flows", vpn)

    def refuses_all(self, count: int, count_max: int, client: str, its_count: int, its_max: int) -> bool | None:
        """Have so many flows in total, and so many of a client. Return None if both limits have room.

        Else return whether it is the limit of all that has none.
        """
        wants = [Want(self._all_key, count, count_max), Want(self._key(client), its_count, its_max)]
        refuses = self._counts.claim(wants)
        return None if refuses < 0 else refuses == 0

    def settle(self, count: int, client: str, its_count: int) -> None:
        """Show how many flows there are, and how many of a client."""
        self._counts.set(self._all_key, count)
        self._counts.set(self._key(client), its_count)

    def _key(self, client: str) -> int:
        return key_of("http flows of", self._vpn, client)


@final
class SharedOwners:
    """The queues that usernames of one message VPN own, of those usernames for which a limit may refuse one.

    There may be very many others.
    """

    def __init__(self, counts: SharedCounts, vpn: str) -> None:
        self._counts: Final = counts
        self._vpn: Final = vpn

    def admits(self, user: str, count: int, count_max: int) -> bool:
        """Return whether a user may own so many, beside those at other brokers; it then does."""
        return self._counts.claim([Want(self._key(user), count, count_max)]) < 0

    def settle(self, user: str, count: int) -> None:
        """Show how many queues a user owns here."""
        self._counts.set(self._key(user), count)

    def _key(self, user: str) -> int:
        return key_of("queues of", self._vpn, user, outlives=True)


@final
class SharedQuota:
    """The totals of one message VPN that a configuration limits."""

    def __init__(self, counts: SharedCounts, vpn: str) -> None:
        self.subscriptions: Final = SharedTotal(counts, "subscriptions", vpn, outlives=True)
        self.subscription_bytes: Final = SharedTotal(counts, "subscription bytes", vpn, outlives=True)
        self.endpoints: Final = SharedTotal(counts, "endpoints", vpn, outlives=True)
        self.sessions: Final = SharedTotal(counts, "sessions", vpn, outlives=True)
        self.session_bytes: Final = SharedTotal(counts, "session bytes", vpn, outlives=True)
        self.publishers: Final = SharedTotal(counts, "publishers", vpn, outlives=True)
        self.staged_bytes: Final = SharedTotal(counts, "staged bytes", vpn, outlives=True)
        self.owners: Final = SharedOwners(counts, vpn)
        self.http_flows: Final = SharedHttpFlows(counts, vpn)

    def forget(self) -> None:
        """Show that nothing is left: the message VPN was deleted."""
        for each in (
            *(self.subscriptions, self.subscription_bytes, self.endpoints),
            *(self.sessions, self.session_bytes),
            *(self.publishers, self.staged_bytes),
        ):
            each.settle(0)
