"""One AMQP client, as its links and requests see it: who it is, and what it consumes, browses, publishes and transacts.

The connection derives from it, and brings the transport and the dispatching (`connection`).
"""

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, final

from sluicegate.actors.messages.queues import FlowDrained
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.tasks import run_for
from sluicegate.messaging.clients.rights import NOT_AUTHENTICATED
from sluicegate.messaging.clients.roster import ClientRoster
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.observability.events import CLIENT_FLOW_OPENED, EventKind, as_word
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.messaging.queues.definition import QueueDefinition
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.amqp.codec.addresses import destination_of_message
from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.codec.frames import answer_bytes
from sluicegate.protocols.amqp.codec.termini import Coordinator, Source, Target
from sluicegate.protocols.amqp.datapath.browsing import BrowserLink, Browsers
from sluicegate.protocols.amqp.datapath.consuming import Consumers
from sluicegate.protocols.amqp.datapath.publishing import Publishers
from sluicegate.protocols.amqp.datapath.sender_recovery import SuspendedSenders
from sluicegate.protocols.amqp.datapath.transaction import TransactionAccounts, Transactions
from sluicegate.protocols.amqp.engine.engine import AmqpEngine
from sluicegate.protocols.amqp.engine.events import AmqpEvent
from sluicegate.protocols.amqp.engine.link import IncomingLink, OutgoingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.limits import AmqpLimits
from sluicegate.protocols.amqp.registry import LinkOwner, Registry, SubscriptionQueue
from sluicegate.protocols.connection.counters import ProtocolCounters, Traffic
from sluicegate.protocols.connection.forwarding import Forwarding
from sluicegate.protocols.connection.identity import Identity
from sluicegate.protocols.connection.message_vpns import MessageVpns
from sluicegate.protocols.connection.read_control import ReadControl
from sluicegate.protocols.connection.write_control import UnreadResponses
from sluicegate.protocols.security.authentication import Authenticator
from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo
from sluicegate.protocols.transport.unfinished import UnfinishedBytes

log = logging.getLogger("sluicegate.amqp")

SOLE_CONNECTION: Final = "sole-connection-for-container"
# What the broker offers; Qpid JMS looks for these.
CAPABILITIES: Final = ["ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS", SOLE_CONNECTION]


@dataclass(frozen=True, slots=True)
class AmqpServices:
    """The services that the AMQP connections of one message VPN share."""

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
    suspended_senders: SuspendedSenders
    container_id: str  # ours
    version: str
    allows_plain_unencrypted: bool  # SASL PLAIN on listeners without TLS
    registry: Registry
    forwarding: Forwarding | None  # to the homes of containers; None: there is one broker on this machine
    selectors: Selectors
    subscription_queue: Callable[[SubscriptionQueue], QueueDefinition]  # how it is declared


@final
class Endpoints:
    """The consumers, browsers, publishers and transactions of one client.

    Each of the four is made when the first link needs it: a broker has thousands of connections that do nothing, and
    each costs a few hundred bytes.
    """

    def __init__(self, client: "AmqpClient", *, is_full: bool) -> None:
        """Keep what endpoints are made with, and not the client: the two would wait for the cycle collector."""
        self._address = client.cell.inbox
        self._runtime = client.runtime
        self._identity = client.identity
        self._services = client.services
        self._sessions = client.engine.sessions
        self._client_name = client.client_name
        self._consumers: Consumers | None = None
        self._browsers: Browsers | None = None
        self._publishers: Publishers | None = None
        self.transactions: Transactions | None = None  # until the client attaches a coordinator, or uses a transaction
        self.is_full = is_full  # the client reads slower than we write
        self._answers = UnreadResponses()
        self._answered_bytes = 0  # while it was full
        self.subscribing_count = 0  # subscriptions whose queue is being made or found: they count already
        self.resuming_count = 0  # links whose flow has waited for them and is not theirs yet: they count already

    @property
    def consumers(self) -> Consumers:
        """The client's consumers of queues."""
        consumers = self._consumers
        if consumers is None:
            consumers = Consumers(self._sessions, self._address, self._client_name, self._runtime.dispatcher)
            consumers.pause_output(self.is_full)
            self._consumers = consumers
        return consumers

    @property
    def browsers(self) -> Browsers:
        """The queues that the client browses."""
        browsing = self._browsers
        if browsing is None:
            browsing = Browsers(self._sessions)
            browsing.pause_output(self.is_full, 0)
            self._browsers = browsing
        return browsing

    @property
    def publishers(self) -> Publishers:
        """The client's publishers."""
        publishers = self._publishers
        if publishers is None:
            services, address = self._services, self._address
            publisher = Publisher(space=services.space, spool=services.spool, address=address, rng=self._runtime.rng)
            publisher.rights = self._identity.admitted()
            publishers = Publishers(
                sessions=self._sessions,
                publisher=publisher,
                address=address,
                client=self._client_name,
                credit=services.limits.link_credit,
                suspended_senders=services.suspended_senders,
                find=destination_of_message,
                counters=services.counters,
            )
            self._publishers = publishers
        return publishers

    def flow_count(self) -> int:
        """Return how many flows on queues the client has, with those of its subscriptions and browsers."""
        coming = self.subscribing_count + self.resuming_count
        count = coming + (0 if self._consumers is None else len(self._consumers.by_link))
        return count + (0 if self._browsers is None else len(self._browsers.by_link))

    def subscription_count(self) -> int:
        """Return how many subscriptions to topics the client has a link for."""
        links = [] if self._consumers is None else self._consumers.by_link.values()
        return self.subscribing_count + sum([each.is_subscription for each in links])

    def top_up(self, link: IncomingLink) -> None:
        """Grant credit again to a link whose client has used some without a message."""
        if self.transactions is not None and self.is_coordinator(link):
            self.transactions.top_up(link)
        elif self._publishers is not None:
            self._publishers.top_up(link)

    def is_coordinator(self, link: IncomingLink) -> bool:
        """Return whether transactions are declared and discharged on a link."""
        return self.transactions is not None and self.transactions.is_coordinator(link)

    def browsing_link(self, link: OutgoingLink) -> BrowserLink | None:
        """Return the browser of a link, if the link browses a queue."""
        return None if self._browsers is None else self._browsers.by_link.get(link)

    def drained(self, message: FlowDrained) -> None:
        """Report to a consumer or browser that its flow is drained."""
        if self._consumers is not None:
            self._consumers.drained(message)
        if self._browsers is not None:
            self._browsers.drained(message)

    def tick(self, now_ms: int) -> None:
        """Bring time: idle transactions end."""
        if self.transactions is not None:
            self.transactions.tick(now_ms)

    def stalled(self, stall_ms: int) -> None:
        """Do not count a time in which this broker read nothing."""
        if self.transactions is not None:
            self.transactions.stalled(stall_ms)

    def pause_output(self, is_full: bool, wall_ms: int) -> int:
        """Send nothing while the socket is full; return how many messages were sent at once when it no longer is."""
        self.is_full = is_full
        self._answers.begin(self._answered_bytes)
        if self._consumers is not None:
            self._consumers.pause_output(is_full)
        return 0 if self._browsers is None else self._browsers.pause_output(is_full, wall_ms)

    def ignores_responses(self, pieces: list[bytes], transport: ByteTransport) -> bool:
        """Count what was written while the socket was full; return whether the client reads no responses."""
        self._answered_bytes += answer_bytes(pieces)
        return self._answers.are_too_many(self._answered_bytes, sum([len(each) for each in pieces]), transport)

    def window_opened(self, session: Session, wall_ms: int) -> int:
        """Continue a session that was blocked; return how many messages were sent at once."""
        if self._consumers is not None:
            self._consumers.window_opened(session)
        return 0 if self._browsers is None else self._browsers.window_opened(session, wall_ms)

    def is_settling(self, flow_id: int) -> bool:
        """Return whether deliveries of a flow are settled in a transaction that has not come to its end."""
        return self.transactions is not None and self.transactions.is_settling(flow_id)

    # --- ends; the connection releases links one by one, between session_ends and session_ended ---

    def coordinator_detached(self, link: IncomingLink) -> None:
        """Roll back the transactions of a link, if it is a coordinator's."""
        if self.transactions is not None:
            self.transactions.detached(link)

    def session_ends(self, session: Session) -> None:
        """Roll back what was declared in a session, before its consumers release what they settled."""
        if self.transactions is not None:
            self.transactions.session_ended(session)

    def session_ended(self, session: Session, now_ms: int) -> None:
        """Forget a session, all of whose links are gone."""
        if self._publishers is not None:
            self._publishers.session_ended(session, now_ms)
        if self._consumers is not None:
            self._consumers.forget_session(session)

    def connection_ends(self) -> None:
        """Roll every transaction back."""
        if self.transactions is not None:
            self.transactions.connection_ended()

    def end(self) -> None:
        """The transport is gone: drop what refers to the connection. Transactions that were discharged go on."""
        self.transactions = None

    def connection_ended(self, now_ms: int) -> None:
        """Begin the expiry of links that the client may attach again."""
        if self._publishers is not None:
            self._publishers.connection_ended(now_ms)


class AmqpClient(LinkOwner):
    """The part of a connection that requests of its client use (`handshake`, `links`)."""

    def __init__(self, cell: ActorCell, vpns: MessageVpns[AmqpServices]) -> None:
        services = vpns.default
        super().__init__(Identity(services.clients), cell.runtime.next_urn())
        self.cell = cell
        self.runtime = cell.runtime
        self.vpns = vpns
        self.services = services  # of the message VPN that the client is in
        self.peer: PeerInfo | None = None
        # Made anew when the transport is there: what is offered to the client depends on it.
        self.engine = AmqpEngine(services.limits, 0, container_id="", mechanisms=[], allows_bare=False)
        self.read_control = ReadControl(cell.inbox)
        self.endpoints = Endpoints(self, is_full=False)  # made anew when the client has opened: its name is known then
        self._clock = cell.runtime.clock
        self.traffic = Traffic()
        self._counters = services.counters

    def count_sent(self, count: int) -> None:
        """Count messages that were written."""
        self._counters.messages_sent += count
        self.traffic.messages_sent += count

    # --- what the connection does for others ---

    def handle(self, events: list[AmqpEvent]) -> None:
        """Handle events of the engine."""
        raise AssertionError("the connection does that")

    def end(self, error: AmqpError) -> None:
        """Close the connection with an error."""
        raise AssertionError("the connection does that")

    def request_flush(self) -> None:
        """Write the engine's output at the end of this turn."""
        raise AssertionError("the connection does that")

    # --- who it is ---

    def enter(self, services: AmqpServices) -> None:
        """Be in the message VPN of these services; not later than with the open."""
        self.services = services
        self.identity.enter(services.clients)

    def refuse(self, why: str) -> None:
        """Count and log a client that is refused. It is not told why."""
        self.count_refused(NOT_AUTHENTICATED)
        log.info("client at %s refused: %s", self.peer_name(), why)

    def count_refused(self, reason: str) -> None:
        """Count a connection that is refused."""
        self._counters.count(self._counters.refused, reason)

    def challenge(self, data: bytes) -> None:
        """Send a SASL challenge, and handle what came meanwhile."""
        self.handle(self.engine.sasl_challenge(data, self._clock.now_ms()))

    def sasl_outcome(self, code: int, data: bytes | None) -> None:
        """End SASL, and handle what came meanwhile."""
        self.handle(self.engine.sasl_outcome(code, data, self._clock.now_ms()))

    def peer_name(self) -> str:
        """Return where the client is, for logs."""
        return "?" if self.peer is None else f"{self.peer.host}:{self.peer.port}"

    # --- requests and links ---

    def carry_out(self, request: Coroutine[Any, Any, None]) -> None:
        """Run a request that needs other actors; if it fails, so does the connection."""
        run_for(self.cell, self, request)

    def attach(
        self,
        session: Session,
        link: IncomingLink | OutgoingLink,
        *,
        source: Source | None,
        target: Target | Coordinator | None,
        can_be_stolen: bool = True,
    ) -> None:
        """Answer a pending attach with what is in force; an earlier attachment of the same link ends."""
        if can_be_stolen:
            self.services.registry.containers.attach(self, session, link)
        offered = [each for each in link.attach.desired if each in CAPABILITIES]
        self.engine.sessions.attach(session, link, source=source, target=target, offered=offered)

    def credit(self, link: OutgoingLink) -> None:
        """Apply the credit that the client grants; for a link whose attach is not answered yet, that comes later."""
        consumer = self.endpoints.consumers.by_link.get(link)
        if consumer is not None:
            self.endpoints.consumers.credit(consumer)
            return
        browsing = self.endpoints.browsing_link(link)
        if browsing is not None:
            self.count_sent(self.endpoints.browsers.credit(browsing, self._clock.wall_ms()))

    def report_flow(self, kind: EventKind, link: IncomingLink) -> None:
        """Report to operators that a link on which the client sends has begun or ended."""
        what = "opened" if kind is CLIENT_FLOW_OPENED else "closed"
        self.services.events.emit(kind, f"publisher flow {as_word(link.name)} {what}", client=self.client_name)
