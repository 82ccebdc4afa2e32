"""Services that every HTTP connection in a message VPN uses."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.http.codec.responses import ResponseHeads
from sluicegate.protocols.http.consuming.flows import HttpFlows
from sluicegate.protocols.http.limits import HttpLimits
from sluicegate.protocols.security.authentication import Authenticator
from sluicegate.protocols.transport.origins import WebPages
from sluicegate.protocols.transport.unfinished import UnfinishedBytes


@dataclass(frozen=True, slots=True)
class HttpServices:
    """Shared by the HTTP connections of one message VPN."""

    events: Events
    space: TopicSpace
    router: ActorCell
    queues: ActorCell
    flows: HttpFlows
    selectors: Selectors
    spool: Address
    authenticator: Authenticator
    clients: ClientRoster
    pages: Mapping[str, WebPages]  # which may use a listener's port, by its name
    limits: HttpLimits
    counters: ProtocolCounters
    unfinished: UnfinishedBytes  # of all clients of the node
    heads: ResponseHeads
    is_gateway: bool  # every request is relayed, and waits for its reply
