"""Client profiles: what clients are, and may do, by the user name they came under. Who may come is `authentication`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

DEFAULT_PROFILE: Final = "default"  # of clients without a user name, and of users that name none


@dataclass(frozen=True, slots=True)
class ClientProfile:
    """What the clients of one kind have in common."""

    name: str = DEFAULT_PROFILE
    dto_local_priority: int = 1  # for Deliver-To-One: 1 (the best) to 4, or DELIVER_ALWAYS
    allows_shared_subscriptions: bool = True


@final
class ClientProfiles:
    """The profiles of a node's users."""

    def __init__(self, of_users: Mapping[str, ClientProfile], default: ClientProfile) -> None:
        self._of_users = dict(of_users)
        self._default = default

    def of(self, user_name: str) -> ClientProfile:
        """Return the profile of a client. An empty name is an anonymous one."""
        return self._of_users.get(user_name, self._default)
