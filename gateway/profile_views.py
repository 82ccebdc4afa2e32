"""The client and ACL profiles of a message VPN as operators see them. A configuration makes them, and a reload."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.config import Authentication
from gateway.config.client_profiles import ALLOW, AclProfileSettings, ClientProfileSettings
from messaging.client_roster import DEFAULT

# What there is always, unless the configuration has one of that name.
CLIENT_DEFAULT: Final = ClientProfileSettings(name=DEFAULT)
ACL_DEFAULT: Final = AclProfileSettings(
    name=DEFAULT, publish_topic_default_action=ALLOW, subscribe_topic_default_action=ALLOW
)


@dataclass(frozen=True, slots=True)
class ProfilesView:
    """All there are, by name."""

    client_profiles: Sequence[ClientProfileSettings]
    acl_profiles: Sequence[AclProfileSettings]


def profiles_view(authentication: Authentication) -> ProfilesView:
    """Return the profiles that users may have."""
    clients = {each.name: each for each in (CLIENT_DEFAULT, *authentication.client_profiles)}
    acls = {each.name: each for each in (ACL_DEFAULT, *authentication.acl_profiles)}
    return ProfilesView(
        [clients[name] for name in sorted(clients)],
        [acls[name] for name in sorted(acls)],
    )
