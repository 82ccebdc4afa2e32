"""The users of a node in memory. They have no secrets, because no client connects to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluicegate.gateway.provisioning.store import CONFIGURATION, OPERATOR
from sluicegate.gateway.provisioning.stored_users import UserRequest, user_request
from sluicegate.gateway.views.clients.accounts import PasswordHashes, UserView
from sluicegate.gateway.views.errors import Refused, UserAlreadyExists, UserNotFound
from sluicegate.messaging.queues.definition import QueueInvalid

HASH = "$6$" + "c2FsdHNhbHRzYWx0" + "$" + "A" * 86 + "=="  # of every user's password; none matches
FIXED = user_request({"name": "fixed"})  # of the configuration


@dataclass
class MemoryUsers:
    """Users in a dict, with their passwords as they were sent."""

    users: dict[str, UserRequest] = field(default_factory=lambda: {"fixed": FIXED})

    async def list_users(self) -> Sequence[UserView]:
        return [await self.show_user(name) for name in sorted(self.users)]

    async def show_user(self, name: str) -> UserView:
        if name not in self.users:
            raise UserNotFound(name)
        user = self.users[name]
        return UserView(
            name=name,
            origin=CONFIGURATION if user is FIXED else OPERATOR,
            enabled=user.enabled,
            reason="",
            client_profile=user.client_profile,
            acl_profile=user.acl_profile,
            connected_count=0,
        )

    async def password_hashes(self) -> Mapping[str, PasswordHashes]:
        return {
            name: PasswordHashes(password_hash=HASH, scram_secret="")
            for name, user in self.users.items()
            if user is not FIXED
        }

    async def create_user(self, asked: Mapping[str, object]) -> UserView:
        user = user_request(asked)
        if user.name in self.users:
            raise UserAlreadyExists(user.name)
        if user.password is None and user.password_hash is None:
            raise QueueInvalid("password", "it is missing", "a text")
        self.users[user.name] = user
        return await self.show_user(user.name)

    async def update_user(self, name: str, changes: Mapping[str, object]) -> UserView:
        user = self._changeable(name)
        self.users[name] = user_request(dict(user) | dict(changes))
        return await self.show_user(name)

    async def delete_user(self, name: str) -> None:
        self._changeable(name)
        del self.users[name]

    def _changeable(self, name: str) -> UserRequest:
        if self.users.get(name) is FIXED:
            raise Refused("it is the configuration's")
        if name not in self.users:
            raise UserNotFound(name)
        return self.users[name]
