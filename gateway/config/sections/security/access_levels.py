"""Access levels of operators, as Solace has them, and what an account has of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final


class AccessLevel(IntEnum):
    """From nothing to everything; whoever may do more may do what is below."""

    NONE = 0
    READ_ONLY = 1
    READ_WRITE = 2
    ADMIN = 3  # of the node only: what concerns its files and all message VPNs at once

    @property
    def word(self) -> str:
        """The name of the level in configurations and responses."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, word: str) -> "AccessLevel":
        """Return the level of a name that was checked before."""
        return cls[word.upper().replace("-", "_")]


@dataclass(frozen=True, slots=True)
class AdminAccount:
    """Who sends requests to the admin port. In a message VPN the higher one of two levels counts: global, or its."""

    name: str  # empty: nobody was asked
    global_access_level: AccessLevel
    msg_vpn_access_level: AccessLevel = AccessLevel.NONE
    msg_vpn_access_level_exceptions: Mapping[str, AccessLevel] = field(default_factory=dict)

    def level_in(self, vpn: str) -> AccessLevel:
        """Return its level in a message VPN."""
        of_vpn = self.msg_vpn_access_level_exceptions.get(vpn, self.msg_vpn_access_level)
        return max(self.global_access_level, of_vpn)

    def highest_level(self) -> AccessLevel:
        """Return its highest level anywhere."""
        of_vpns = (self.msg_vpn_access_level, *self.msg_vpn_access_level_exceptions.values())
        return max(self.global_access_level, *of_vpns)


WHOEVER_IS_HERE: Final = AdminAccount("", AccessLevel.ADMIN)  # where there are no accounts
