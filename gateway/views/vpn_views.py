"""The message VPNs of a node as operators see them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluicegate.gateway.node.node import Node
    from sluicegate.gateway.node.vpn import MessageVpn


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageVpnView:
    """One message VPN. Names of attributes are Solace's, in snake case."""

    name: str
    enabled: bool
    up: bool  # its clients are let in
    connection_count: int  # clients that are admitted
    endpoint_count: int  # queues, those of subscriptions included
    subscription_count: int  # of clients, queues and groups
    subscription_bytes: int  # that they count for
    max_subscription_bytes: int
    session_count: int  # of MQTT, with a client or without
    kept_session_count: int  # those that are kept without their client
    max_mqtt_session_count: int
    session_bytes: int  # that all sessions count for, with names and wills
    max_session_bytes: int
    retained_message_count: int
    max_retained_message_count: int
    retained_message_bytes: int  # what they count for
    max_retained_message_bytes: int
    spooled_msg_count: int
    msg_spool_usage_bytes: int
    max_msg_spool_usage_bytes: int


@dataclass(frozen=True, slots=True)
class MessageVpnsView:
    """All of them, by name."""

    message_vpns: tuple[MessageVpnView, ...]


def vpns_view(node: "Node") -> MessageVpnsView:
    """Return the message VPNs of a node."""
    return MessageVpnsView(tuple(_view(vpn) for _, vpn in sorted(node.vpns.items())))


def _view(vpn: "MessageVpn") -> MessageVpnView:
    space = vpn.space
    return MessageVpnView(
        name=vpn.name,
        enabled=vpn.config.enabled,
        up=vpn.is_up,
        connection_count=vpn.clients.count,
        endpoint_count=vpn.queues_count,
        subscription_count=space.subscriptions_count,
        subscription_bytes=space.subscriptions_bytes,
        max_subscription_bytes=vpn.clients.quota.subscription_bytes_max,
        session_count=vpn.sessions_count,
        kept_session_count=vpn.session_room.kept_count,
        max_mqtt_session_count=vpn.clients.quota.session_count_max,
        session_bytes=vpn.session_room.usage_bytes,
        max_session_bytes=vpn.clients.quota.session_bytes_max,
        retained_message_count=space.retained.count,
        max_retained_message_count=space.retained.count_max,
        retained_message_bytes=space.retained.usage_bytes,
        max_retained_message_bytes=space.retained.usage_bytes_max,
        spooled_msg_count=vpn.gate.usage_count,
        msg_spool_usage_bytes=vpn.gate.usage_bytes,
        max_msg_spool_usage_bytes=vpn.gate.usage_bytes_max,
    )
