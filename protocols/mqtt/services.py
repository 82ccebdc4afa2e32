"""What every MQTT connection in a message VPN uses."""

from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.actors.cell import ActorCell
from sluicegate.actors.events import Events
from sluicegate.actors.runtime import Runtime
from sluicegate.messaging.address import Address
from sluicegate.messaging.client_roster import ClientRoster
from sluicegate.messaging.credit import CreditPool
from sluicegate.messaging.queue_config import QueueDefinition
from sluicegate.messaging.routing import TopicSpace
from sluicegate.messaging.selectors import Selectors
from sluicegate.protocols.authentication import Authenticator
from sluicegate.protocols.counters import ProtocolCounters
from sluicegate.protocols.mqtt.limits import MqttLimits
from sluicegate.protocols.mqtt.session_room import SessionRoom
from sluicegate.protocols.unfinished import UnfinishedBytes


@dataclass(frozen=True, slots=True)
class MqttServices:
    """Shared by the MQTT connections of one message VPN."""

    runtime: Runtime
    events: Events
    space: TopicSpace
    router: ActorCell
    queues: ActorCell
    sessions: ActorCell  # the session directory
    session_room: SessionRoom  # its accounts
    spool: Address
    authenticator: Authenticator
    clients: ClientRoster
    limits: MqttLimits
    selectors: Selectors
    credit: CreditPool[Address]  # what all consumers of the node may hold unsettled together
    counters: ProtocolCounters
    unfinished: UnfinishedBytes  # of all clients of the node
    window_v3: int  # unacknowledged messages towards a 3.x client, which cannot say what it takes
    session_expiry_s_max: int
    keep_alive_s_max: int
    allows_no_client_id: bool  # a client without an identifier is given one
    connection_buffer_bytes_max: int  # direct messages beyond it are dropped
    slow_subscriber_stall_ms: int
    session_queue: Callable[[str, bool], QueueDefinition]  # name and durability -> how a session's queue is declared
