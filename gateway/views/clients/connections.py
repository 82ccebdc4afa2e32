"""One client with all of its connections, and what it has subscribed to."""

from dataclasses import dataclass
from typing import Final

from sluicegate.gateway.views.clients.clients import ClientView
from sluicegate.gateway.views.queues.queues import FlowView

SUBSCRIPTIONS_MAX: Final = 10_000  # of one answer
SUBSCRIPTIONS_DEFAULT: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WillView:
    """The will of an MQTT client: the message that is published when it leaves without a DISCONNECT."""

    topic: str
    size_bytes: int
    qos: int
    retain: bool
    delay_s: int  # from the end of the connection to its publication


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttConnectionView:
    """What an MQTT client has said in CONNECT, as it is in force."""

    clean_start: bool  # of 3.x: Clean Session
    keep_alive_s: int  # 0: off
    session_expiry_s: int | None  # None: never
    receive_maximum: int  # messages that the client takes unacknowledged
    maximum_packet_size: int | None  # that the client takes; None: no limit
    topic_alias_maximum: int  # aliases that the client takes
    reason_strings: bool  # it wants to be told reasons: Request Problem Information
    will: WillView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpLinkView:
    """One link of an AMQP container."""

    name: str
    role: str  # of the client: sender or receiver
    channel: int
    handle: int
    address: str | None  # of the source that it receives from, or the target that it sends to; None: anonymous
    state: str
    credit: int  # deliveries that the sender may still send
    delivery_count: int
    settle_mode: str  # of the sender: settled, unsettled or mixed
    durable: bool  # its source outlives it


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpConnectionView:
    """What an AMQP container has opened."""

    container_id: str
    max_frame_size: int  # that we send at most
    heartbeat_ms: int  # of silence before we send a frame; 0: never
    sessions_count: int
    links: tuple[AmqpLinkView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPublisherView:
    """One publisher flow of a client of the flow protocol."""

    id: int
    name: str  # empty: anonymous
    epoch: int
    window: int
    received_through: int  # the last sequence that has come
    answered_through: int  # the last one up to which all are answered
    unanswered_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowConnectionView:
    """What a client of the flow protocol has agreed on, and its publishers."""

    keep_alive_ms: int
    compresses: bool
    publishers: tuple[FlowPublisherView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFlowView:
    """A flow of a queue to the client."""

    queue: str
    flow: FlowView


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionView:
    """One connection of a client, with what its protocol adds."""

    broker: str = ""  # of a machine with several
    client: ClientView
    protocol_version: str
    listener: str
    tls: bool
    websocket: str | None  # the subprotocol; None: no WebSocket
    certificate_name: str | None  # the user name in the certificate that it has shown
    connected_ms: int  # wall clock
    is_slow: bool  # it reads more slowly than we write
    unread_bytes: int  # written to it, and not taken by the network yet
    dropped_count: int  # direct messages that there was no room for, because it reads too slowly
    flows: tuple[ClientFlowView, ...]
    mqtt: MqttConnectionView | None = None
    amqp: AmqpConnectionView | None = None
    flow: FlowConnectionView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientDetailsView:
    """A client: one name in one message VPN, on whichever protocols."""

    name: str
    vpn_name: str
    connections: tuple[ConnectionView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSubscriptionView:
    """A subscription of a client. What only MQTT has is None for other protocols."""

    subscription: str  # as it was made, with #share/NAME/ before it
    topic: str  # the filter alone
    share_name: str | None
    queue: str | None  # that collects its messages for the client, of AMQP; None: the client gets them itself
    dto_priority: str  # P1 to P4, or DA
    qos: int | None
    no_local: bool | None
    retain_as_published: bool | None
    retain_handling: int | None
    identifier: int | None  # None: none
    selector: str | None  # None: all messages


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSubscriptionsView:
    """A page of the subscriptions of one client, connected or away."""

    client: str
    total_count: int
    subscriptions: tuple[ClientSubscriptionView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionsQuery:
    """Which subscriptions of a client to return."""

    topic_str: str = ""  # pattern of the subscription; empty: all
    after: int = 0  # rows to pass over
    limit: int = SUBSCRIPTIONS_DEFAULT
