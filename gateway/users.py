"""The users of a message VPN as operators see and change them: of its configuration, and made while the node runs.

What connecting clients prove is held against `gateway.accounts`.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.catalog import WriteRow
from actors.queue_directory import StoreRefused
from gateway.config import Authentication
from gateway.origins import CONFIGURATION, OPERATOR
from gateway.ports import Refused, UserAlreadyExists, UserNotFound
from gateway.stored_users import (
    USERS_MAX,
    AskedUser,
    StoredUser,
    asked_changes,
    asked_user,
    stored_user,
    stored_users,
    user_row,
)
from gateway.user_views import UserView
from messaging.client_roster import DEFAULT, ClientUsername
from messaging.queue_config import QueueInvalid
from storage.interface import TableWrite
from storage.stored_state import StoredVpn

if TYPE_CHECKING:
    from gateway.node import Node
    from gateway.vpn import MessageVpn


class Users:
    """The users of one message VPN.

    Of two of one name that of the configuration counts; the other one is kept for when that is gone. Invariant: nobody
    has a profile that is not there; whose profile the configuration has no more is shut down until it has it again.
    """

    def __init__(self, node: "Node", vpn: "MessageVpn", stored: StoredVpn) -> None:
        self._node = node
        self._vpn = vpn
        self.made = {each.name: each for each in stored_users(stored.catalog)}
        self._changing = asyncio.Lock()  # hashing a password and writing a row take time

    def usernames(self) -> list[ClientUsername]:
        """Return all accounts, without their secrets, as clients are let in by them."""
        authentication = self._vpn.config.authentication
        made = {name: _let_in(user.username(), authentication) for name, user in self.made.items()}
        return list((made | self._configured()).values())

    def views(self) -> list[UserView]:
        """Return what is to be seen of every user, by name."""
        configured = self._configured()
        return [self._view(name, configured) for name in sorted(configured.keys() | self.made.keys())]

    def view(self, name: str) -> UserView:
        """Return what is to be seen of a user. Raises UserNotFound."""
        configured = self._configured()
        if name not in self.made and name not in configured:
            raise UserNotFound(name)
        return self._view(name, configured)

    async def create(self, asked: Mapping[str, object]) -> str:
        """Make a user; return its name. Raises UserAlreadyExists, QueueInvalid and Refused."""
        user = asked_user(asked)
        async with self._changing:
            if user.name in self.made or user.name in self._configured():
                raise UserAlreadyExists(user.name)
            if len(self.made) >= USERS_MAX:
                raise Refused(f"there are {len(self.made)} users, and may be no more")
            await self._keep(user, None)
        return user.name

    async def update(self, name: str, changes: Mapping[str, object]) -> None:
        """Change a user. One that is shut down is sent away. Raises UserNotFound, QueueInvalid and Refused."""
        async with self._changing:
            user = self._changeable(name)
            await self._keep(asked_changes(user, changes), user)

    async def delete(self, name: str) -> None:
        """Delete a user, who is sent away. Raises UserNotFound and Refused."""
        async with self._changing:
            self._changeable(name)
            await self._write(user_row(name, None))
            del self.made[name]
            self._node.users_changed(self._vpn)

    def _configured(self) -> dict[str, ClientUsername]:
        return {user.name: user.username() for user in self._vpn.config.authentication.users}

    def _changeable(self, name: str) -> StoredUser:
        if name in self._configured():
            raise Refused(f"user {name!r} is the configuration's: change it there, and reload")
        if name not in self.made:
            raise UserNotFound(name)
        return self.made[name]

    async def _keep(self, asked: AskedUser, before: StoredUser | None) -> None:
        for field, name, names in _profiles(asked.client_profile, asked.acl_profile, self._vpn.config.authentication):
            if name not in names:
                raise QueueInvalid(field, f"there is no such profile as {name!r}", ", ".join(names))
        user = await asyncio.to_thread(stored_user, asked, before, self._node.runtime.rng.randbytes)
        await self._write(user_row(user.name, user))
        self.made[user.name] = user
        self._node.users_changed(self._vpn)

    async def _write(self, row: TableWrite) -> None:
        try:
            await self._vpn.catalog.ask(WriteRow(row))
        except StoreRefused as refusal:
            raise Refused(str(refusal)) from None

    def _view(self, name: str, configured: Mapping[str, ClientUsername]) -> UserView:
        authentication = self._vpn.config.authentication
        user = configured.get(name) or self.made[name].username()
        profiles = _profiles(user.client_profile, user.acl_profile, authentication)
        missing = [each for _, each, names in profiles if each not in names]
        return UserView(
            name=name,
            origin=CONFIGURATION if name in configured else OPERATOR,
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
