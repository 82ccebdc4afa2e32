"""Services that every AMQP connection in a message VPN uses."""

from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.messaging.queues.definition import QueueDefinition
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.amqp.datapath.sender_recovery import SuspendedSenders
from sluicegate.protocols.amqp.datapath.transaction import TransactionAccounts
from sluicegate.protocols.amqp.limits import AmqpLimits
from sluicegate.protocols.amqp.registry.registry import Registry
from sluicegate.protocols.amqp.registry.subscriptions import SubscriptionQueue
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.security.authentication import Authenticator
from sluicegate.protocols.transport.unfinished import UnfinishedBytes


@dataclass(frozen=True, slots=True)
class AmqpServices:
    """Shared by the AMQP connections of one message VPN."""

    events: Events
    space: TopicSpace
    router: ActorCell
    queues: ActorCell
    spool: Address
    authenticator: Authenticator
    clients: ClientRoster
    limits: AmqpLimits
    counters: ProtocolCounters
    unfinished: UnfinishedBytes  # of all clients of the node
    credit: CreditPool[Address]  # what all consumers of the node may hold together
    transactions: TransactionAccounts  # of the node
    suspended_senders: SuspendedSenders
    container_id: str  # ours
    version: str
    allows_plain_unencrypted: bool  # SASL PLAIN on listeners without TLS
    registry: Registry
    selectors: Selectors
    subscription_queue: Callable[[SubscriptionQueue], QueueDefinition]  # how it is declared
