"""The message VPNs of a node in memory, checked as a real node checks them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.message_vpns.message_vpns import MessageVpn
from sluicegate.gateway.provisioning.message_vpns import MessageVpnSettings, ProvisionedVpns, settings_of
from sluicegate.gateway.views.clients.message_vpns import MessageVpnsView, MessageVpnView
from sluicegate.gateway.views.errors import Refused, VpnNotFound
from sluicegate.messaging.message.vpn import DEFAULT_VPN


def _vpns() -> dict[str, MessageVpnSettings]:
    return {DEFAULT_VPN: settings_of(DEFAULT_VPN, MessageVpn())}


def _defined() -> ProvisionedVpns:
    defined = ProvisionedVpns({})
    defined.merged(Config())
    return defined


@dataclass
class MemoryVpns:
    """`default`, and those that a test creates. `full` are those with a client, which only force deletes."""

    vpns: dict[str, MessageVpnSettings] = field(default_factory=_vpns)
    defined: ProvisionedVpns = field(default_factory=_defined)
    full: set[str] = field(default_factory=set)

    async def list_message_vpns(self) -> MessageVpnsView:
        return MessageVpnsView(tuple([self._vpn_view(name) for name in sorted(self.vpns)]))

    async def show_message_vpn(self, name: str) -> MessageVpnView:
        if name not in self.vpns:
            raise VpnNotFound(name)
        return self._vpn_view(name)

    async def create_message_vpn(self, asked: Mapping[str, object]) -> MessageVpnView:
        settings = self.defined.new(asked, self.vpns)
        self.vpns[settings.name] = self.defined.settings[settings.name] = settings
        return self._vpn_view(settings.name)

    async def update_message_vpn(self, name: str, changes: Mapping[str, object]) -> MessageVpnView:
        settings = self.defined.changed(name, changes, self.vpns)
        self.vpns[name] = self.defined.settings[name] = settings
        return self._vpn_view(name)

    async def delete_message_vpn(self, name: str, *, force: bool) -> None:
        self.defined.check_changeable(name, self.vpns, "reload")
        if name in self.full and not force:
            raise Refused(f"message VPN {name!r} has 1 connected client")
        del self.vpns[name], self.defined.settings[name]

    def _vpn_view(self, name: str) -> MessageVpnView:
        settings = self.vpns[name]
        return MessageVpnView(
            name=name,
            origin=self.defined.origin(name),
            enabled=settings.enabled,
            up=settings.enabled,
            connection_count=2,
            endpoint_count=1,
            subscription_count=0,
            subscription_bytes=0,
            max_subscription_bytes=1000,
            session_count=1,
            kept_session_count=1,
            max_mqtt_session_count=100,
            session_bytes=1024,
            max_session_bytes=4096,
            retained_message_count=0,
            max_retained_message_count=1000,
            retained_message_bytes=0,
            max_retained_message_bytes=7 << 20,
            spooled_msg_count=3,
            msg_spool_usage_bytes=4,
            max_msg_spool_usage_bytes=5,
            settings={key: value for key, value in settings.to_dict().items() if key != "name"},
        )
