"""What every AMQP connection in a message VPN uses."""

from collections.abc import Callable
from dataclasses import dataclass

from actors.cell import ActorCell
from actors.events import Events
from messaging.address import Address
from messaging.client_roster import ClientRoster
from messaging.credit import CreditPool
from messaging.queue_config import QueueDefinition
from messaging.routing import TopicSpace
from messaging.selectors import Selectors
from protocols.amqp.limits import AmqpLimits
from protocols.amqp.registry import Registry
from protocols.amqp.remembering import RememberedLinks
from protocols.amqp.subscriptions import SubscriptionQueue
from protocols.amqp.transaction import TransactionAccounts
from protocols.authentication import Authenticator
from protocols.counters import ProtocolCounters
from protocols.unfinished import UnfinishedBytes


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
