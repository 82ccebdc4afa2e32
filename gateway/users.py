"""The users of a message VPN as operators see and change them: of its configuration, and made while the node runs.

What connecting clients prove is held against `gateway.accounts`.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.config import Authentication
from gateway.made_objects import MadeObjects
from gateway.stored_users import USERS, AskedUser, StoredUser, asked_changes, asked_user, stored_user
from gateway.user_views import UserView
from messaging.client_roster import DEFAULT, ClientUsername
from messaging.queue_config import QueueInvalid
from storage.stored_state import StoredVpn

if TYPE_CHECKING:
    from gateway.node import Node
    from gateway.vpn import MessageVpn


class Users:
    """The users of one message VPN.

    Invariant: nobody has a profile that is not there; whose profile is there no more is shut down until it is again.
    """

    def __init__(self, node: "Node", vpn: "MessageVpn", stored: StoredVpn) -> None:
        self._node = node
        self._vpn = vpn
        self.made = MadeObjects(USERS, vpn, stored.catalog, self._configured)

    def usernames(self) -> list[ClientUsername]:
        """Return all accounts, without their secrets, as clients are let in by them."""
        authentication = self._vpn.config.authentication
        made = {name: _let_in(user.username(), authentication) for name, user in self.made.objects.items()}
        return list((made | self._configured()).values())

    def views(self) -> list[UserView]:
        """Return what is to be seen of every user, by name."""
        configured = self._configured()
        return [self._view(name, configured) for name in sorted(configured.keys() | self.made.objects.keys())]

    def view(self, name: str) -> UserView:
        """Return what is to be seen of a user. Raises UserNotFound."""
        self.made.origin(name)
        return self._view(name, self._configured())

    async def create(self, asked: Mapping[str, object]) -> str:
        """Make a user; return its name. Raises UserAlreadyExists, QueueInvalid and Refused."""
        user = asked_user(asked)
        await self.made.change(self._create(user))
        return user.name

    async def update(self, name: str, changes: Mapping[str, object]) -> None:
        """Change a user. One that is shut down is sent away. Raises UserNotFound, QueueInvalid and Refused."""
        await self.made.change(self._update(name, changes))

    async def delete(self, name: str) -> None:
        """Delete a user, who is sent away. Raises UserNotFound and Refused."""
        await self.made.change(self._delete(name))

    async def _create(self, user: AskedUser) -> None:
        self.made.check_new(user.name)
        await self._keep(user, None)

    async def _update(self, name: str, changes: Mapping[str, object]) -> None:
        user = self.made.changeable(name)
        await self._keep(asked_changes(user, changes), user)

    async def _delete(self, name: str) -> None:
        self.made.changeable(name)
        await self.made.put(name, None)
        self._node.users_changed(self._vpn)

    def _configured(self) -> dict[str, ClientUsername]:
        return {user.name: user.username() for user in self._vpn.config.authentication.users}

    async def _keep(self, asked: AskedUser, before: StoredUser | None) -> None:
        for field, name, names in _profiles(asked.client_profile, asked.acl_profile, self._vpn.config.authentication):
            if name not in names:
                raise QueueInvalid(field, f"there is no such profile as {name!r}", ", ".join(names))
        user = await asyncio.to_thread(stored_user, asked, before, self._node.runtime.rng.randbytes)
        await self.made.put(user.name, user)
        self._node.users_changed(self._vpn)

    def _view(self, name: str, configured: Mapping[str, ClientUsername]) -> UserView:
        authentication = self._vpn.config.authentication
        user = configured.get(name) or self.made.objects[name].username()
        profiles = _profiles(user.client_profile, user.acl_profile, authentication)
        missing = [each for _, each, names in profiles if each not in names]
        return UserView(
            name=name,
            origin=self.made.origin(name),
            enabled=user.enabled,
            reason=f"there is no such profile as {missing[0]!r}" if missing and user.enabled else "",
            client_profile=user.client_profile,
            acl_profile=user.acl_profile,
            connected_count=self._vpn.clients.connected_count(name),
        )


def _let_in(user: ClientUsername, authentication: Authentication) -> ClientUsername:
    """Return a user as it is let in; one without its profiles is shut down, and has those that there are always."""
    if all(name in names for _, name, names in _profiles(user.client_profile, user.acl_profile, authentication)):
        return user
    return replace(user, enabled=False, client_profile=DEFAULT, acl_profile=DEFAULT)


def _profiles(client: str, acl: str, authentication: Authentication) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each kind of profile: its field, the one that is named, and those that there are."""
    yield "client_profile", client, _names([each.name for each in authentication.client_profiles])
    yield "acl_profile", acl, _names([each.name for each in authentication.acl_profiles])


def _names(configured: list[str]) -> list[str]:
    return list(dict.fromkeys([DEFAULT, *configured]))
