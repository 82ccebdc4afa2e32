"""What every HTTP connection in a message VPN uses."""

from collections.abc import Mapping
from dataclasses import dataclass

from actors.cell import ActorCell
from actors.events import Events
from messaging.address import Address
from messaging.client_roster import ClientRoster
from messaging.routing import TopicSpace
from messaging.selectors import Selectors
from protocols.authentication import Authenticator
from protocols.counters import ProtocolCounters
from protocols.http.flows import HttpFlows
from protocols.http.limits import HttpLimits
from protocols.http.responses import ResponseHeads
from protocols.unfinished import UnfinishedBytes
from protocols.web_pages import WebPages


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
