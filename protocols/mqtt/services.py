"""The dependencies that the MQTT connections of one message VPN share."""

from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.messaging.queues.definition import QueueDefinition
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.session.room import SessionRoom
from sluicegate.protocols.security.authentication import Authenticator
from sluicegate.protocols.transport.unfinished import UnfinishedBytes


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
    window_v3: int  # unacknowledged messages to a 3.x client, which has no Receive Maximum
    session_expiry_s_max: int
    keep_alive_s_max: int
    allows_no_client_id: bool  # a client without an identifier is given one
    connection_buffer_bytes_max: int  # direct messages beyond it are dropped
    slow_subscriber_stall_ms: int
    session_queue: Callable[[str, bool], QueueDefinition]  # name and durability -> how a session's queue is declared
