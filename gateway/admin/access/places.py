"""How many requests may be under way at a port of operators: in all, of an address, and of an account.

A request is a stranger's until its login is checked. Strangers take no place of those who are known; their number is
bounded by that of each address, and by that of connections, of which the largest crowd loses one when there are too
many. Whoever is known has a place of its account and one of its address. An account without a request under way always
has one, so nobody can shut another one out.

Pure: who comes is told, and who is refused is answered elsewhere.
"""

from collections import Counter
from typing import Final, final

REQUESTS_MAX: Final = 128  # of known ones, in all: operators, scrapers, streams of those who follow
OF_ACCOUNT_MAX: Final = 64
OF_NETWORK_MAX: Final = 96  # more than of one account: there may be a proxy in front
STRANGERS_OF_NETWORK_MAX: Final = 16  # whose logins are checked
assert OF_ACCOUNT_MAX < OF_NETWORK_MAX < REQUESTS_MAX, "neither an account nor an address takes all"

# Why there was no place, in metrics.
NETWORK: Final = "address"
ACCOUNT: Final = "account"
ALL: Final = "requests"
STRANGERS: Final = "logins"


@final
class Places:
    """The requests under way at one port. `refused_counts` are those for which there was no place, by the reason.

    Invariant: no count is above its maximum, but for one request of each account.
    """

    def __init__(self) -> None:
        self.refused_counts = dict.fromkeys((NETWORK, ACCOUNT, ALL, STRANGERS), 0)
        self._strangers: Counter[str] = Counter()  # by network
        self._networks: Counter[str] = Counter()
        self._accounts: Counter[str] = Counter()
        self._count = 0

    def stranger_comes(self, network: str) -> str:
        """Take a place for a request whose login is yet to be checked; return why there is none, empty: it has one."""
        if self._strangers[network] >= STRANGERS_OF_NETWORK_MAX:
            return self._refused(STRANGERS)
        self._strangers[network] += 1
        return ""

    def stranger_goes(self, network: str) -> None:
        """Give the place up: the login is checked."""
        _count_down(self._strangers, network)

    def known_comes(self, network: str, account: str) -> str:
        """Take a place for a request of an account, empty: nobody's; return as `stranger_comes`."""
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

    def known_goes(self, network: str, account: str) -> None:
        """Give the place up: the request is answered."""
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
