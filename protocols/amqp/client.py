"""What one AMQP client does, by sides: it consumes, looks at queues, publishes, and has transactions.

A gateway has thousands of connections that do nothing, and each side costs a few hundred bytes; so one is made when the
first link needs it.
"""

from typing import TYPE_CHECKING, final

from sluicegate.actors.messages.partitions import FlowDrained
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.protocols.amqp.codec.frames import answer_bytes
from sluicegate.protocols.amqp.datapath.browsing import BrowsingLink, BrowsingSide
from sluicegate.protocols.amqp.datapath.consuming import ConsumingSide
from sluicegate.protocols.amqp.datapath.publishing import PublishingSide
from sluicegate.protocols.amqp.engine.link import IncomingLink, OutgoingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.links.attach_sender import destination_of_message
from sluicegate.protocols.amqp.links.coordinator import TransactingSide
from sluicegate.protocols.connection.write_control import UnreadResponses
from sluicegate.protocols.transport.interface import ByteTransport

if TYPE_CHECKING:
    from sluicegate.protocols.amqp.connection import AmqpConnection


@final
class Sides:
    """Those of one connection, and what concerns several of them."""

    def __init__(self, connection: "AmqpConnection", *, is_full: bool) -> None:
        """Keep what sides are made with, and not the connection: the two would wait for the cycle collector."""
        self._address = connection.cell.inbox
        self._runtime = connection.runtime
        self._identity = connection.identity
        self._services = connection.services
        self._sessions = connection.engine.sessions
        self._client = connection.client
        self._consuming: ConsumingSide | None = None
        self._browsing: BrowsingSide | None = None
        self._publishing: PublishingSide | None = None
        self._transacting: TransactingSide | None = None
        self.is_full = is_full  # the client reads slower than we write
        self._answers = UnreadResponses()
        self._answered_bytes = 0  # while it was full
        self.subscribing_count = 0  # subscriptions whose queue is being made or found: they count already
        self.resuming_count = 0  # links whose flow has waited for them and is not theirs yet: they count already

    @property
    def consuming(self) -> ConsumingSide:
        """What the client receives from queues."""
        consuming = self._consuming
        if consuming is None:
            consuming = ConsumingSide(self._sessions, self._address, self._client, self._runtime.dispatcher)
            consuming.hold_back(self.is_full)
            self._consuming = consuming
        return consuming

    @property
    def browsing(self) -> BrowsingSide:
        """What the client looks at."""
        browsing = self._browsing
        if browsing is None:
            browsing = BrowsingSide(self._sessions)
            browsing.hold_back(self.is_full, 0)
            self._browsing = browsing
        return browsing

    @property
    def publishing(self) -> PublishingSide:
        """What the client sends."""
        publishing = self._publishing
        if publishing is None:
            services, address = self._services, self._address
            publisher = Publisher(space=services.space, spool=services.spool, address=address, rng=self._runtime.rng)
            publisher.rights = self._identity.admitted()
            publishing = PublishingSide(
                sessions=self._sessions,
                publisher=publisher,
                address=address,
                client=self._client,
                credit=services.limits.link_credit,
                remembered=services.remembered,
                find=destination_of_message,
                counters=services.counters,
            )
            self._publishing = publishing
        return publishing

    def transacting(self, connection: "AmqpConnection") -> TransactingSide:
        """Return what the client does in transactions. It knows its connection, until `end`."""
        transacting = self._transacting
        if transacting is None:
            transacting = self._transacting = TransactingSide(connection)
        return transacting

    def flow_count(self) -> int:
        """Return how many flows on queues the client has, those of its subscriptions and its looks among them."""
        coming = self.subscribing_count + self.resuming_count
        consuming = coming + (0 if self._consuming is None else len(self._consuming.by_link))
        return consuming + (0 if self._browsing is None else len(self._browsing.by_link))

    def subscription_count(self) -> int:
        """Return how many subscriptions to topics the client has a link for."""
        links = [] if self._consuming is None else self._consuming.by_link.values()
        return self.subscribing_count + sum([each.is_subscription for each in links])

    def top_up(self, link: IncomingLink) -> None:
        """Grant credit again to a link whose client has used some without a message."""
        if self._transacting is not None and self.is_coordinator(link):
            self._transacting.top_up(link)
        elif self._publishing is not None:
            self._publishing.top_up(link)

    def is_coordinator(self, link: IncomingLink) -> bool:
        """Return whether transactions are declared and discharged on a link."""
        return self._transacting is not None and link in self._transacting.coordinators

    def browsing_link(self, link: OutgoingLink) -> BrowsingLink | None:
        """Return the link's place among those that look at queues, if it is one."""
        return None if self._browsing is None else self._browsing.by_link.get(link)

    def drained(self, message: FlowDrained) -> None:
        """Pass on that a flow has had what there was for it: some side's link."""
        if self._consuming is not None:
            self._consuming.drained(message)
        if self._browsing is not None:
            self._browsing.drained(message)

    def tick(self, now_ms: int) -> None:
        """Bring time: transactions end in which nothing is done."""
        if self._transacting is not None:
            self._transacting.tick(now_ms)

    def hold_back(self, is_full: bool, wall_ms: int) -> int:
        """Send nothing while the socket is full; return how many messages were sent at once when it no longer is."""
        self.is_full = is_full
        self._answers.begin(self._answered_bytes)
        if self._consuming is not None:
            self._consuming.hold_back(is_full)
        return 0 if self._browsing is None else self._browsing.hold_back(is_full, wall_ms)

    def asks_and_reads_nothing(self, pieces: list[bytes], transport: ByteTransport) -> bool:
        """Note what was written while the socket was full; return whether the client asks and reads no answers."""
        self._answered_bytes += answer_bytes(pieces)
        return self._answers.are_too_many(self._answered_bytes, sum([len(each) for each in pieces]), transport)

    def window_opened(self, session: Session, wall_ms: int) -> int:
        """Go on with a session that was blocked; return how many messages were sent at once."""
        if self._consuming is not None:
            self._consuming.window_opened(session)
        return 0 if self._browsing is None else self._browsing.window_opened(session, wall_ms)

    def is_settling(self, flow_id: int) -> bool:
        """Return whether deliveries of a flow are settled in a transaction that has not come to its end."""
        return self._transacting is not None and self._transacting.is_settling(flow_id)

    # --- what ends; the connection lets go of links one by one, between the two words on a session ---

    def coordinator_detached(self, link: IncomingLink) -> None:
        """Roll back what was declared on a link, if it is a coordinator's."""
        if self._transacting is not None:
            self._transacting.detached(link)

    def session_ends(self, session: Session) -> None:
        """Roll back what was declared in a session, before its consumers let go of what they settled."""
        if self._transacting is not None:
            self._transacting.session_ended(session)

    def session_ended(self, session: Session, now_ms: int) -> None:
        """Forget a session, all of whose links are gone."""
        if self._publishing is not None:
            self._publishing.session_ended(session, now_ms)
        if self._consuming is not None:
            self._consuming.forget_session(session)

    def connection_ends(self) -> None:
        """Roll every transaction back."""
        if self._transacting is not None:
            self._transacting.connection_ended()

    def end(self) -> None:
        """The transport is gone: let go of what knows the connection. What the client has discharged goes on."""
        self._transacting = None

    def connection_ended(self, now_ms: int) -> None:
        """Let the time begin for which links are remembered that the client may attach again."""
        if self._publishing is not None:
            self._publishing.connection_ended(now_ms)
