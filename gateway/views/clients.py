"""Views of connected clients and of message VPNs, and the query that selects clients."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

CLIENTS_MAX: Final = 10_000  # of one answer
CLIENTS_DEFAULT: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientView:
    """One connection of a client that was admitted."""

    name: str  # client id, container id or what else its protocol calls it
    client_username: str  # empty: anonymous
    protocol: str
    address: str  # host and port of its end of the connection
    client_profile: str
    acl_profile: str
    connected_s: int  # for how long
    flows_count: int  # queues' flows of the client under this protocol
    unacked_count: int  # messages that it holds unsettled
    is_paused: bool  # its connection is not read: a destination is full, a request is under way, or it exceeds its rate


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsView:
    """One page of clients."""

    total_count: int  # of those that were asked for, on this page or not
    clients: tuple[ClientView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuery:
    """Which clients to return, by name. `*` stands for any characters, `?` for one; an empty name is for all."""

    client_name: str = ""
    names: Collection[str] | None = None  # only clients of these names, which are no patterns
    after: int = 0  # clients to pass over
    limit: int = CLIENTS_DEFAULT


# The message VPNs of a node as operators see them.


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
