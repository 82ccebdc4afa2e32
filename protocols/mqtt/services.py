"""What every MQTT connection of a node uses."""

from collections.abc import Callable
from dataclasses import dataclass, field

from actors.cell import ActorCell
from actors.runtime import Runtime
from messaging.address import Address
from messaging.credit import CreditPool
from messaging.queue_config import QueueDefinition
from messaging.routing import TopicSpace
from protocols.authentication import Authenticator
from protocols.mqtt.limits import MqttLimits


@dataclass(slots=True)
class MqttCounters:
    """Totals over all connections, living and gone."""

    connected: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    violated: dict[str, int] = field(default_factory=dict)
    messages_received: int = 0
    messages_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    refused_publishes: int = 0

    def count(self, counter: dict[str, int], reason: str, number: int = 1) -> None:
        """Count under a reason."""
        counter[reason] = counter.get(reason, 0) + number


@dataclass(frozen=True, slots=True)
class MqttServices:
    """Shared by the connections of all MQTT listeners."""

    runtime: Runtime
    space: TopicSpace
    router: ActorCell
    queues: ActorCell
    spool: Address
    authenticator: Authenticator
    limits: MqttLimits
    credit: CreditPool[Address]  # what all consumers of the node may hold unsettled together
    counters: MqttCounters
    window_v3: int  # unacknowledged messages towards a 3.x client, which cannot say what it takes
    session_expiry_s_max: int
    keep_alive_s_max: int
    allows_no_client_id: bool  # a client without an identifier is given one
    connection_buffer_bytes_max: int  # direct messages beyond it are dropped
    slow_subscriber_stall_ms: int
    session_queue: Callable[[str, bool], QueueDefinition]  # name and durability -> how a session's queue is declared
