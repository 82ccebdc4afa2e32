"""Users that operators create while the node runs: checked like those of a file, and stored with their secrets.

A password is stored as an argon2id hash and as the keys of SCRAM-SHA-256, from which it cannot be read.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

import orjson
from argon2 import PasswordHasher
from pydantic import Field, SecretStr, ValidationError

from sluicegate.gateway.config.findings import described
from sluicegate.gateway.config.sections.section import NamedSection
from sluicegate.gateway.provisioning.store import ObjectKind
from sluicegate.gateway.views.adapters import adapter
from sluicegate.gateway.views.errors import UserAlreadyExists, UserNotFound
from sluicegate.messaging.clients.roster import DEFAULT, ClientUsername
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.protocols.security import scram

PASSWORD_CHARS_MAX: Final = 1024


class UserRequest(NamedSection):
    """A user as a body describes it."""

    name: str = Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")
    password: SecretStr | None = Field(
        default=None, min_length=1, max_length=PASSWORD_CHARS_MAX, description="in plain; it is never shown"
    )
    enabled: bool = Field(default=True, description="whether its clients may connect")
    client_profile: str = Field(default=DEFAULT, max_length=32, description="one that there is")
    acl_profile: str = Field(default=DEFAULT, max_length=32, description="one that there is")

    def settings(self) -> dict[str, object]:
        """Return all fields but the password."""
        return self.model_dump(exclude={"password"})


@dataclass(frozen=True, slots=True)
class StoredUser:
    """A user as it is stored."""

    name: str
    enabled: bool
    client_profile: str
    acl_profile: str
    password_hash: str = field(repr=False)  # argon2id
    scram: str = field(repr=False)  # the stored form of protocols.security.scram

    def username(self) -> ClientUsername:
        """Return the account without its secrets."""
        return ClientUsername(self.name, self.enabled, self.client_profile, self.acl_profile)


def user_request(values: Mapping[str, object]) -> UserRequest:
    """Return the user that a body describes. Raises QueueInvalid."""
    return described(UserRequest, values)


def user_changes(user: StoredUser, changes: Mapping[str, object]) -> UserRequest:
    """Return a user with some fields changed; without a new password it keeps the present one. Raises QueueInvalid."""
    if changes.get("name", user.name) != user.name:
        raise QueueInvalid("name", "a user cannot be renamed", user.name)
    known = {"name": user.name, "enabled": user.enabled}
    profiles = {"client_profile": user.client_profile, "acl_profile": user.acl_profile}
    return user_request({**known, **profiles, **changes})


def stored_user(
    asked: UserRequest, before: StoredUser | None, scram_iterations: int, random_bytes: Callable[[int], bytes]
) -> StoredUser:
    """Return the user to store. Hashing a new password takes tens of milliseconds. Raises QueueInvalid."""
    if asked.password is not None:
        password_hash, scram_text = _kept(asked.password.get_secret_value(), scram_iterations, random_bytes)
    elif before is not None:
        password_hash, scram_text = before.password_hash, before.scram
    else:
        raise QueueInvalid("password", "it is missing", f"1 to {PASSWORD_CHARS_MAX} characters")
    return StoredUser(
        name=asked.name,
        enabled=asked.enabled,
        client_profile=asked.client_profile,
        acl_profile=asked.acl_profile,
        password_hash=password_hash,
        scram=scram_text,
    )


def _read(row: bytes) -> StoredUser:
    try:
        return adapter(StoredUser).validate_json(row)
    except ValidationError as error:
        raise ValueError(", ".join(str(each["loc"]) for each in error.errors(include_input=False))) from None


def _kept(password: str, scram_iterations: int, random_bytes: Callable[[int], bytes]) -> tuple[str, str]:
    try:
        return PasswordHasher().hash(password), scram.stored_text(password, scram_iterations, random_bytes)
    except ValueError as problem:
        allowed = "characters that RFC 4013 does not prohibit, such as all printable ones"
        raise QueueInvalid("password", f"this value is not allowed: {problem}", allowed) from None


USERS: Final = ObjectKind(
    row_key=b"user/",
    count_max=10_000,  # a reload visits all of them
    written=lambda user: orjson.dumps(asdict(user)),
    read=_read,
    not_found=UserNotFound,
    already_exists=UserAlreadyExists,
)
