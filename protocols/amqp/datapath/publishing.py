"""The way in from one client: what its sending links bring, and the outcomes back once it is safe.

A refusal concerns single messages, so a batch that is refused is tried again message by message, as it is for every
protocol.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from sluicegate.actors.messages.data import PublishFailed
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.publishing.result import PublishResult
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.refusals import (
    ADMITTED,
    REFUSED_GUARANTEED_SEND,
    REFUSED_MESSAGE_TOO_LARGE,
    REFUSED_NOT_FOUND,
    REFUSED_PUBLISH_ACL,
    REFUSED_SHUT_DOWN,
    REFUSED_SPOOL_FAILED,
)
from sluicegate.messaging.topics.syntax import Destination
from sluicegate.protocols.amqp.codec.delivery_states import (
    ACCEPTED_STATE,
    REJECTED,
    RELEASED_STATE,
    DeliveryState,
    rejected,
)
from sluicegate.protocols.amqp.codec.termini import CONNECTION_CLOSE, LINK_DETACH, SESSION_END
from sluicegate.protocols.amqp.datapath.sender_recovery import (
    LINKS_MAX,
    NOT_BEGUN,
    RememberedLink,
    RememberedLinks,
    begin_expiry,
    stored_state,
)
from sluicegate.protocols.amqp.datapath.transaction import Transaction
from sluicegate.protocols.amqp.engine.events import DeliveriesReceived
from sluicegate.protocols.amqp.engine.link import IncomingLink
from sluicegate.protocols.amqp.engine.session import Session
from sluicegate.protocols.amqp.messages.decode import MessageIn, read_message
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.values import AmqpMap, Symbol
from sluicegate.protocols.connection.counters import ProtocolCounters

if TYPE_CHECKING:
    from sluicegate.protocols.amqp.engine.sessions import Sessions

REJECTED_OUTCOME: Final = "amqp:rejected:list"
INVALID_MESSAGE: Final = "invalid_message"  # counter: presettled messages that are none, or go nowhere

_CONDITIONS: Final[dict[int, str]] = {
    REFUSED_MESSAGE_TOO_LARGE: conditions.MESSAGE_SIZE_EXCEEDED,
    REFUSED_SHUT_DOWN: conditions.NOT_ALLOWED,
    REFUSED_SPOOL_FAILED: conditions.INTERNAL_ERROR,
    REFUSED_NOT_FOUND: conditions.NOT_FOUND,
    REFUSED_PUBLISH_ACL: conditions.UNAUTHORIZED_ACCESS,
    REFUSED_GUARANTEED_SEND: conditions.UNAUTHORIZED_ACCESS,
}


def takes_rejected(link: IncomingLink) -> bool:
    """Return whether the client wants to hear `rejected`: it does unless it lists other outcomes only (3.5.3)."""
    source = link.attach.source
    outcomes = [] if source is None else source.outcomes
    return not outcomes or REJECTED_OUTCOME in outcomes


def unsure_tags(link: IncomingLink) -> set[bytes]:
    """Return the tags that the client lists as unsettled when it attaches (2.7.3)."""
    unsettled = link.attach.unsettled
    return set() if unsettled is None else {tag for tag, _ in unsettled.pairs if isinstance(tag, bytes)}


@final
class PublisherLink:
    """A link on which the client sends."""

    def __init__(self, session: Session, link: IncomingLink, destination: Destination | None) -> None:
        self.session = session
        self.link = link
        self.destination = destination  # None: each message says by `to` where it goes
        self.takes_rejected = takes_rejected(link)
        self.unanswered_count = 0  # deliveries without outcome; they count against the credit we grant
        self.remembered: RememberedLink | None = None  # what is known of it when it comes back
        self.attached_count = 0  # of that, as this link found it
        self.tags: dict[int, bytes] = {}  # of a remembered link: by delivery id, of those without outcome
        # Tags of deliveries that the client has sent before, and whose outcome it does not know.
        self.unsure = unsure_tags(link)
        if self.unsure:
            link.keeps_tags = True

    def is_remembered_still(self) -> bool:
        """Return whether it is detached, was not attached again, anywhere, and stays remembered for now."""
        remembered = self.remembered
        return (
            remembered is not None
            and remembered.attached_count == self.attached_count
            and remembered.expires_ms == NOT_BEGUN
        )

    def begin_expiry(self, ended: str, now_ms: int) -> None:
        """Let the time of a detached link begin when that ended which its policy names, unless it is attached again."""
        if self.remembered is not None and self.remembered.attached_count == self.attached_count:
            begin_expiry(self.remembered, ended, now_ms)

    def note(self, ids: list[int], state: DeliveryState) -> None:
        """Remember the outcome of deliveries."""
        if self.remembered is not None:
            self.remembered.note([self.tags.pop(each) for each in ids if each in self.tags], state)


@final
class _Answer:
    """Deliveries whose outcome waits for confirmations."""

    __slots__ = ("ids", "pending", "publishing", "refusal")

    def __init__(self, publishing: PublisherLink, ids: list[int], pending: int) -> None:
        self.publishing = publishing
        self.ids = ids
        self.pending = pending
        self.refusal: PublishFailed | None = None


@final
class Publishers:
    """What one client publishes, over all its links."""

    def __init__(
        self,
        *,
        sessions: "Sessions",
        publisher: Publisher,
        address: Address,
        client: str,
        credit: int,
        remembered: RememberedLinks,
        find: Callable[[str], Destination | DeliveryState],
        counters: ProtocolCounters,
    ) -> None:
        self.links: dict[IncomingLink, PublisherLink] = {}
        self.attaching_count = 0  # links whose attach waits for an answer of somebody else: they count already
        self.publisher = publisher
        self.unanswered_count = 0
        self._sessions = sessions
        self._address = address  # where confirmations go
        self._remembered = remembered
        self._away: list[PublisherLink] = []  # remembered links that are detached, and whose time has not begun
        self._client = client
        self._credit = credit  # what a link may send ahead of our outcomes
        self._counters = counters
        self._find = find  # of an anonymous sender's message: where it goes, or why nowhere
        self._answers: dict[int, _Answer] = {}
        self._next_token = 1

    def attached(self, publishing: PublisherLink) -> None:
        """Let a link begin."""
        self.links[publishing.link] = publishing
        self._sessions.grant(publishing.session, publishing.link, self._credit)

    def never_attached(self, publishing: PublisherLink, now_ms: int) -> None:
        """Forget a link whose client has gone before it was attached, unless it may come back."""
        if publishing.remembered is not None:
            self._remembered.detached(publishing.remembered, publishing.attached_count, closed=False)
            begin_expiry(publishing.remembered, CONNECTION_CLOSE, now_ms)

    def detached(self, link: IncomingLink, *, closed: bool, now_ms: int) -> None:
        """Forget a link, unless it may come back. What it published goes on."""
        publishing = self.links.pop(link, None)
        if publishing is None or publishing.remembered is None:
            return
        self._remembered.detached(publishing.remembered, publishing.attached_count, closed=closed)
        begin_expiry(publishing.remembered, LINK_DETACH, now_ms)
        if not closed and publishing.remembered.expires_ms == NOT_BEGUN:
            self._note_away(publishing)

    def _note_away(self, publishing: PublisherLink) -> None:
        """Know a detached link until its time begins, or another link has taken its place."""
        self._away = [each for each in self._away if each.is_remembered_still()]
        self._away.append(publishing)
        del self._away[:-LINKS_MAX]  # as many are remembered at all, and the oldest are forgotten first

    def session_ended(self, session: Session, now_ms: int) -> None:
        """Let the time of a session's links begin, which are detached."""
        for each in self._away:
            if each.session is session:
                each.begin_expiry(SESSION_END, now_ms)
        self._away = [each for each in self._away if each.is_remembered_still()]

    def connection_ended(self, now_ms: int) -> None:
        """Let the time of all links begin, which are detached."""
        for each in self._away:
            each.begin_expiry(CONNECTION_CLOSE, now_ms)
        self._away.clear()

    # --- messages ---

    def publish(self, event: DeliveriesReceived, wall_ms: int) -> None:
        """Publish the deliveries of one event."""
        publishing = self.links.get(event.link)
        if publishing is None:
            return
        self._count_in(publishing, event)
        run = _Run(event.settled)
        for row, delivery_id in enumerate(event.delivery_ids):
            if publishing.remembered is not None and self._is_known(publishing, publishing.remembered, event, row):
                continue
            message, destination = self._understand(publishing, event, event.payloads[row], wall_ms)
            if message is None or not isinstance(destination, Destination):
                self._publish_run(publishing, run, wall_ms)
                run = _Run(event.settled)
                assert isinstance(destination, DeliveryState), "what is not understood has an outcome"
                if event.settled:
                    self._counters.count(self._counters.dropped, INVALID_MESSAGE)
                self._settle(publishing, [delivery_id], destination, event.settled)
                continue
            sent_before = event.resumed or (len(publishing.unsure) > 0 and event.tags[row] in publishing.unsure)
            if not run.takes(message, destination, sent_before):
                self._publish_run(publishing, run, wall_ms)
                run = _Run(event.settled)
            run.add(delivery_id, message, destination, sent_before)
        self._publish_run(publishing, run, wall_ms)
        self._top_up(publishing)

    def _is_known(
        self, publishing: PublisherLink, remembered: RememberedLink, event: DeliveriesReceived, row: int
    ) -> bool:
        """Answer a delivery that is resumed and arrived before; of any other note the tag."""
        delivery_id, tag = event.delivery_ids[row], event.tags[row]
        if event.resumed:
            state = remembered.outcome(tag)
            # Without an outcome here the client has settled what it sends nothing of, and wants nobody to know it.
            if state is not None or (event.settled and not event.payloads[row]):
                self._settle(publishing, [delivery_id], state or ACCEPTED_STATE, event.settled)
                return True
        if not event.settled:
            publishing.tags[delivery_id] = tag
        return False

    def _understand(
        self, publishing: PublisherLink, event: DeliveriesReceived, payload: bytes, wall_ms: int
    ) -> tuple[MessageIn | None, Destination | DeliveryState]:
        """Return a message and where it goes, or the outcome that it has instead."""
        if event.message_format:
            text = f"message-format {event.message_format:#x} is not known here"
            return None, rejected(conditions.NOT_IMPLEMENTED, text)
        try:
            message = read_message(payload, wall_ms)
        except DecodeError as error:
            return None, rejected(conditions.DECODE_ERROR, str(error))
        if publishing.destination is not None:
            return message, publishing.destination
        if message.to is None:
            return None, rejected(conditions.PRECONDITION_FAILED, "a message to nobody: properties.to is missing")
        return message, self._find(message.to)

    def _publish_run(self, publishing: PublisherLink, run: "_Run", wall_ms: int) -> None:
        if run.ids:
            self._publish(publishing, run.batch(self._client, wall_ms), run.ids, run.settled)

    def _publish(self, publishing: PublisherLink, batch: MessageBatch, ids: list[int], settled: bool) -> None:
        token = self._next_token
        self._next_token += 1
        remembered = publishing.remembered
        told_token = token if remembered is None else remembered.take_token()
        publisher = self.publisher if remembered is None else remembered.publisher
        result = publisher.publish(batch, told_token)
        if result.refusal != ADMITTED:
            if batch.count > 1:
                for row, delivery_id in enumerate(ids):
                    self._publish(publishing, batch.select([row]), [delivery_id], settled)
                return
            self._settle(publishing, ids, _refusal(result), settled)
        elif settled or result.confirmations_pending == 0:
            self._settle(publishing, ids, ACCEPTED_STATE, settled)
        elif remembered is None:
            self._answers[token] = _Answer(publishing, ids, result.confirmations_pending)
        else:
            tags = [publishing.tags[each] for each in ids]
            remembered.stores(told_token, tags, result.confirmations_pending, self._address, token)
            self._answers[token] = _Answer(publishing, ids, 1)
        if remembered is not None:
            self.publisher.pressures += publisher.pressures
            publisher.pressures.clear()

    # --- messages in a transaction ---

    def publish_in(self, transaction: Transaction, event: DeliveriesReceived, wall_ms: int) -> None:
        """Leave the deliveries of one event with a transaction, to be published by its commit."""
        publishing = self.links.get(event.link)
        if publishing is None:
            return
        self._count_in(publishing, event)
        for delivery_id, payload in zip(event.delivery_ids, event.payloads, strict=True):
            message, destination = self._understand(publishing, event, payload, wall_ms)
            state = transaction.accepted_state
            if message is None or not isinstance(destination, Destination):
                assert isinstance(destination, DeliveryState), "what is not understood has an outcome"
                state = destination
                transaction.fail("a message in it was rejected")
            else:
                state = self._take_in(transaction, destination.topic, message)
            self._settle(publishing, [delivery_id], state, event.settled)
        self._top_up(publishing)

    def _take_in(self, transaction: Transaction, topic: str, message: MessageIn) -> DeliveryState:
        """Leave a message with a transaction; return its outcome."""
        rights = self.publisher.rights
        try:
            if rights is not None:
                rights.check_publish(topic, guaranteed=True)
                rights.count_taken(1)
        except ClientDenied as denied:
            transaction.fail(denied.text)
            return rejected(conditions.condition_of(denied), denied.text)
        refusal = transaction.publish(topic, message)
        return rejected(conditions.RESOURCE_LIMIT_EXCEEDED, refusal) if refusal else transaction.accepted_state

    def turn_down(self, event: DeliveriesReceived, state: DeliveryState) -> None:
        """Answer the deliveries of one event with an outcome that they all have."""
        publishing = self.links.get(event.link)
        if publishing is not None:
            self._count_in(publishing, event)
            self._settle(publishing, event.delivery_ids, state, event.settled)
            self._top_up(publishing)

    def _count_in(self, publishing: PublisherLink, event: DeliveriesReceived) -> None:
        publishing.unanswered_count += len(event.delivery_ids)
        self.unanswered_count += len(event.delivery_ids)

    # --- outcomes ---

    def confirmed(self, token: int, refusal: PublishFailed | None = None) -> None:
        """Note that a publish is safe or, with a refusal, could not be stored."""
        answer = self._answers.get(token)
        if answer is None:
            return
        answer.pending -= 1
        answer.refusal = answer.refusal or refusal
        if answer.pending:
            return
        del self._answers[token]
        self._settle(answer.publishing, answer.ids, stored_state(answer.refusal), False)
        self._top_up(answer.publishing)

    def _settle(self, publishing: PublisherLink, ids: list[int], state: DeliveryState, settled: bool) -> None:
        count = len(ids)
        publishing.unanswered_count -= count
        self.unanswered_count -= count
        if publishing.remembered is not None and not settled:
            publishing.note(ids, state)
        if settled or publishing.link not in self.links:
            return
        if state.code == REJECTED and not publishing.takes_rejected:
            state = RELEASED_STATE
        first = ids[0]
        if ids[-1] - first == count - 1:
            self._sessions.settle(publishing.session, publishing.link, first, ids[-1], state)
            return
        for delivery_id in ids:
            self._sessions.settle(publishing.session, publishing.link, delivery_id, delivery_id, state)

    def top_up(self, link: IncomingLink) -> None:
        """Grant credit again to a link whose client has used some without a message."""
        publishing = self.links.get(link)
        if publishing is not None:
            self._top_up(publishing)

    def _top_up(self, publishing: PublisherLink) -> None:
        """Grant credit again when half of it is used and answered."""
        wanted = self._credit - publishing.unanswered_count
        link = publishing.link
        if (wanted - link.credit) * 2 >= self._credit and link in self.links:
            self._sessions.grant(publishing.session, link, wanted)


@final
class _Run:
    """Neighbouring messages that go the same way."""

    __slots__ = ("destination", "headers", "ids", "payload_bytes", "payloads", "qos", "sent_before", "settled")

    def __init__(self, settled: bool) -> None:
        self.settled = settled
        self.sent_before = False
        self.destination: Destination | None = None
        self.qos = AT_LEAST_ONCE
        self.ids: list[int] = []
        self.payloads: list[bytes] = []
        self.headers: list[Headers | None] = []
        self.payload_bytes = 0

    def takes(self, message: MessageIn, destination: Destination, sent_before: bool) -> bool:
        """Return whether the message may join."""
        return not self.ids or (
            self.destination == destination
            and self.qos == self._qos_of(message, destination)
            and self.sent_before == sent_before
        )

    def add(self, delivery_id: int, message: MessageIn, destination: Destination, sent_before: bool) -> None:
        """Let the message join."""
        self.sent_before = sent_before
        self.destination = destination
        self.qos = self._qos_of(message, destination)
        self.ids.append(delivery_id)
        self.payloads.append(message.payload)
        self.headers.append(message.headers)
        self.payload_bytes += len(message.payload)

    def _qos_of(self, message: MessageIn, destination: Destination) -> int:
        """Return AT_MOST_ONCE for what its sender neither wants kept nor confirmed, and sends to a topic."""
        direct = self.settled and not message.durable and not destination.is_queue
        return AT_MOST_ONCE if direct else AT_LEAST_ONCE

    def batch(self, client: str, wall_ms: int) -> MessageBatch:
        """Return the messages as one batch."""
        assert self.destination is not None, "a run goes somewhere"
        return MessageBatch(
            topic=self.destination.topic,
            topics=None,
            payloads=self.payloads,
            headers=self.headers,
            qos=self.qos,
            retain=False,
            publisher=client,
            received_ms=wall_ms,
            payload_bytes=self.payload_bytes,
            possible_duplicate=self.sent_before,
        )


def _refusal(result: PublishResult) -> DeliveryState:
    """Return the outcome of a message that a queue did not take."""
    condition = _CONDITIONS.get(result.refusal, conditions.RESOURCE_LIMIT_EXCEEDED)
    info = AmqpMap([(Symbol("queue"), result.refused_by)]) if result.refused_by else None
    return rejected(condition, result.text() + result.also_refused, info)
