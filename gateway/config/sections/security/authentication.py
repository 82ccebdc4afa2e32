"""Accounts, and how clients prove who they are: by a password, a certificate, or a token of an authorization server.

Passwords in a file are hashes. Accounts of operators are in `gateway.config.sections.admin`.
"""

import ssl
from collections import Counter
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from argon2 import extract_parameters
from pydantic import BeforeValidator, Field, SecretStr, model_validator

from sluicegate.gateway.config.sections.listeners import is_loopback
from sluicegate.gateway.config.sections.section import Section
from sluicegate.gateway.config.sections.security.backends import HttpHook
from sluicegate.gateway.config.sections.security.client_profiles import AclProfileSettings, ClientProfileSettings
from sluicegate.gateway.config.sections.security.ldap import LdapDirectory
from sluicegate.gateway.config.sections.security.secret_files import first_line
from sluicegate.messaging.clients.roster import DEFAULT, ClientUsername
from sluicegate.protocols.security.account_secrets import ARGON2_PREFIX, is_hash, scram_of
from sluicegate.protocols.security.password_hashes import check_foreign_hash, is_foreign_hash
from sluicegate.protocols.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, read_stored

ON_LOOPBACK: Final = "on-loopback"
KEYS_FILE_BYTES_MAX: Final = 1 << 20  # of some hundred keys; a server has two or three


def _anonymous(value: object) -> object:
    if value == ON_LOOPBACK or isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):  # from the environment
        return value.lower() == "true"
    raise ValueError("unknown")


AllowAnonymous = Annotated[bool | Literal["on-loopback"], BeforeValidator(_anonymous)]


class Account(Section):
    """A name with a password. The configuration has a hash (`sluicegate hash-password`) or the name of a file.

    A plain password is accepted from the environment only, where orchestrators put secrets.
    """

    name: str = Field(min_length=1, max_length=255)
    password: SecretStr | None = Field(default=None, description="a hash; from the environment also a plain password")
    password_file: Path | None = Field(default=None, description="file whose first line is a hash or a plain password")

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if self.password is not None and self.password_file is not None:
            raise ValueError("set exactly one of password and password_file")
        try:
            if self.has_secret():
                self.secret()
        except OSError as problem:
            raise ValueError(f"password_file {str(self.password_file)!r}: {problem.strerror}") from None
        return self

    def has_secret(self) -> bool:
        """Return whether the account has a password. An account without one is for tokens."""
        return self.password is not None or self.password_file is not None

    def secret(self) -> str:
        """Return the hash or the plain password, read from its file if it is in one.

        Raises OSError, and ValueError for a secret that is too long, empty (every client would know it) or a truncated
        hash (no password would match it).
        """
        if self.password is not None:
            secret = self.password.get_secret_value()
        else:
            assert self.password_file is not None, "the caller has seen that there is one"
            secret = first_line(self.password_file)
        where = "password" if self.password_file is None else f"password_file {str(self.password_file)!r}"
        if not secret:
            raise ValueError(f"{where} is empty; allowed: a password or its hash, in the first line")
        if _is_broken(secret):
            raise ValueError(
                f"{where} begins like a hash and is none; allowed: a whole one, as of `sluicegate hash-password`"
            )
        return secret

    def is_hashed(self) -> bool:
        """Return whether the secret is a hash and not a plain password."""
        return is_hash(self.secret())


def _is_broken(secret: str) -> bool:
    """Return whether a secret begins like a hash and is not one: it was probably truncated."""
    try:
        if secret.startswith(ARGON2_PREFIX):
            extract_parameters(secret)
        elif scram_of(secret):
            read_stored(secret)
        elif is_foreign_hash(secret):
            check_foreign_hash(secret)
    except ValueError:
        return True
    return False


class User(Account):
    """An account of clients."""

    enabled: bool = Field(default=True, description="whether its clients may connect")
    client_profile: str = Field(default=DEFAULT, max_length=32, description="one of `client_profiles`")
    acl_profile: str = Field(default=DEFAULT, max_length=32, description="one of `acl_profiles`")

    @model_validator(mode="after")
    def _check_secret(self) -> Self:
        if not self.has_secret():
            raise ValueError("set exactly one of password and password_file")
        return self

    def username(self) -> ClientUsername:
        """Return the account without its secret."""
        return ClientUsername(self.name, self.enabled, self.client_profile, self.acl_profile)


class OAuth(Section):
    """OAuth 2: clients, or operators, log in with a token that an authorization server signed. Off without a key set.

    The keys are those of a file, or are fetched from the authorization server.
    """

    jwks_file: Path | None = Field(
        default=None,
        description="JSON Web Key Set with the public keys of an authorization server; without it, tokens are refused",
    )
    jwks_url: str | None = Field(
        default=None, max_length=2048, description="https URL of the key set, in place of `jwks_file`"
    )
    jwks_ca_file: Path | None = Field(
        default=None, description="authorities that the server's certificate may be from, in PEM; none: the system's"
    )
    jwks_allow_http: bool = Field(
        default=False,
        description="permit http to another machine: who can change its answers can log in as anyone",
    )
    jwks_refresh_s: int = Field(
        default=3_600,
        ge=60,
        le=86_400,
        description="seconds until the keys are fetched again; earlier if Cache-Control says so, after 60 at least",
    )
    jwks_stale_max_s: int = Field(
        default=86_400,
        ge=60,
        le=2_678_400,
        description="seconds for which fetched keys are in force while the server cannot be reached; then tokens are "
        "refused. More than jwks_refresh_s",
    )
    jwks_timeout_ms: int = Field(
        default=5_000, ge=10, le=60_000, description="milliseconds until the server has to have answered"
    )
    issuer: str = Field(default="", max_length=1024, description="required iss of a token")
    audience: str = Field(default="", max_length=1024, description="value that a token's aud must contain")
    user_claim: str = Field(
        default="sub", min_length=1, max_length=255, description="claim of the token that is the user name"
    )
    token_as_password: bool = Field(
        default=False, description="accept a token in place of a password: in MQTT's CONNECT, and with SASL PLAIN"
    )

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if not self.takes_tokens():
            if self.token_as_password:
                raise ValueError("token_as_password needs jwks_file or jwks_url")
            return self
        for name in ("issuer", "audience"):
            if not getattr(self, name):
                raise ValueError(
                    f"{name} is required with {self.keys_setting}: else tokens for other services would be valid"
                )
        if self.jwks_file is None:
            return self
        from sluicegate.protocols.security.tokens.bearer_tokens import (
            read_keys,  # late: its libraries are a tenth of a start
        )

        try:
            read_keys(self.keys_text())
        except (OSError, ValueError) as problem:
            text = problem.strerror if isinstance(problem, OSError) else problem
            raise ValueError(f"jwks_file {str(self.jwks_file)!r}: {text}") from None
        return self

    @property
    def keys_setting(self) -> str:
        """The setting that says where the keys are; without keys, the one for a file."""
        return "jwks_file" if self.jwks_url is None else "jwks_url"

    def takes_tokens(self) -> bool:
        """Return whether there are keys that tokens can be checked with, or will be."""
        return self.jwks_file is not None or self.jwks_url is not None

    def keys_text(self) -> str:
        """Return the key set, read from its file. Raises OSError, ValueError."""
        assert self.jwks_file is not None, "the caller has seen that there is one"
        size = self.jwks_file.stat().st_size
        if size > KEYS_FILE_BYTES_MAX:
            raise ValueError(f"{size} bytes, more than {KEYS_FILE_BYTES_MAX}")
        return self.jwks_file.read_text(encoding="utf-8")

    def fetches_like(self, other: "OAuth") -> bool:
        """Return whether keys are fetched in the same way."""
        names = ("jwks_url", "jwks_ca_file", "jwks_refresh_s", "jwks_stale_max_s", "jwks_timeout_ms")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    @model_validator(mode="after")
    def _check_url(self) -> Self:
        if self.jwks_url is None:
            if self.jwks_ca_file is not None:
                raise ValueError("jwks_ca_file needs jwks_url")
            return self
        if self.jwks_file is not None:
            raise ValueError("set one of jwks_file and jwks_url")
        if self.jwks_stale_max_s <= self.jwks_refresh_s:
            raise ValueError(f"jwks_stale_max_s: allowed is more than jwks_refresh_s, which is {self.jwks_refresh_s}")
        parts = urlsplit(self.jwks_url)
        host = parts.hostname
        if parts.scheme not in ("http", "https") or not host or not _is_host(host) or parts.username is not None:
            raise ValueError("jwks_url: allowed is an https URL with a valid host, and without a user in it")
        if parts.port == 0:
            raise ValueError("jwks_url: its port is 0; allowed: 1 to 65535")
        if parts.scheme == "http" and not (self.jwks_allow_http or is_loopback(host)):
            raise ValueError("jwks_url: http is allowed for this machine only, or with jwks_allow_http; else use https")
        if self.jwks_ca_file is not None:
            try:
                ssl.create_default_context(cafile=self.jwks_ca_file)
            except OSError as problem:  # ssl.SSLError is one
                raise ValueError(f"jwks_ca_file {str(self.jwks_ca_file)!r}: {problem}") from None
        return self


def _is_host(name: str) -> bool:
    """Return whether a text can be the host of a URL: an address, or a name with labels of 1 to 63 characters."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True


class Authentication(Section):
    """Accounts and profiles of clients, and whether clients need an account."""

    allow_anonymous: AllowAnonymous = Field(
        default=ON_LOOPBACK,
        description="admit clients without an account; on-loopback: only on listeners that no other machine can reach",
    )
    users: tuple[User, ...] = ()
    client_profiles: tuple[ClientProfileSettings, ...] = ()
    acl_profiles: tuple[AclProfileSettings, ...] = ()
    oauth: OAuth = OAuth()
    http: HttpHook = HttpHook()
    ldap: LdapDirectory = LdapDirectory()
    scram_iterations: int = Field(
        default=ITERATIONS_MIN,
        ge=ITERATIONS_MIN,
        le=ITERATIONS_MAX,
        description="iterations of SCRAM-SHA-256, for passwords that are set from now on, and for plain ones in files",
    )

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        clients = unique_names("client_profiles", [each.name for each in self.client_profiles])
        acls = unique_names("acl_profiles", [each.name for each in self.acl_profiles])
        unique_names("users", [user.name for user in self.users])
        if self.http.url is not None and self.ldap.url is not None:
            raise ValueError("set one of http.url and ldap.url")
        for user in self.users:
            _check_reference(user.name, "client profile", user.client_profile, clients)
            _check_reference(user.name, "ACL profile", user.acl_profile, acls)
        return self

    def anonymous_allowed_on(self, host: str) -> bool:
        """Return whether clients of a listener on this address may connect without a user name."""
        return is_loopback(host) if self.allow_anonymous == ON_LOOPBACK else self.allow_anonymous is True


def unique_names(what: str, names: list[str]) -> list[str]:
    """Return the names of named sections. Raises ValueError for a duplicate."""
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"{what}: the name {name!r} appears {count} times")
    return names


def _check_reference(user: str, what: str, name: str, names: list[str]) -> None:
    if name not in (DEFAULT, *names):
        allowed = ", ".join([DEFAULT, *[each for each in names if each != DEFAULT]])
        raise ValueError(f"users: {user!r}: there is no {what} {name!r}; allowed: {allowed}")
