"""Message VPNs as operators see them."""

from sluicegate.gateway.node.node import Node
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.provisioning.message_vpns import settings_of
from sluicegate.gateway.provisioning.store import OPERATOR
from sluicegate.gateway.views.clients.message_vpns import MessageVpnsView, MessageVpnView


def vpns_view(node: Node) -> MessageVpnsView:
    """Return the message VPNs of a node."""
    return MessageVpnsView(tuple(vpn_view(node, vpn) for _, vpn in sorted(node.vpns.items())))


def vpn_view(node: Node, vpn: MessageVpn) -> MessageVpnView:
    """Return a message VPN of a node."""
    space = vpn.space
    defined = node.services.provisioned_vpns
    settings = defined.settings.get(vpn.name) if defined.origin(vpn.name) == OPERATOR else None
    if settings is None:
        settings = settings_of(vpn.name, vpn.config)
    return MessageVpnView(
        name=vpn.name,
        origin=defined.origin(vpn.name),
        enabled=vpn.config.enabled,
        up=vpn.is_up,
        connection_count=vpn.clients.count,
        endpoint_count=vpn.queues_count,
        subscription_count=space.subscriptions_count,
        subscription_bytes=space.subscriptions_bytes,
        max_subscription_bytes=vpn.clients.quota.subscription_bytes_max,
        session_count=vpn.sessions_count,
        kept_session_count=vpn.session_quota.kept_count,
        max_mqtt_session_count=vpn.clients.quota.session_count_max,
        session_bytes=vpn.session_quota.usage_bytes,
        max_session_bytes=vpn.clients.quota.session_bytes_max,
        retained_message_count=space.retained.count,
        max_retained_message_count=space.retained.count_max,
        retained_message_bytes=space.retained.usage_bytes,
        max_retained_message_bytes=space.retained.usage_bytes_max,
        spooled_msg_count=vpn.gate.usage_count,
        msg_spool_usage_bytes=vpn.gate.usage_bytes,
        max_msg_spool_usage_bytes=vpn.gate.usage_bytes_max,
        settings={key: value for key, value in settings.to_dict().items() if key != "name"},
    )
