"""Limits on concurrent requests at an operators' port: in total, per address, and per account.

A request is anonymous until its login is checked. Anonymous requests take no place of authenticated ones. Their number
is limited per address, and by the number of connections, of which the address with the most loses one when there are
too many. An authenticated request takes a place of its account and one of its address. An account without a request in
progress always gets a place, so no account can lock out another one.

Pure counting: the caller reports requests and answers refused ones.
"""

from collections import Counter
from typing import Final, final

REQUESTS_MAX: Final = 128  # authenticated, in total: operators, scrapers, streams of followed queues
OF_ACCOUNT_MAX: Final = 64
OF_NETWORK_MAX: Final = 96  # more than of one account: a proxy may be in front
ANONYMOUS_OF_NETWORK_MAX: Final = 16  # anonymous: their logins are being checked
assert OF_ACCOUNT_MAX < OF_NETWORK_MAX < REQUESTS_MAX, "neither an account nor an address can take all places"

# Reasons of a refusal, as metrics name them.
NETWORK: Final = "address"
ACCOUNT: Final = "account"
ALL: Final = "requests"
ANONYMOUS: Final = "logins"


@final
class Places:
    """The requests in progress at one port. `refused_counts` counts refused requests by reason.

    Invariant: no count exceeds its maximum, except by one request of each account.
    """

    def __init__(self) -> None:
        self.refused_counts = dict.fromkeys((NETWORK, ACCOUNT, ALL, ANONYMOUS), 0)
        self._anonymous: Counter[str] = Counter()  # by network
        self._networks: Counter[str] = Counter()
        self._accounts: Counter[str] = Counter()
        self._count = 0

    def admit_anonymous(self, network: str) -> str:
        """Take a place for a request before its login is checked; return the reason of a refusal, empty for none."""
        if self._anonymous[network] >= ANONYMOUS_OF_NETWORK_MAX:
            return self._refused(ANONYMOUS)
        self._anonymous[network] += 1
        return ""

    def release_anonymous(self, network: str) -> None:
        """Release the place: the login is checked."""
        _count_down(self._anonymous, network)

    def admit_account(self, network: str, account: str) -> str:
        """Take a place for a request of an account (empty: none); return as `admit_anonymous` does."""
        is_first = account != "" and not self._accounts[account]
        if not is_first:
            if account and self._accounts[account] >= OF_ACCOUNT_MAX:
                return self._refused(ACCOUNT)
            if self._networks[network] >= OF_NETWORK_MAX:
                return self._refused(NETWORK)
            if self._count >= REQUESTS_MAX:
                return self._refused(ALL)
        self._count += 1
        self._networks[network] += 1
        self._accounts[account] += 1
        return ""

    def release_account(self, network: str, account: str) -> None:
        """Release the place: the request is answered."""
        self._count -= 1
        _count_down(self._networks, network)
        _count_down(self._accounts, account)

    def _refused(self, reason: str) -> str:
        self.refused_counts[reason] += 1
        return reason


def _count_down(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
