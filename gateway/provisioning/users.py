"""The users of a message VPN, configured or created by operators: listed, created, changed and deleted.

`gateway.security.accounts` checks the credentials of connecting clients.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from sluicegate.gateway.provisioning.profiles import AnyProfiles
from sluicegate.gateway.provisioning.store import CONFIGURATION, OPERATOR, ProvisionedObjects, VpnAccess
from sluicegate.gateway.provisioning.stored_users import (
    USERS,
    StoredUser,
    UserRequest,
    check_kind_of_hash,
    stored_user,
    user_changes,
    user_request,
)
from sluicegate.gateway.views.clients.accounts import PasswordHashes, ProfileKind, UserView
from sluicegate.messaging.clients.roster import DEFAULT, ClientUsername
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.storage.catalog.recovered import StoredVpn

ProfileNames = Mapping[ProfileKind, Collection[str]]  # names of the profiles that exist


class Users:
    """The users of one message VPN.

    Invariant: every user that is let in has profiles that exist. A user whose profile is gone is shut down until the
    profile exists again.
    """

    def __init__(
        self,
        vpn: VpnAccess,
        stored: StoredVpn,
        *,
        profiles: Mapping[ProfileKind, AnyProfiles],
        random_bytes: Callable[[int], bytes],
        on_changed: Callable[[str], None],
        kinds_beside: Callable[[str], Collection[str]],
        hash_memory_bytes_max: int,
    ) -> None:
        """`on_changed` is called with the name of a user that an operator created, changed or deleted.

        `kinds_beside` returns the kinds of hashes of all accounts but one. The check of a hash that an operator gives
        takes at most `hash_memory_bytes_max`.
        """
        self._vpn = vpn
        self._profiles_by_kind = profiles
        self._random_bytes = random_bytes
        self._on_changed = on_changed
        self._kinds_beside = kinds_beside
        self._hash_memory_bytes_max = hash_memory_bytes_max
        self.provisioned = ProvisionedObjects(USERS, vpn, stored.catalog, self._configured)

    def usernames(self) -> list[ClientUsername]:
        """Return all accounts that clients connect by, without secrets."""
        profiles = self._profiles()
        made = {name: _let_in(user.username(), profiles) for name, user in self.provisioned.objects.items()}
        return list((made | self._configured()).values())

    def username(self, name: str) -> ClientUsername | None:
        """Return the account of this name that clients connect by, without secrets; None if there is none."""
        for user in self._vpn.config.authentication.users:
            if user.name == name:
                return user.username()
        made = self.provisioned.objects.get(name)
        return None if made is None else _let_in(made.username(), self._profiles())

    def views(self) -> list[UserView]:
        """Return the view of every user, by name."""
        configured, profiles = self._configured(), self._profiles()
        names = configured.keys() | self.provisioned.objects.keys()
        return [self._view(name, configured, profiles) for name in sorted(names)]

    def view(self, name: str) -> UserView:
        """Return the view of a user. Raises UserNotFound."""
        self.provisioned.origin(name)
        return self._view(name, self._configured(), self._profiles())

    def password_hashes(self) -> dict[str, PasswordHashes]:
        """Return what is stored of the passwords of the users that operators created, by name."""
        return {name: user.hashes() for name, user in self.provisioned.objects.items()}

    def with_profile(self, field: ProfileKind, name: str) -> list[str]:
        """Return the names of the users that operators created with this profile, sorted."""
        return sorted(user.name for user in self.provisioned.objects.values() if getattr(user, field) == name)

    async def create(self, asked: Mapping[str, object]) -> str:
        """Create a user; return its name. Raises UserAlreadyExists, QueueInvalid and Refused."""
        user = user_request(asked)
        await self.provisioned.change(self._create(user))
        return user.name

    async def update(self, name: str, changes: Mapping[str, object]) -> None:
        """Change a user. Shutting it down disconnects its clients. Raises UserNotFound, QueueInvalid and Refused."""
        await self.provisioned.change(self._update(name, changes))

    async def delete(self, name: str) -> None:
        """Delete a user and disconnect its clients. Raises UserNotFound and Refused."""
        await self.provisioned.change(self._delete(name))

    async def _create(self, user: UserRequest) -> None:
        self.provisioned.check_new(user.name)
        await self._keep(user, None)

    async def _update(self, name: str, changes: Mapping[str, object]) -> None:
        user = self.provisioned.changeable(name)
        await self._keep(user_changes(user, changes), user)

    async def _delete(self, name: str) -> None:
        self.provisioned.changeable(name)
        await self._put(name, None)

    async def _put(self, name: str, user: StoredUser | None) -> None:
        await self.provisioned.put(name, user)
        self._on_changed(name)

    def _configured(self) -> dict[str, ClientUsername]:
        return {user.name: user.username() for user in self._vpn.config.authentication.users}

    async def _keep(self, asked: UserRequest, before: StoredUser | None) -> None:
        for field, names in self._profiles().items():
            name = getattr(asked, field)
            if name not in names:
                raise QueueInvalid(field, f"there is no profile {name!r}", ", ".join(names))
        check_kind_of_hash(asked, self._kinds_beside(asked.name), self._hash_memory_bytes_max)
        iterations = self._vpn.config.authentication.scram_iterations
        user = await asyncio.to_thread(stored_user, asked, before, iterations, self._random_bytes)
        await self._put(user.name, user)

    def _view(self, name: str, configured: Mapping[str, ClientUsername], profiles: ProfileNames) -> UserView:
        user = configured.get(name) or self.provisioned.objects[name].username()
        missing = _missing(user, profiles)
        return UserView(
            name=name,
            origin=CONFIGURATION if name in configured else OPERATOR,
            enabled=user.enabled,
            reason=f"there is no profile {missing[0]!r}" if missing and user.enabled else "",
            client_profile=user.client_profile,
            acl_profile=user.acl_profile,
            connected_count=self._vpn.clients.connected_count(name),
        )

    def _profiles(self) -> ProfileNames:
        return {kind: profiles.all().keys() for kind, profiles in self._profiles_by_kind.items()}


def _let_in(user: ClientUsername, profiles: ProfileNames) -> ClientUsername:
    """Return the account of a user. Without one of its profiles it is shut down, with the default profiles."""
    if _missing(user, profiles):
        return replace(user, enabled=False, client_profile=DEFAULT, acl_profile=DEFAULT)
    return user


def _missing(user: ClientUsername, profiles: ProfileNames) -> list[str]:
    """Return the profiles that a user names and that do not exist."""
    return [getattr(user, kind) for kind, names in profiles.items() if getattr(user, kind) not in names]
