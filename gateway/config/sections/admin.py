"""The HTTP port for operators, their accounts, and access levels, as Solace has them.

The access level that an operation needs is in `gateway.admin.rest`; accounts of clients are in
`gateway.config.sections.security.authentication`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from sluicegate.gateway.config.sections.listeners import LOOPBACK, Host, Port, TlsPort, VpnName, is_loopback
from sluicegate.gateway.config.sections.section import Section
from sluicegate.gateway.config.sections.security.authentication import Account, OAuth, unique_names

BODY_TIMEOUT_S_MAX: Final = (
    25  # less than a response may take: otherwise a slow client would be told that the node is slow
)

GlobalLevel = Literal["none", "read-only", "read-write", "admin"]
VpnLevel = Literal["none", "read-only", "read-write"]


class AccessLevel(IntEnum):
    """Access levels in ascending order. Each includes the ones below it."""

    NONE = 0
    READ_ONLY = 1
    READ_WRITE = 2
    ADMIN = 3  # of the node only: operations on its files, and on all message VPNs at once

    @property
    def word(self) -> str:
        """The name of the level in configurations and responses."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, word: str) -> "AccessLevel":
        """Return the level of a name that was checked before."""
        return cls[word.upper().replace("-", "_")]


@dataclass(frozen=True, slots=True)
class AdminAccount:
    """The account of a request to the admin port.

    In a message VPN, the higher of two levels counts: the global one, or that of the message VPN.
    """

    name: str  # empty: the port has no accounts
    global_access_level: AccessLevel
    msg_vpn_access_level: AccessLevel = AccessLevel.NONE
    msg_vpn_access_level_exceptions: Mapping[str, AccessLevel] = field(default_factory=dict)

    def level_in(self, vpn: str) -> AccessLevel:
        """Return its level in a message VPN."""
        of_vpn = self.msg_vpn_access_level_exceptions.get(vpn, self.msg_vpn_access_level)
        return max(self.global_access_level, of_vpn)

    def highest_level(self) -> AccessLevel:
        """Return its highest level anywhere."""
        of_vpns = (self.msg_vpn_access_level, *self.msg_vpn_access_level_exceptions.values())
        return max(self.global_access_level, *of_vpns)


ANONYMOUS_ADMIN: Final = AdminAccount("", AccessLevel.ADMIN)  # where there are no accounts


class AdminUser(Account):
    """An account of an operator. An account without a password is for tokens."""

    global_access_level: GlobalLevel = Field(
        default="none", description="access level for the node, and for every message VPN"
    )
    msg_vpn_access_level: VpnLevel = Field(
        default="none", description="access level for message VPNs; the higher of the two counts"
    )
    msg_vpn_access_level_exceptions: dict[VpnName, VpnLevel] = Field(
        default_factory=dict, description="access level for single message VPNs, by name"
    )

    def account(self) -> AdminAccount:
        """Return the account without its secret."""
        return AdminAccount(
            name=self.name,
            global_access_level=AccessLevel.of(self.global_access_level),
            msg_vpn_access_level=AccessLevel.of(self.msg_vpn_access_level),
            msg_vpn_access_level_exceptions={
                name: AccessLevel.of(level) for name, level in self.msg_vpn_access_level_exceptions.items()
            },
        )


class AdminTls(TlsPort):
    """The same port over TLS. With `client_ca`, operators must present a certificate, and log in as well."""

    host: Host = LOOPBACK
    port: Port = 1943


class Admin(Section):
    """The HTTP port for operators, metrics and health. Without accounts, only this machine can reach it."""

    enabled: bool = True
    host: Host = LOOPBACK
    port: Port = 8080
    body_timeout_s: int = Field(
        default=15,
        ge=1,
        le=BODY_TIMEOUT_S_MAX,
        description="seconds for the body of a request, from the first read to its end",
    )
    tls: AdminTls = AdminTls()
    users: tuple[AdminUser, ...] = ()
    oauth: OAuth = OAuth()

    @model_validator(mode="after")
    def _check_users(self) -> Self:
        unique_names("users", [user.name for user in self.users])
        if self.oauth.takes_tokens() and not self.users:
            setting = f"oauth.{self.oauth.keys_setting}"
            raise ValueError(f"{setting} is set without users: users have the access levels of token holders")
        for user in self.users:
            if not user.has_secret() and not self.oauth.takes_tokens():
                text = "has no password, and tokens are not taken (oauth.jwks_file, oauth.jwks_url)"
                raise ValueError(f"users: {user.name!r} {text}")
        for port in (self, self.tls):
            if port.enabled and not self.users and not is_loopback(port.host):
                text = f"{port.host} can be reached from elsewhere, and there are no accounts"
                raise ValueError(f"{text}; allowed: a loopback address such as {LOOPBACK}, or accounts in admin.users")
        return self
