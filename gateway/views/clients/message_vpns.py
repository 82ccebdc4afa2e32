"""Views of message VPNs."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageVpnView:
    """One message VPN. Names of attributes are Solace's, in snake case."""

    name: str
    origin: str  # where it is defined: configuration, operator, or store: nowhere, and it is shut down
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
    settings: Mapping[str, object]  # as a request to create it has them, all but its name


@dataclass(frozen=True, slots=True)
class MessageVpnsView:
    """All message VPNs, by name."""

    message_vpns: tuple[MessageVpnView, ...]
