"""Users that operators create while the node runs: checked like those of a file, and stored with their secrets.

A password is stored as an argon2id hash and as the keys of SCRAM-SHA-256, from which it cannot be read. An operator who
moves users from another broker gives these instead, or a hash of another form; without keys, clients of the user cannot
use SCRAM.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

import orjson
from argon2 import PasswordHasher
from pydantic import Field, SecretStr, ValidationError

from sluicegate.gateway.config.findings import described
from sluicegate.gateway.config.sections.section import NamedSection
from sluicegate.gateway.provisioning.store import ObjectKind
from sluicegate.gateway.views.adapters import adapter
from sluicegate.gateway.views.clients.accounts import PasswordHashes
from sluicegate.gateway.views.errors import UserAlreadyExists, UserNotFound
from sluicegate.messaging.clients.roster import DEFAULT, ClientUsername
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.protocols.security import scram
from sluicegate.protocols.security.account_secrets import decoy_of, scram_of
from sluicegate.protocols.security.stored_secrets import (
    HASH_CHARS_MAX,
    HASH_FORMS,
    KINDS_MAX,
    SCRAM_FORMS,
    check_kind,
    check_password_hash,
    check_scram_secret,
)

PASSWORD_CHARS_MAX: Final = 1024
# No password matches it. An empty text would not do: a release that knows no users without keys would take it for an
# empty password.
NO_SCRAM: Final = decoy_of(f"{scram.NAME}${scram.ITERATIONS_MIN}")
SECRETS: Final = ("password", "password_hash", "scram_secret")  # fields of a user


class UserRequest(NamedSection):
    """A user as a body describes it."""

    name: str = Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")
    password: SecretStr | None = Field(
        default=None, min_length=1, max_length=PASSWORD_CHARS_MAX, description="in plain; it is never shown"
    )
    enabled: bool = Field(default=True, description="whether its clients may connect")
    client_profile: str = Field(default=DEFAULT, max_length=32, description="one that there is")
    acl_profile: str = Field(default=DEFAULT, max_length=32, description="one that there is")
    password_hash: SecretStr | None = Field(
        default=None, min_length=1, max_length=HASH_CHARS_MAX, description="in place of password; it is never shown"
    )
    scram_secret: SecretStr | None = Field(
        default=None, min_length=1, max_length=HASH_CHARS_MAX, description="keys for SCRAM, beside password_hash"
    )

    def settings(self) -> dict[str, object]:
        """Return all fields but the secrets."""
        return self.model_dump(exclude=set(SECRETS))


@dataclass(frozen=True, slots=True)
class StoredUser:
    """A user as it is stored."""

    name: str
    enabled: bool
    client_profile: str
    acl_profile: str
    password_hash: str = field(repr=False)  # argon2id, or what protocols.security.stored_secrets lets pass
    scram: str = field(repr=False)  # the stored form of protocols.security.scram; NO_SCRAM: it has no keys

    def username(self) -> ClientUsername:
        """Return the account without its secrets."""
        return ClientUsername(self.name, self.enabled, self.client_profile, self.acl_profile)

    def hashes(self) -> PasswordHashes:
        """Return its secrets."""
        return PasswordHashes(password_hash=self.password_hash, scram_secret=self.scram_secret())

    def scram_secret(self) -> str:
        """Return its keys for SCRAM, in their stored form; empty: it has none."""
        return "" if self.scram == NO_SCRAM else self.scram


def user_request(values: Mapping[str, object]) -> UserRequest:
    """Return the user that a body describes. Raises QueueInvalid."""
    user = described(UserRequest, values)
    if user.password is not None and user.password_hash is not None:
        raise QueueInvalid("password_hash", "a password stands beside it", "one of the two")
    if user.scram_secret is not None and user.password_hash is None:
        raise QueueInvalid("scram_secret", "it stands without a hash", "beside password_hash only")
    _check("password_hash", user.password_hash, check_password_hash, HASH_FORMS)
    _check("scram_secret", user.scram_secret, check_scram_secret, SCRAM_FORMS)
    return user


def check_kind_of_hash(user: UserRequest, present: Collection[str], memory_bytes_max: int) -> None:
    """Raise QueueInvalid if the hash that a body gives would make every login of the message VPN too costly.

    `present` are the kinds of hashes that its other accounts have.
    """

    def check(secret: str) -> None:
        check_kind(secret, present, memory_bytes_max=memory_bytes_max)

    allowed = f"at most {KINDS_MAX} kinds of hashes in a message VPN, and what their checks may cost; or a password"
    _check("password_hash", user.password_hash, check, allowed)


def _check(name: str, secret: SecretStr | None, check: Callable[[str], None], allowed: str) -> None:
    if secret is not None:
        try:
            check(secret.get_secret_value())
        except ValueError as problem:
            raise QueueInvalid(name, f"this value is not allowed: {problem}", allowed) from None


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
    elif asked.password_hash is not None:
        password_hash = asked.password_hash.get_secret_value()
        if asked.scram_secret is not None:
            scram_text = asked.scram_secret.get_secret_value()
        else:
            scram_text = password_hash if scram_of(password_hash) else NO_SCRAM
    elif before is not None:
        password_hash, scram_text = before.password_hash, before.scram
    else:
        allowed = f"1 to {PASSWORD_CHARS_MAX} characters, or password_hash in its place"
        raise QueueInvalid("password", "it is missing", allowed)
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
