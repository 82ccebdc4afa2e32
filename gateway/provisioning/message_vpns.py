"""The message VPNs that operators create while the node runs, beside those of the configuration.

A configured message VPN hides one of the same name that operators created; that one returns when the configured one is
gone. The settings of each are in a row of its own part of the catalog (`storage.catalog.vpn_rows`). What it contains,
such as queues and users, is stored like that of a configured one.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from sluicegate.gateway.config.findings import changed, described
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.message_vpns.message_vpns import NOT_CONFIGURED, MessageVpn, OtherVpnName, Vpn
from sluicegate.gateway.config.sections.section import NamedSection
from sluicegate.gateway.config.sections.security.authentication import AllowAnonymous, Authentication
from sluicegate.gateway.provisioning.store import CONFIGURATION, OPERATOR
from sluicegate.gateway.views.errors import Refused, VpnAlreadyExists, VpnNotFound
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.storage.catalog.recovered import StoredVpn
from sluicegate.storage.catalog.vpn_rows import is_being_deleted, stored_settings

STORE: Final = "store"  # origin of a message VPN that has contents, and that nothing defines any more
VPNS_MAX: Final = 1000  # created by operators: each has a dozen actors of its own

log: Final = logging.getLogger("sluicegate.node")


class MessageVpnSettings(Vpn, NamedSection):
    """The settings of a message VPN that operators create. It has no users or queues until they are created."""

    name: OtherVpnName
    allow_anonymous: AllowAnonymous | None = Field(
        default=None,
        description="admit clients without an account: true, false or on-loopback; null: as the node does",
    )

    def section(self) -> MessageVpn:
        """Return the section that a configuration would have for it."""
        settings = {name: getattr(self, name) for name in Vpn.model_fields}
        anonymous = self.allow_anonymous
        authentication = Authentication() if anonymous is None else Authentication(allow_anonymous=anonymous)
        return MessageVpn(**settings, authentication=authentication)


def settings_of(name: str, section: MessageVpn) -> MessageVpnSettings:
    """Return the settings of a message VPN's section, as far as operators can change them."""
    settings: dict[str, Any] = {field: getattr(section, field) for field in Vpn.model_fields}
    anonymous = section.authentication.allow_anonymous
    return MessageVpnSettings.model_construct(name=name, allow_anonymous=anonymous, **settings)


class ProvisionedVpns:
    """The message VPNs of a node by where they are defined.

    `settings` has those that operators created, and `deleting` those whose deletion was decided and not completed.
    """

    def __init__(self, stored: Mapping[str, StoredVpn]) -> None:
        self.settings: dict[str, MessageVpnSettings] = {}
        self.deleting: set[str] = set()
        self._configured: frozenset[str] = frozenset()
        for name, vpn in stored.items():
            if is_being_deleted(vpn.catalog):
                self.deleting.add(name)
                continue
            try:
                row = stored_settings(vpn.catalog)
                if row is not None:
                    self.settings[name] = described(MessageVpnSettings, row)
            except ValueError as problem:
                log.error("the settings of message VPN %r cannot be read; it is shut down: %s", name, problem)

    def merged(self, configured: Config) -> Config:
        """Return a configuration that was read, with the message VPNs that operators created.

        A configured one whose deletion is not completed is shut down until it is: what clients stored in it would be
        deleted with the rest.
        """
        self._configured = frozenset([DEFAULT_VPN, *configured.vpns])
        made = {name: each.section() for name, each in self.settings.items() if name not in self._configured}
        for name in self.deleting & self._configured:
            made[name] = configured.vpns[name].model_copy(update={"enabled": False})
        return configured.model_copy(update={"vpns": {**configured.vpns, **made}}) if made else configured

    def origin(self, name: str) -> str:
        """Return where a message VPN is defined: CONFIGURATION, OPERATOR, or STORE if it is not defined."""
        if name in self._configured:
            return CONFIGURATION
        return OPERATOR if name in self.settings else STORE

    def new(self, asked: Mapping[str, object], present: Mapping[str, object]) -> MessageVpnSettings:
        """Return the settings of a message VPN to create. Raises VpnAlreadyExists, QueueInvalid and Refused."""
        settings = described(MessageVpnSettings, asked)
        if settings.name in present:
            raise VpnAlreadyExists(settings.name)
        self._check_not_being_deleted(settings.name)
        if len(self.settings) >= VPNS_MAX:
            raise Refused(f"there are {len(self.settings)} message VPNs that operators created, and may be no more")
        return settings

    def changed(self, name: str, changes: Mapping[str, object], present: Mapping[str, object]) -> MessageVpnSettings:
        """Return the changed settings of a message VPN. Raises VpnNotFound, QueueInvalid and Refused.

        One that is in the store only becomes an operator's.
        """
        self.check_changeable(name, present, "change the configuration, and reload")
        self._check_not_being_deleted(name)
        before = self.settings.get(name) or settings_of(name, NOT_CONFIGURED)
        return changed(before, changes)

    def check_changeable(self, name: str, present: Mapping[str, object], instead: str) -> None:
        """Raise VpnNotFound, and Refused for a message VPN that is configured."""
        if name not in present:
            raise VpnNotFound(name)
        if name == DEFAULT_VPN:
            raise Refused(f"message VPN {DEFAULT_VPN!r} always exists; its settings are those of the configuration")
        if name in self._configured:
            raise Refused(f"message VPN {name!r} is configured: {instead}")

    def _check_not_being_deleted(self, name: str) -> None:
        if name in self.deleting:
            raise Refused(f"message VPN {name!r} is being deleted; if that failed, delete it again")
