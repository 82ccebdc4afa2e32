"""The client and ACL profiles of a message VPN as operators see them, and those that there are always."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from pydantic import Field

from sluicegate.gateway.config.sections.security.client_profiles import ALLOW, AclProfileSettings, ClientProfileSettings
from sluicegate.messaging.clients.roster import DEFAULT

AclException = Mapping[str, object] | str  # topic and syntax; or a network


class ProfileKind(StrEnum):
    """The kinds of profiles, each called by the field that names a user's."""

    CLIENT = "client_profile"
    ACL = "acl_profile"


# What there is always, unless the configuration has one of that name.
CLIENT_DEFAULT: Final = ClientProfileSettings(name=DEFAULT)
ACL_DEFAULT: Final = AclProfileSettings(
    name=DEFAULT, publish_topic_default_action=ALLOW, subscribe_topic_default_action=ALLOW
)


class ClientProfileView(ClientProfileSettings):
    """A client profile, and where it comes from."""

    origin: str = Field(description="configuration, or operator")

    @classmethod
    def of(cls, profile: ClientProfileSettings, origin: str) -> Self:
        """Return what is to be seen of a profile."""
        return cls.model_construct(**dict(profile), origin=origin)


class AclProfileView(AclProfileSettings):
    """An ACL profile, and where it comes from."""

    origin: str = Field(description="configuration, or operator")

    @classmethod
    def of(cls, profile: AclProfileSettings, origin: str) -> Self:
        """Return what is to be seen of a profile."""
        return cls.model_construct(**dict(profile), origin=origin)


ProfileView = ClientProfileView | AclProfileView


@dataclass(frozen=True, slots=True)
class ProfilesView:
    """All there are, by name."""

    client_profiles: Sequence[ClientProfileView]
    acl_profiles: Sequence[AclProfileView]
