"""Views of users and profiles, of the operator who asks, and the profiles that always exist."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from pydantic import Field

from sluicegate.gateway.config.sections.security.client_profiles import ALLOW, AclProfileSettings, ClientProfileSettings
from sluicegate.messaging.clients.roster import DEFAULT

AclException = Mapping[str, object] | str  # topic and syntax; or a network


class ProfileKind(StrEnum):
    """The kinds of profiles. Each has the name of the field of a user that refers to it."""

    CLIENT = "client_profile"
    ACL = "acl_profile"


# Profiles that always exist, unless the configuration has one of that name.
CLIENT_DEFAULT: Final = ClientProfileSettings(name=DEFAULT)
ACL_DEFAULT: Final = AclProfileSettings(
    name=DEFAULT, publish_topic_default_action=ALLOW, subscribe_topic_default_action=ALLOW
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordHashes:
    """What is stored of the password of a user. It is in no view: only an export that an admin asks for has it."""

    password_hash: str = field(repr=False)
    scram_secret: str = field(repr=False)  # empty: there is none

    def fields(self) -> dict[str, str]:
        """Return the fields of a user in a document."""
        keys = {"scram_secret": self.scram_secret} if self.scram_secret else {}
        return {"password_hash": self.password_hash, **keys}


class ClientProfileView(ClientProfileSettings):
    """A client profile, and where it comes from."""

    origin: str = Field(description="configuration, or operator")

    @classmethod
    def of(cls, profile: ClientProfileSettings, origin: str) -> Self:
        """Return the view of a profile."""
        return cls.model_construct(**dict(profile), origin=origin)


class AclProfileView(AclProfileSettings):
    """An ACL profile, and where it comes from."""

    origin: str = Field(description="configuration, or operator")

    @classmethod
    def of(cls, profile: AclProfileSettings, origin: str) -> Self:
        """Return the view of a profile."""
        return cls.model_construct(**dict(profile), origin=origin)


ProfileView = ClientProfileView | AclProfileView


@dataclass(frozen=True, slots=True)
class ProfilesView:
    """All profiles, by name."""

    client_profiles: Sequence[ClientProfileView]
    acl_profiles: Sequence[AclProfileView]


# The account of the operator who asks.


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView:
    """The account that sent the request. Levels are none, read-only, read-write and admin."""

    name: str  # empty: the gateway has no accounts for operators, and everyone who reaches the port may do everything
    global_access_level: str  # in the node
    msg_vpn_access_level: str  # in the message VPN that was asked about


# Users, without their passwords.


@dataclass(frozen=True, slots=True, kw_only=True)
class UserView:
    """One account of a message VPN."""

    name: str
    origin: str  # configuration, or operator
    enabled: bool
    reason: str  # why its clients cannot connect although it is enabled
    client_profile: str
    acl_profile: str
    connected_count: int  # its clients' connections


@dataclass(frozen=True, slots=True)
class UsersView:
    """All users, by name."""

    users: Sequence[UserView]
