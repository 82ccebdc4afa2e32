"""What operators see of users: nothing of their passwords."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UserView:
    """One account of a message VPN."""

    name: str
    origin: str  # configuration, or operator
    enabled: bool
    reason: str  # why its clients are not let in, though it is enabled
    client_profile: str
    acl_profile: str
    connected_count: int  # its clients' connections


@dataclass(frozen=True, slots=True)
class UsersView:
    """All there are, by name."""

    users: Sequence[UserView]
