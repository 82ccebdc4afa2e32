"""What every flow connection in a message VPN uses."""

from dataclasses import dataclass

from actors.cell import ActorCell
from actors.events import Events
from messaging.address import Address
from messaging.client_roster import ClientRoster
from messaging.credit import CreditPool
from messaging.routing import TopicSpace
from messaging.selectors import Selectors
from protocols.authentication import Authenticator
from protocols.counters import ProtocolCounters
from protocols.flow.limits import FlowLimits
from protocols.unfinished import UnfinishedBytes


@dataclass(frozen=True, slots=True)
class FlowServices:
    """Shared by the flow connections of one message VPN."""

    events: Events
    space: TopicSpace
    queues: ActorCell
    publishers: ActorCell  # the directory of named publishers
    router: ActorCell
    cursors: ActorCell  # the directory of durable cursors
    staging: ActorCell
    incarnation: int  # of the spool
    spool: Address
    authenticator: Authenticator
    clients: ClientRoster
    limits: FlowLimits
    counters: ProtocolCounters
    unfinished: UnfinishedBytes  # of all clients of the node
    credit: CreditPool[Address]  # what all consumers of the node may hold together
    selectors: Selectors
    connection_buffer_bytes_max: int  # direct messages beyond it are dropped
    slow_subscriber_stall_ms: int
    product: str  # name and version, for WELCOME
    allows_plain_unencrypted: bool  # SASL PLAIN on listeners without TLS
