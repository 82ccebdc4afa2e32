"""Who may connect. Passwords are kept as argon2 hashes wherever they stand in a file.

Checking a password at connect is the protocols' business; `User.password_hash` is what they check against.
"""

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from gateway.config.listeners import is_loopback
from gateway.config.oauth import OAuth
from gateway.config.section import Section
from protocols.client_profiles import DEFAULT_PROFILE

ARGON2_PREFIX: Final = "$argon2"
PASSWORD_FILE_BYTES_MAX: Final = 4096
ON_LOOPBACK: Final = "on-loopback"


def _anonymous(value: object) -> object:
    if value == ON_LOOPBACK or isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):  # from the environment
        return value.lower() == "true"
    raise ValueError("unknown")


AllowAnonymous = Annotated[bool | Literal["on-loopback"], BeforeValidator(_anonymous)]


class ClientProfile(Section):
    """What the clients of one kind have in common. That named `default` is for everybody who has no other."""

    name: str = Field(min_length=1, max_length=32)
    dto_local_priority: Literal["P1", "P2", "P3", "P4", "DA"] = Field(
        default="P1", description="who gets messages that are delivered to one: P1 first; DA gets them always"
    )
    # Solace: false. There an administrator writes a profile before anybody can do anything.
    allow_shared_subscriptions_enabled: bool = Field(default=True, description="may join shared subscriptions")


class User(Section):
    """One account. In the file the password is an argon2 hash (`sluicegate hash-password`), or another file's name.

    A plain one is accepted from the environment only, where orchestrators put secrets.
    """

    name: str = Field(min_length=1, max_length=255)
    password: SecretStr | None = Field(
        default=None, description="an argon2 hash; from the environment also a plain password"
    )
    password_file: Path | None = Field(
        default=None, description="file whose first line is an argon2 hash or a plain password"
    )
    client_profile: str = Field(default=DEFAULT_PROFILE, max_length=32, description="one of `client_profiles`")

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        if (self.password is None) == (self.password_file is None):
            raise ValueError("set exactly one of password and password_file")
        if self.password_file is not None:
            try:
                size = self.password_file.stat().st_size
            except OSError as problem:
                raise ValueError(f"password_file {str(self.password_file)!r}: {problem.strerror}") from None
            if not 1 <= size <= PASSWORD_FILE_BYTES_MAX:
                raise ValueError(f"password_file has {size} bytes, not 1 to {PASSWORD_FILE_BYTES_MAX}")
        return self

    def secret(self) -> str:
        """Return the hash or the plain password, read from its file if it is in one. Raises OSError."""
        if self.password is not None:
            return self.password.get_secret_value()
        assert self.password_file is not None, "checked at construction"
        lines = self.password_file.read_text(encoding="utf-8").splitlines()
        return lines[0] if lines else ""

    def is_hashed(self) -> bool:
        """Tell whether the secret is an argon2 hash and not a plain password."""
        return self.secret().startswith(ARGON2_PREFIX)


class Authentication(Section):
    """Accounts, and whether one is needed at all."""

    allow_anonymous: AllowAnonymous = Field(
        default=ON_LOOPBACK, description="true, false, or on-loopback: only where nobody else can connect"
    )
    users: tuple[User, ...] = ()
    client_profiles: tuple[ClientProfile, ...] = ()
    oauth: OAuth = OAuth()

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [user.name for user in self.users]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"users: the name {name!r} stands there {names.count(name)} times")
        return self

    @model_validator(mode="after")
    def _check_profiles(self) -> Self:
        names = [profile.name for profile in self.client_profiles]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"client_profiles: the name {name!r} stands there {names.count(name)} times")
        for user in self.users:
            if user.client_profile not in (DEFAULT_PROFILE, *names):
                allowed = ", ".join([DEFAULT_PROFILE, *[name for name in names if name != DEFAULT_PROFILE]])
                reason = f"there is no client profile {user.client_profile!r}; allowed: {allowed}"
                raise ValueError(f"users: {user.name!r}: {reason}")
        return self

    def anonymous_allowed_on(self, host: str) -> bool:
        """Tell whether clients of a listener on this address may connect without a user name."""
        return is_loopback(host) if self.allow_anonymous == ON_LOOPBACK else self.allow_anonymous is True
