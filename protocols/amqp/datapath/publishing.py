"""Publishers of one client: messages of its sending links come in, and their outcomes go back once they are safe.

A refusal concerns single messages. So a batch that is refused is published again message by message, as in every
protocol.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from sluicegate.actors.messages.data import PublishFailed
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.publishing.result import PublishResult
from sluicegate.messaging.clients.rights import ClientDenied, ClientRights
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.refusals import (
    ADMITTED,
    REFUSED_GUARANTEED_SEND,
    REFUSED_MESSAGE_TOO_LARGE,
    REFUSED_NOT_FOUND,
    REFUSED_PAYLOAD,
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
    SuspendedSender,
    SuspendedSenders,
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
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Symbol
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
    REFUSED_PAYLOAD: conditions.DECODE_ERROR,
}


def takes_rejected(link: IncomingLink) -> bool:
    """Return whether the client understands `rejected`: it does unless it lists other outcomes only (3.5.3)."""
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
        self.suspended: SuspendedSender | None = None  # what is known of it when it comes back
        self.attached_count = 0  # of that, as this link found it
        self.tags: dict[int, bytes] = {}  # of a link that can be resumed: by delivery id, of those without outcome
        # Tags of deliveries that the client has sent before, and whose outcome it does not know.
        self.unsure = unsure_tags(link)
        if self.unsure:
            link.keeps_tags = True

    def is_suspended_still(self) -> bool:
        """Return whether it is detached, was not attached again, anywhere, and its expiry has not begun."""
        suspended = self.suspended
        return (
            suspended is not None
            and suspended.attached_count == self.attached_count
            and suspended.expires_ms == NOT_BEGUN
        )

    def begin_expiry(self, ended: str, now_ms: int) -> None:
        """Begin the expiry of a detached link if `ended` is what its policy names, unless it is attached again."""
        if self.suspended is not None and self.suspended.attached_count == self.attached_count:
            begin_expiry(self.suspended, ended, now_ms)

    def note(self, ids: list[int], state: DeliveryState) -> None:
        """Keep the outcome of deliveries."""
        if self.suspended is not None:
            self.suspended.note([self.tags.pop(each) for each in ids if each in self.tags], state)


@final
class _Answer:
    """Deliveries whose outcome waits for confirmations."""

    __slots__ = ("ids", "pending", "received_ms", "refusal", "sender")

    def __init__(self, sender: PublisherLink, ids: list[int], pending: int, received_ms: int) -> None:
        self.sender = sender
        self.ids = ids
        self.pending = pending
        self.received_ms = received_ms  # wall clock
        self.refusal: PublishFailed | None = None


@final
class Publishers:
    """The publishers of one client, over all its links."""

    def __init__(
        self,
        *,
        sessions: "Sessions",
        publisher: Publisher,
        address: Address,
        client: str,
        credit: int,
        suspended_senders: SuspendedSenders,
        find: Callable[[str, AmqpValue], Destination | DeliveryState],
        counters: ProtocolCounters,
    ) -> None:
        self.links: dict[IncomingLink, PublisherLink] = {}
        self.attaching_count = 0  # links whose attach waits for another actor: they count already
        self.publisher = publisher
        self.unanswered_count = 0
        self._sessions = sessions
        self._address = address  # where confirmations go
        self._suspended_senders = suspended_senders
        self._away: list[PublisherLink] = []  # suspended links whose expiry has not begun
        self._client = client
        self._credit = credit  # what a link may send ahead of our outcomes
        self._counters = counters
        self._find = find  # of an anonymous sender's message: where it goes, or why nowhere
        self._answers: dict[int, _Answer] = {}
        self._next_token = 1

    def attached(self, sender: PublisherLink) -> None:
        """Add a link, and grant it credit."""
        self.links[sender.link] = sender
        self._sessions.grant(sender.session, sender.link, self._credit)

    def never_attached(self, sender: PublisherLink, now_ms: int) -> None:
        """Drop a link whose client has gone before it was attached, unless it may come back."""
        if sender.suspended is not None:
            self._suspended_senders.detached(sender.suspended, sender.attached_count, closed=False)
            begin_expiry(sender.suspended, CONNECTION_CLOSE, now_ms)

    def detached(self, link: IncomingLink, *, closed: bool, now_ms: int) -> None:
        """Remove a link, unless it may come back. What it published is still confirmed."""
        sender = self.links.pop(link, None)
        if sender is None or sender.suspended is None:
            return
        self._suspended_senders.detached(sender.suspended, sender.attached_count, closed=closed)
        begin_expiry(sender.suspended, LINK_DETACH, now_ms)
        if not closed and sender.suspended.expires_ms == NOT_BEGUN:
            self._note_away(sender)

    def _note_away(self, sender: PublisherLink) -> None:
        """Keep a detached link until its expiry begins, or another link replaces it."""
        self._away = [each for each in self._away if each.is_suspended_still()]
        self._away.append(sender)
        del self._away[:-LINKS_MAX]  # no more are kept, and the oldest are dropped first

    def session_ended(self, session: Session, now_ms: int) -> None:
        """Begin the expiry of a session's links, which are detached."""
        for each in self._away:
            if each.session is session:
                each.begin_expiry(SESSION_END, now_ms)
        self._away = [each for each in self._away if each.is_suspended_still()]

    def connection_ended(self, now_ms: int) -> None:
        """Begin the expiry of all links, which are detached."""
        for each in self._away:
            each.begin_expiry(CONNECTION_CLOSE, now_ms)
        self._away.clear()

    # --- messages ---

    def publish(self, event: DeliveriesReceived, wall_ms: int) -> None:
        """Publish the deliveries of one event."""
        sender = self.links.get(event.link)
        if sender is None:
            return
        self._count_in(sender, event)
        run = _Run(event.settled)
        for row, delivery_id in enumerate(event.delivery_ids):
            if sender.suspended is not None and self._is_known(sender, sender.suspended, event, row):
                continue
            message, destination = self._understand(sender, event, event.payloads[row], wall_ms)
            if message is None or not isinstance(destination, Destination):
                self._publish_run(sender, run, wall_ms)
                run = _Run(event.settled)
                assert isinstance(destination, DeliveryState), "what is not understood has an outcome"
                if event.settled:
                    self._counters.count(self._counters.dropped, INVALID_MESSAGE)
                self._settle(sender, [delivery_id], destination, event.settled)
                continue
            sent_before = event.resumed or (len(sender.unsure) > 0 and event.tags[row] in sender.unsure)
            if not run.takes(message, destination, sent_before):
                self._publish_run(sender, run, wall_ms)
                run = _Run(event.settled)
            run.add(delivery_id, message, destination, sent_before)
        self._publish_run(sender, run, wall_ms)
        self._top_up(sender)

    def _is_known(self, sender: PublisherLink, suspended: SuspendedSender, event: DeliveriesReceived, row: int) -> bool:
        """Answer a delivery that is resumed and arrived before; of any other note the tag."""
        delivery_id, tag = event.delivery_ids[row], event.tags[row]
        if event.resumed:
            state = suspended.outcome(tag)
            # Without an outcome here the client has settled it, and a delivery without payload is not published.
            if state is not None or (event.settled and not event.payloads[row]):
                self._settle(sender, [delivery_id], state or ACCEPTED_STATE, event.settled)
                return True
        if not event.settled:
            sender.tags[delivery_id] = tag
        return False

    def _understand(
        self, sender: PublisherLink, event: DeliveriesReceived, payload: bytes, wall_ms: int
    ) -> tuple[MessageIn | None, Destination | DeliveryState]:
        """Return a message and where it goes, or the outcome that it has instead."""
        if event.message_format:
            text = f"message-format {event.message_format:#x} is not supported"
            return None, rejected(conditions.NOT_IMPLEMENTED, text)
        try:
            message = read_message(payload, wall_ms)
        except DecodeError as error:
            return None, rejected(conditions.DECODE_ERROR, str(error))
        if sender.destination is not None:
            return message, sender.destination
        if message.to is None:
            return None, rejected(
                conditions.PRECONDITION_FAILED, "a message without a destination: properties.to is missing"
            )
        return message, self._find(message.to, message.to_kind)

    def _publish_run(self, sender: PublisherLink, run: "_Run", wall_ms: int) -> None:
        if run.ids:
            self._publish(sender, run.batch(self._client, wall_ms), run.ids, run.settled)

    def _publish(self, sender: PublisherLink, batch: MessageBatch, ids: list[int], settled: bool) -> None:
        token = self._next_token
        self._next_token += 1
        suspended = sender.suspended
        confirm_token = token if suspended is None else suspended.take_token()
        publisher = self.publisher if suspended is None else suspended.publisher
        result = publisher.publish(batch, confirm_token)
        if result.refusal != ADMITTED:
            if batch.count > 1:
                for row, delivery_id in enumerate(ids):
                    self._publish(sender, batch.select([row]), [delivery_id], settled)
                return
            self._settle(sender, ids, _refusal(result), settled)
        elif settled or result.confirmations_pending == 0:
            self._settle(sender, ids, ACCEPTED_STATE, settled)
        elif suspended is None:
            self._answers[token] = _Answer(sender, ids, result.confirmations_pending, batch.received_ms)
        else:
            tags = [sender.tags[each] for each in ids]
            suspended.stores(confirm_token, tags, result.confirmations_pending, self._address, token)
            self._answers[token] = _Answer(sender, ids, 1, batch.received_ms)
        if suspended is not None:
            self.publisher.pressures += publisher.pressures
            publisher.pressures.clear()

    # --- messages in a transaction ---

    def publish_in(self, transaction: Transaction, event: DeliveriesReceived, wall_ms: int) -> None:
        """Add the deliveries of one event to a transaction, which publishes them with its commit."""
        sender = self.links.get(event.link)
        if sender is None:
            return
        self._count_in(sender, event)
        for delivery_id, payload in zip(event.delivery_ids, event.payloads, strict=True):
            message, destination = self._understand(sender, event, payload, wall_ms)
            state = transaction.accepted_state
            if message is None or not isinstance(destination, Destination):
                assert isinstance(destination, DeliveryState), "what is not understood has an outcome"
                state = destination
                transaction.fail("a message in it was rejected")
            else:
                state = self._take_in(transaction, destination.topic, message)
            self._settle(sender, [delivery_id], state, event.settled)
        self._top_up(sender)

    def _take_in(self, transaction: Transaction, topic: str, message: MessageIn) -> DeliveryState:
        """Add a message to a transaction; return its outcome."""
        rights = self.publisher.rights
        try:
            if rights is not None:
                rights.check_publish(topic, guaranteed=True)
                rights.count_taken(1)
                if rights.limits_publishing:
                    message.headers = self._checked_headers(rights, topic, message)
        except ClientDenied as denied:
            transaction.fail(denied.text)
            return rejected(conditions.condition_of(denied), denied.text)
        refusal = transaction.publish(topic, message)
        return rejected(conditions.RESOURCE_LIMIT_EXCEEDED, refusal) if refusal else transaction.accepted_state

    def _checked_headers(self, rights: ClientRights, topic: str, message: MessageIn) -> Headers | None:
        """Check a payload that a transaction publishes; return the headers to publish with. Raises ClientDenied."""
        batch = MessageBatch(
            topic=topic,
            topics=None,
            payloads=[message.payload],
            headers=None if message.headers is None else [message.headers],
            qos=AT_LEAST_ONCE,
            retain=False,
            publisher=rights.client,
            received_ms=0,
            payload_bytes=len(message.payload),
        )
        return rights.check_later(batch).headers_of(0)

    def turn_down(self, event: DeliveriesReceived, state: DeliveryState) -> None:
        """Answer all deliveries of one event with the same outcome."""
        sender = self.links.get(event.link)
        if sender is not None:
            self._count_in(sender, event)
            self._settle(sender, event.delivery_ids, state, event.settled)
            self._top_up(sender)

    def _count_in(self, sender: PublisherLink, event: DeliveriesReceived) -> None:
        sender.unanswered_count += len(event.delivery_ids)
        self.unanswered_count += len(event.delivery_ids)

    # --- outcomes ---

    def confirmed(self, token: int, refusal: PublishFailed | None = None, wall_ms: int = 0) -> None:
        """Note that a publish is safe or, with a refusal, could not be stored."""
        answer = self._answers.get(token)
        if answer is None:
            return
        answer.pending -= 1
        answer.refusal = answer.refusal or refusal
        if answer.pending:
            return
        del self._answers[token]
        if answer.refusal is None:
            self._counters.confirmations.observe(answer.received_ms, wall_ms, len(answer.ids))
        self._settle(answer.sender, answer.ids, stored_state(answer.refusal), False)
        self._top_up(answer.sender)

    def _settle(self, sender: PublisherLink, ids: list[int], state: DeliveryState, settled: bool) -> None:
        count = len(ids)
        sender.unanswered_count -= count
        self.unanswered_count -= count
        if sender.suspended is not None and not settled:
            sender.note(ids, state)
        if settled or sender.link not in self.links:
            return
        if state.code == REJECTED and not sender.takes_rejected:
            state = RELEASED_STATE
        first = ids[0]
        if ids[-1] - first == count - 1:
            self._sessions.settle(sender.session, sender.link, first, ids[-1], state)
            return
        for delivery_id in ids:
            self._sessions.settle(sender.session, sender.link, delivery_id, delivery_id, state)

    def top_up(self, link: IncomingLink) -> None:
        """Grant credit again to a link whose client has used some without a message."""
        sender = self.links.get(link)
        if sender is not None:
            self._top_up(sender)

    def _top_up(self, sender: PublisherLink) -> None:
        """Grant credit again when half of it is used and answered."""
        wanted = self._credit - sender.unanswered_count
        link = sender.link
        if (wanted - link.credit) * 2 >= self._credit and link in self.links:
            self._sessions.grant(sender.session, link, wanted)


@final
class _Run:
    """Neighbouring messages for the same destination."""

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
        """Return AT_MOST_ONCE for a settled, non-durable message to a topic."""
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
    """Return the outcome of a message that was refused."""
    condition = _CONDITIONS.get(result.refusal, conditions.RESOURCE_LIMIT_EXCEEDED)
    info = AmqpMap([(Symbol("queue"), result.refused_by)]) if result.refused_by else None
    return rejected(condition, result.text() + result.also_refused, info)
