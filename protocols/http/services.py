"""What every HTTP connection in a message VPN uses."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate.actors.cell import ActorCell
from sluicegate.actors.events import Events
from sluicegate.messaging.address import Address
from sluicegate.messaging.client_roster import ClientRoster
from sluicegate.messaging.routing import TopicSpace
from sluicegate.messaging.selectors import Selectors
from sluicegate.protocols.authentication import Authenticator
from sluicegate.protocols.counters import ProtocolCounters
from sluicegate.protocols.http.flows import HttpFlows
from sluicegate.protocols.http.limits import HttpLimits
from sluicegate.protocols.http.responses import ResponseHeads
from sluicegate.protocols.unfinished import UnfinishedBytes
from sluicegate.protocols.web_pages import WebPages


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
