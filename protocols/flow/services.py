"""The dependencies that the flow connections of one message VPN share."""

from dataclasses import dataclass

from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.flow.codec.limits import FlowLimits
from sluicegate.protocols.security.authentication import Authenticator
from sluicegate.protocols.transport.unfinished import UnfinishedBytes


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
