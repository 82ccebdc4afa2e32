"""What every AMQP connection in a message VPN uses."""

from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.actors.cell import ActorCell
from sluicegate.actors.events import Events
from sluicegate.messaging.address import Address
from sluicegate.messaging.client_roster import ClientRoster
from sluicegate.messaging.credit import CreditPool
from sluicegate.messaging.queue_config import QueueDefinition
from sluicegate.messaging.routing import TopicSpace
from sluicegate.messaging.selectors import Selectors
from sluicegate.protocols.amqp.limits import AmqpLimits
from sluicegate.protocols.amqp.registry import Registry
from sluicegate.protocols.amqp.remembering import RememberedLinks
from sluicegate.protocols.amqp.subscriptions import SubscriptionQueue
from sluicegate.protocols.amqp.transaction import TransactionAccounts
from sluicegate.protocols.authentication import Authenticator
from sluicegate.protocols.counters import ProtocolCounters
from sluicegate.protocols.unfinished import UnfinishedBytes


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
    remembered: RememberedLinks
    container_id: str  # ours
    version: str
    allows_plain_unencrypted: bool  # SASL PLAIN on listeners without TLS
    registry: Registry
    selectors: Selectors
    subscription_queue: Callable[[SubscriptionQueue], QueueDefinition]  # how it is declared
