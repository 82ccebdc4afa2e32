"""One flow client as its request handlers see it: engine, identity, and its endpoints.

`FlowConnection` derives from `FlowPeer`, receives from the transport and from other actors, and dispatches to the
handlers.
"""

import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

from sluicegate.actors.messages.directory import LocalQueue, QueueHandle
from sluicegate.actors.messages.queues import UnbindFlow
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour
from sluicegate.actors.runtime.tasks import run_for
from sluicegate.messaging.bulk import durable_cursors as cursors
from sluicegate.messaging.bulk import staging
from sluicegate.messaging.clients.rights import (
    AUTHENTICATION_UNAVAILABLE,
    LOGINS_BUSY,
    NOT_AUTHENTICATED,
    TOO_MANY_CONNECTIONS,
    VPN_DOWN,
    VPN_UNKNOWN,
    ClientDenied,
)
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.observability.events import (
    CLIENT_CONNECTED,
    CLIENT_DISCONNECTED,
    CLIENT_FLOW_CLOSED,
    EventKind,
)
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.connection.counters import ProtocolCounters, Traffic
from sluicegate.protocols.connection.identity import Identity
from sluicegate.protocols.connection.message_vpns import MessageVpns
from sluicegate.protocols.connection.read_control import ReadControl
from sluicegate.protocols.connection.sasl import SaslDialogue
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.session import NO_REQUEST, Error
from sluicegate.protocols.flow.codec.limits import FlowLimits
from sluicegate.protocols.flow.datapath.browsing import Browsers
from sluicegate.protocols.flow.datapath.bulk_reads import BulkReads
from sluicegate.protocols.flow.datapath.consuming import Consumers, FlowIds
from sluicegate.protocols.flow.datapath.output import Output
from sluicegate.protocols.flow.datapath.publishing import PublisherFlow, Publishers
from sluicegate.protocols.flow.datapath.relaying import PublisherHomes, RelayedPublisher, RelayedPublishers
from sluicegate.protocols.flow.datapath.subscribing import Subscriptions
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.flow.engine.frame_rules import CLOSED
from sluicegate.protocols.flow.links import LinkAcceptor, LinkWire
from sluicegate.protocols.flow.publishers.publisher import ReleasePublisher
from sluicegate.protocols.security.authentication import Authenticator, Principal
from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo
from sluicegate.protocols.transport.unfinished import UnfinishedBytes

log = logging.getLogger("sluicegate.flow")

DENIAL_CODES: Final[dict[str, int]] = {
    LOGINS_BUSY: codes.LIMIT_EXCEEDED,
    AUTHENTICATION_UNAVAILABLE: codes.LIMIT_EXCEEDED,
    TOO_MANY_CONNECTIONS: codes.LIMIT_EXCEEDED,
    VPN_DOWN: codes.VPN_UNAVAILABLE,
    VPN_UNKNOWN: codes.VPN_NOT_ALLOWED,
}

RETRY_AFTER_MS: Final = 1_000  # when a client may retry a request that is refused for now

# Codes for requests about cursors and transactions that actors refuse; a reason that both have has the same text.
REFUSAL_CODES: Final[dict[str, int]] = {
    cursors.BAD_CURSOR: codes.REQUEST_INVALID,
    cursors.FENCED: codes.FENCED,
    cursors.NO_SUCH_QUEUE: codes.NOT_FOUND,
    cursors.NOT_DURABLE: codes.REQUEST_INVALID,
    cursors.MODE_DIFFERS: codes.REQUEST_INVALID,
    cursors.TOO_MANY: codes.TOO_MANY,
    cursors.QUEUE_IN_USE: codes.IN_USE,
    cursors.NOT_STORED: codes.NOT_STORED,
    cursors.NO_SUCH_CURSOR: codes.NOT_FOUND,
    cursors.NO_SUCH_PARTITION: codes.NOT_FOUND,
    cursors.AHEAD: codes.REQUEST_INVALID,
    staging.BAD_TRANSACTION: codes.REQUEST_INVALID,
    staging.TOO_LARGE: codes.MESSAGE_TOO_LARGE,
    staging.TOO_MUCH_STAGED: codes.SPOOL_FULL,
    staging.NOT_STAGED: codes.NOT_FOUND,
    staging.BUSY: codes.IN_USE,
    staging.NOT_PUBLISHED: codes.NOT_PUBLISHED,
    staging.STAGE_DAMAGED: codes.UNREADABLE,
    staging.OF_ANOTHER: codes.PERMISSION_DENIED,
}

_FOR_NOW: Final = frozenset({codes.TOO_MANY, codes.IN_USE, codes.NOT_STORED, codes.SPOOL_FULL, codes.NOT_PUBLISHED})


@dataclass(frozen=True, slots=True)
class FlowServices:
    """The services that the flow connections of one message VPN share."""

    events: Events
    space: TopicSpace
    queues: ActorCell
    publishers: ActorCell  # the directory of named publishers
    router: ActorCell
    cursors: ActorCell  # the directory of durable cursors
    staging: ActorCell
    incarnation: int  # of the spool
    spool: Address
    authenticator: Authenticator
    clients: ClientRoster
    limits: FlowLimits
    counters: ProtocolCounters
    unfinished: UnfinishedBytes  # of all clients of the node
    credit: CreditPool[Address]  # what all consumers of the node may hold together
    selectors: Selectors
    connection_buffer_bytes_max: int  # direct messages beyond it are dropped
    slow_subscriber_stall_ms: int
    product: str  # name and version, for WELCOME
    allows_plain_unencrypted: bool  # SASL PLAIN on listeners without TLS
    links: LinkAcceptor  # of the node, to other brokers
    homes: PublisherHomes | None  # of named publishers; None: there is one broker on this machine
    files_max: int  # the number of a file from which on none is opened for clients


class FlowPeer(Behaviour):
    """The state and the verbs that a connection shares with its request handlers."""

    def __init__(self, cell: ActorCell, vpns: MessageVpns[FlowServices]) -> None:
        self.cell = cell
        self.runtime = cell.runtime
        services = vpns.default
        self.vpns = vpns
        self.services = services  # of the message VPN that the client is in
        self.client = ""  # its name, from HELLO on
        self.identity = Identity(services.clients)
        self.ids = FlowIds()
        self.engine = FlowEngine(
            is_gateway=True,
            frame_bytes_max=services.limits.frame_bytes_max,
            connect_timeout_ms=services.limits.connect_timeout_ms,
            keep_alive_ms=services.limits.keep_alive_ms,
            now_ms=cell.runtime.clock.now_ms(),
        )
        self.read_control = ReadControl(cell.inbox)
        self.traffic = Traffic()
        self.output = Output(
            cell, self.engine, services.counters, self.traffic, gather=self._gather, give_up=self._cut_off
        )
        self.consumers = Consumers(self.output.flows, self.engine.send, cell.runtime.dispatcher)
        self.publishers = Publishers(
            publisher=self._publisher(services),
            client="",
            counters=services.counters,
        )
        self.relays: RelayedPublishers | None = None  # None until there is one
        self.browsers = Browsers(self.output.flows, cell.runtime.clock.wall_ms, services.counters, self.traffic)
        self.bulk_reads = BulkReads(self.output, services.counters, self.traffic, self.carry_out)
        self.subscriptions = Subscriptions(
            cell,
            services.space,
            services.counters,
            self.traffic,
            buffer_bytes_max=services.connection_buffer_bytes_max,
            slow_subscriber_stall_ms=services.slow_subscriber_stall_ms,
        )
        self.sasl: SaslDialogue[FlowServices] | None = None  # None until the transport is there
        self.link: LinkWire | None = None  # the client is a broker, and the connection a link
        self.is_released = False  # all flows were released: responses come too late
        self._peer: PeerInfo | None = None
        self._clock = cell.runtime.clock
        self._counters = services.counters
        self._transport: ByteTransport | None = None
        self._is_known = False  # it is authenticated

    # --- who it is ---

    def enter(self, services: FlowServices) -> None:
        """Enter the message VPN of these services; at the latest when the client is authenticated."""
        if services is not self.services:
            self.services = services
            self.identity.enter(services.clients)
            self.publishers.publisher = self._publisher(services)

    def _publisher(self, services: FlowServices) -> Publisher:
        address, rng = self.cell.inbox, self.runtime.rng
        return Publisher(space=services.space, spool=services.spool, address=address, rng=rng)

    def named(self, client: str) -> None:
        """Set the client's name, from HELLO."""
        self.client = client
        self.publishers.client = client

    def authenticated(self, principal: Principal) -> None:
        """Set the client's identity, and admit it. Raises ClientDenied."""
        assert self._peer is not None, "the transport comes before its bytes"
        self.identity.authenticated(principal)
        if self.is_sibling:  # it is no client: all that it does is to make the connection a link
            self._is_known = True
            return
        rights = self.identity.admit(self.client, self._peer.host, self.cell.runtime.clock.now_ms())
        self.publishers.publisher.rights = rights
        self.read_control.limit(rights)
        self._is_known = True
        self.report(CLIENT_CONNECTED, f"flow client at {self.peer_name()} connected")

    @property
    def peer_info(self) -> PeerInfo | None:
        """Who is at the other end, as far as the transport knows; None before it is there."""
        return self._peer

    @property
    def is_sibling(self) -> bool:
        """Whether it is another broker of this machine."""
        return self.identity.is_sibling

    def not_authenticated(self, why: str) -> None:
        """Count and log a failed authentication. The client does not get the reason."""
        text = f"401 Unauthorized: flow client at {self.peer_name()}: {why}"
        assert self.sasl is not None, "the transport comes before its bytes"
        self.sasl.services.clients.denials.deny(NOT_AUTHENTICATED, self.client, text)
        self._counters.count(self._counters.refused, NOT_AUTHENTICATED)

    def not_admitted(self, denied: ClientDenied) -> None:
        """End the connection of an authenticated client that is not admitted."""
        self._counters.count(self._counters.refused, denied.reason)
        self.end(DENIAL_CODES.get(denied.reason, codes.NOT_AUTHENTICATED), denied.text)

    def peer_name(self) -> str:
        """Return the client's address, for logs."""
        if self.is_sibling:
            return "a Unix socket"
        return "?" if self._peer is None else f"{self._peer.host}:{self._peer.port}"

    # --- requests ---

    def carry_out(self, request: Coroutine[Any, Any, None]) -> None:
        """Run a request of the client; an unexpected error ends the connection."""
        run_for(self.cell, self, request)

    def refuse_request(self, flow_id: int, request_id: int, code: int, text: str, retry_after_ms: int | None) -> None:
        """Answer a request with an error; its flow id is used up."""
        self.ids.answered(flow_id)
        self.send(Error(flow_id, request_id, code, text, retry_after_ms).encode())

    def refuse_by_code(self, flow_id: int, request_id: int, code: int, text: str, *, may_retry: bool = False) -> None:
        """Answer a request with an error; the code says whether a retry makes sense, unless it does in any case."""
        retry_after_ms = RETRY_AFTER_MS if may_retry or code in _FOR_NOW else None
        self.refuse_request(flow_id, request_id, code, text, retry_after_ms)

    def incarnation_of(self, handle: QueueHandle) -> int:
        """Return the incarnation of the spool that has a queue; 0: it is a neighbor's, which is away."""
        return self.services.incarnation if isinstance(handle, LocalQueue) else handle.incarnation

    def close_publisher(self, flow: PublisherFlow) -> None:
        """Close a publisher; the directory keeps the state of a named one."""
        self.publishers.remove(flow.flow_id)
        if flow.named is not None:
            self.services.publishers.inbox.post(ReleasePublisher(flow.named, flow.epoch))
        self.report(CLIENT_FLOW_CLOSED, f"publisher flow {flow.shown()} closed")

    # --- publishers at other brokers of this machine: `RelayUser` ---

    def relay(self, relayed: RelayedPublisher) -> None:
        """Begin to relay a publisher."""
        if self.relays is None:
            self.relays = RelayedPublishers()
        self.relays.add(relayed)

    def relay_opened(self, relayed: RelayedPublisher) -> None:
        """Let the client publish: what it sends is passed on from now on."""
        self.ids.answered(relayed.flow_id)
        self.engine.relayed = (self.engine.relayed or frozenset()) | {relayed.flow_id}

    def relay_answered(self, relayed: RelayedPublisher, answer: bytes) -> None:
        """Pass on a frame of the publisher's home."""
        self.ids.answered(relayed.flow_id)
        self.send(answer)

    def relay_ended(self, relayed: RelayedPublisher) -> None:
        """Forget a publisher."""
        if self.relays is not None:
            self.relays.flows.pop(relayed.flow_id, None)
        self.engine.relayed = ((self.engine.relayed or frozenset()) - {relayed.flow_id}) or None
        self.relay_full()

    def relay_violated(self, error: Error) -> None:
        """End the connection: the client has violated the protocol."""
        self.end(error.code, error.text)

    def relay_lost(self, relayed: RelayedPublisher) -> None:
        """End a publisher whose home has gone, for now."""
        self.relay_ended(relayed)
        request_id = NO_REQUEST if relayed.is_open else relayed.request_id
        text = f"broker {relayed.home} of this machine, which has publisher {relayed.name!r}, has gone"
        self.refuse_request(relayed.flow_id, request_id, codes.DISABLED, text, RETRY_AFTER_MS)

    def relay_full(self) -> None:
        """Read from the client no faster than homes read."""
        self.read_control.relaying(self.relays is not None and self.relays.is_full)

    def count_received(self, count: int) -> None:
        """Count messages that the client has published."""
        self._counters.messages_received += count
        self.traffic.messages_received += count

    def report(self, kind: EventKind, what: str) -> None:
        """Report an action of the client to operators."""
        self.services.events.emit(kind, what, client=self.client)

    # --- what goes out ---

    def flush(self) -> None:
        """Write all output now."""
        self.output.flush()

    def _gather(self) -> None:
        """Send the engine the PUB_ACKs of this turn."""
        if self.publishers.has_news:
            for ack in self.publishers.acks():
                self.engine.send(ack.encode())

    def _cut_off(self) -> None:
        """End the connection of a client that sends requests and does not read the responses."""
        self._counters.count(self._counters.violated, "answers_not_read")
        log.info("client %r at %s does not read responses; disconnecting", self.client, self.peer_name())
        self.fail()

    def send(self, data: bytes) -> None:
        """Send a frame at the end of this turn."""
        self.output.send(data)

    def _ask_flush(self) -> None:
        if self.engine.has_output or self.output.flows or self.publishers.has_news:
            self.output.ask_flush()

    # --- a link ---

    def make_wire(self) -> LinkWire:
        """Return this connection as one of a link."""
        assert self._transport is not None, "it was read from"
        assert self._peer is not None, "the transport comes before its bytes"
        return LinkWire(
            self.cell,
            self.engine,
            self._counters,
            self._transport.direct(),  # a trace may stand in front of it, which does not show links
            address=self.peer_name(),
            is_encrypted=self._peer.is_encrypted,
            hang_up=self._hang_up,
        )

    def _hang_up(self, code: int, text: str) -> None:
        """End the connection of a link on its initiative: the neighbor has violated nothing."""
        if self.engine.phase != CLOSED:
            self.engine.fail(code, text)
            self._close_transport()

    def _link_gone(self, reason: str) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.gone(reason)

    # --- the end ---

    def _violated(self, code: int, text: str) -> None:
        if self.link is not None:
            self.link.reason = self.link.reason or text
        self._counters.count(self._counters.violated, codes.NAMES[code].replace(" ", "_"))
        log.info("protocol error from client %r at %s (%s): %s", self.client, self.peer_name(), codes.NAMES[code], text)
        self._close_transport()

    def end(self, code: int, text: str) -> None:
        """End the connection on our initiative, with an error."""
        if self.engine.phase != CLOSED:
            self.engine.fail(code, text)
            self._violated(code, text)

    def leave(self, code: int, text: str) -> None:
        """End the connection with CLOSE: the client has violated nothing, and there is nothing more for it to do."""
        self.flush()
        self.engine.close(code, text, self._clock.now_ms())
        self._close_transport()

    def _close_transport(self) -> None:
        self.flush()
        self._release()
        self._link_gone("it was closed")
        if self._transport is not None:
            self._transport.close_after_flush()

    def _release(self) -> None:
        """Release every flow: unsettled messages are delivered again, to any consumer."""
        if self.is_released:
            return
        self.is_released = True
        for publisher in list(self.publishers.flows.values()):
            self.close_publisher(publisher)
        if self.relays is not None:
            self.relays.end()
        for consumer in list(self.consumers.flows.values()):
            self.consumers.remove(consumer)
            consumer.queue.inbox.post(UnbindFlow(consumer.urn))
        self.subscriptions.end(self.services.router)
        for flow_id in list(self.browsers.flows):
            self.browsers.unbind(flow_id)
        for flow_id in list(self.bulk_reads.flows):
            self.bulk_reads.remove(flow_id)
        if self._is_known:
            self.report(CLIENT_DISCONNECTED, f"flow client at {self.peer_name()} disconnected")

    def fail(self) -> None:
        """Abort after a fault of our own: the client gets its messages again over another connection."""
        self._release()
        self._link_gone("a fault of this broker; its log says more")
        if self._transport is not None:
            self._transport.abort()
