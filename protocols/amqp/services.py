"""What every AMQP connection of a node uses."""

from collections.abc import Callable
from dataclasses import dataclass, field

from actors.cell import ActorCell
from actors.runtime import Runtime
from messaging.address import Address
from messaging.credit import CreditPool
from messaging.queue_config import QueueDefinition
from messaging.routing import TopicSpace
from protocols.amqp.limits import AmqpLimits
from protocols.authentication import Authenticator


@dataclass(slots=True)
class AmqpCounters:
    """Totals over all connections, living and gone."""

    connected: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    violated: dict[str, int] = field(default_factory=dict)
    messages_received: int = 0
    messages_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0

    def count(self, counter: dict[str, int], reason: str, number: int = 1) -> None:
        """Count under a reason."""
        counter[reason] = counter.get(reason, 0) + number


@dataclass(frozen=True, slots=True)
class AmqpServices:
    """Shared by the connections of all AMQP listeners."""

    runtime: Runtime
    space: TopicSpace
    router: ActorCell
    queues: ActorCell
    spool: Address
    authenticator: Authenticator
    limits: AmqpLimits
    counters: AmqpCounters
    credit: CreditPool[Address]  # what all consumers of the node may hold together
    container_id: str  # ours
    version: str
    allows_plain_unencrypted: bool  # SASL PLAIN on listeners without TLS
    subscription_queue: Callable[[str, str, bool], QueueDefinition]  # name, topic, durability -> its declaration
