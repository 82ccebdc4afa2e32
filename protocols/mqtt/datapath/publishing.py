"""Publish the messages of one client, and send PUBACK, PUBREC and PUBCOMP in order."""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from sluicegate.actors.messages.data import PublishFailed
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.publishing.result import PublishResult
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.message.refusals import (
    ADMITTED,
    REFUSED_GUARANTEED_SEND,
    REFUSED_NO_MATCH,
    REFUSED_NOT_FOUND,
    REFUSED_PAYLOAD,
    REFUSED_PUBLISH_ACL,
    REFUSED_SHUT_DOWN,
    REFUSED_SPOOL_FAILED,
)
from sluicegate.messaging.topics.syntax import EVENT_TOPICS, GATEWAY_TOPICS, SHARE_TOPICS, is_queue_topic
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.mqtt.codec.events import PublishReceived
from sluicegate.protocols.mqtt.codec.fixed_header import PUBACK, PUBCOMP, PUBREC
from sluicegate.protocols.mqtt.codec.reason_codes import (
    IMPLEMENTATION_SPECIFIC_ERROR,
    NO_MATCHING_SUBSCRIBERS,
    NOT_AUTHORIZED,
    PACKET_IDENTIFIER_NOT_FOUND,
    PAYLOAD_FORMAT_INVALID,
    QUOTA_EXCEEDED,
    SUCCESS,
    TOPIC_NAME_INVALID,
    UNSPECIFIED_ERROR,
)
from sluicegate.protocols.mqtt.datapath.inflight_in import InflightIn, Unanswered
from sluicegate.protocols.mqtt.engine.engine import MqttEngine
from sluicegate.protocols.mqtt.session.quota import SessionQuota
from sluicegate.protocols.mqtt.session.session import Session

# Every other refusal is a quota. PUBACK knows no code for a message that is too large for a queue; 0x95 belongs to
# packets, in DISCONNECT only. Nor has it one for a publish without a subscriber: 0x10 is a success.
REASON_CODES: Final = {
    REFUSED_SHUT_DOWN: IMPLEMENTATION_SPECIFIC_ERROR,
    REFUSED_NOT_FOUND: IMPLEMENTATION_SPECIFIC_ERROR,
    REFUSED_NO_MATCH: UNSPECIFIED_ERROR,
    REFUSED_SPOOL_FAILED: IMPLEMENTATION_SPECIFIC_ERROR,
    REFUSED_PUBLISH_ACL: NOT_AUTHORIZED,
    REFUSED_GUARANTEED_SEND: NOT_AUTHORIZED,
    REFUSED_PAYLOAD: PAYLOAD_FORMAT_INVALID,
}
_DROPPED_BEFORE_5: Final = (NOT_AUTHORIZED, PAYLOAD_FORMAT_INVALID, TOPIC_NAME_INVALID)
_NOT_ALIKE: Final = (*GATEWAY_TOPICS, SHARE_TOPICS)
RECEIVED: Final = b"1"  # its existence is the information
DROPPED: Final = "invalid_topic"  # counter: messages and wills on reserved topics that are dropped without a response
NOT_FOR_CLIENTS: Final = (EVENT_TOPICS, SHARE_TOPICS)  # prefixes of topics that no client publishes to
NOT_A_TOPIC: Final = f"{SHARE_TOPICS!r} begins a filter, not a topic"
RESERVED_TEXT: Final = f"403 Forbidden: topics that begin with {EVENT_TOPICS} are the gateway's"


def not_stored_code(message: PublishFailed) -> int:
    """Return the reason code of what could not be stored."""
    return REASON_CODES.get(message.verdict, QUOTA_EXCEEDED)


class PublishRefused(Exception):
    """A 3.x client's publish was refused: the only response in that protocol is to close the connection."""

    def __init__(self, reason_code: int, text: str) -> None:
        super().__init__(text)
        self.reason_code = reason_code


class PublishHandler:
    """Publishes the messages of one client.

    A refusal inside a batch concerns single messages, so a batch that is refused is tried again message by message.
    """

    def __init__(
        self,
        *,
        engine: MqttEngine,
        level: int,
        session: Session,
        quota: SessionQuota,
        publisher: Publisher,
        counters: ProtocolCounters,
        before_answer: Callable[[Callable[[], None], Publication | None], None],
        forget_received: Callable[[int, int, Callable[[], None]], None],
        explains: bool,
        opens_flow: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._level = level
        self._session = session
        self._quota = quota  # of all sessions
        self.publisher = publisher
        self._counters = counters
        self._before_answer = before_answer  # runs its argument once everything before it is decided in the store
        self._forget_received = forget_received  # the same, with ids that the store is to forget
        self._explains = explains  # the client wants to read why [3.1.2-29]
        self._opens_flow = opens_flow  # once, before the first guaranteed message
        self.has_flow = False
        self._free_topic = ""  # the last one that is not reserved: mostly the next is the same
        self.line = InflightIn(session.received)

    def publish(self, event: PublishReceived) -> None:
        """Publish a run of PUBLISH packets. Raises PublishRefused: 3.x has no other response to a refusal."""
        batch = event.batch
        if batch.topics is not None or batch.topic is not self._free_topic:
            if _differ(batch):
                self._publish_each(event)
                return
            self._free_topic = batch.topic
        self._publish(event)

    def _publish_each(self, event: PublishReceived) -> None:
        """Publish a run packet by packet: those on reserved topics are refused, the others published."""
        batch = event.batch
        ids = _each(event.packet_ids)
        for row in range(batch.count):
            packet = event.alone(row, ids[row] if ids else 0)
            topic = batch.topic_of(row)
            if topic.startswith(NOT_FOR_CLIENTS):
                self._refuse(topic, batch.qos, packet.packet_ids)
            else:
                self._publish(packet)

    def _publish(self, event: PublishReceived) -> None:
        """Publish packets of topics, or of one queue. A queue has no retained message."""
        batch = event.batch
        if batch.retain and is_queue_topic(batch.topic_of(0)):
            batch.retain = False
        if batch.qos == AT_MOST_ONCE:
            result = self.publisher.publish(batch, 0)
            if result.refusal != ADMITTED and batch.count > 1:
                for row in range(batch.count):
                    self.publisher.publish(batch.select([row]), 0)
            return
        if not self.has_flow:
            self.has_flow = True
            self._opens_flow()
        if batch.qos == EXACTLY_ONCE:
            self._publish_exactly_once(event)
        else:
            self._publish_new(event)
        if self.line.unanswered_count:
            self.answer()

    def confirmed(self, token: int, wall_ms: int = 0) -> None:
        """Note that a publish is stored."""
        entry = self.line.confirmed(token, SUCCESS)
        if entry is not None and entry.received_ms and entry.reason_code == SUCCESS:
            self._counters.confirmations.observe(entry.received_ms, wall_ms, entry.count)
        self.answer()

    def refused(self, message: PublishFailed) -> None:
        """Note that a publish could not be stored."""
        self.line.confirmed(message.token, not_stored_code(message), message.text())
        self.answer()

    def answer(self) -> None:
        """Answer what can be answered, in the order published. Raises PublishRefused."""
        refusal, refusal_reason = SUCCESS, ""
        for entry in self.line.take_answerable():
            code = entry.reason_code
            refused = code >= 0x80
            if refused:
                self._free_ids(entry)
                if self._level < 5:
                    refusal, refusal_reason = code, entry.reason_text
            if refusal:
                continue  # nothing behind it is answered: the client sends it again
            kind = PUBACK if entry.qos == AT_LEAST_ONCE else PUBREC
            text = entry.reason_text if self._explains else ""
            for first, last in entry.packet_ids:
                self._acknowledge(kind, first, last, code, text)
        if refusal:
            raise PublishRefused(refusal, f"publish refused with reason code 0x{refusal:02x}: {refusal_reason}")

    def _acknowledge(self, kind: i64, first: i64, last: i64, code: i64, text: str = "") -> None:
        self._engine.acknowledge(kind, first, last, code if self._level == 5 else SUCCESS, text)

    def leave(self) -> None:
        """The connection ends: refused publishes are not received, pending ones are handed to the next connection."""
        for entry in self.line.unanswered():
            if entry.reason_code >= 0x80:
                self._free_ids(entry)
            elif entry.qos == EXACTLY_ONCE and entry.pending:
                for packet_id in _each(entry.packet_ids):
                    self._session.undecided[packet_id] = entry.publication

    def released(self, first: int, last: int) -> None:
        """Take PUBREL: forget the ids, and say PUBCOMP once a restart would have forgotten them too."""
        received = self._session.received
        known = [(first, last + 1)]
        if not received.take_lowest(first, last + 1):  # which spares a list
            known = received.remove(first, last + 1)
        if self._session.received_bytes:
            self._quota.count_received(self._session)
        if self._session.has_rows:
            self._forget_received(first, last, lambda: self._complete(first, last, known))
        else:
            self._complete(first, last, known)

    def _complete(self, first: int, last: int, known: list[tuple[int, int]]) -> None:
        """Say PUBCOMP for ids from `first` to `last`, of which those in the ranges of `known` were received."""
        if self._level < 5 or sum([end - start for start, end in known]) == last - first + 1:
            self._engine.acknowledge(PUBCOMP, first, last)
            return
        for packet_id in range(first, last + 1):
            was_known = any(start <= packet_id < end for start, end in known)
            code = SUCCESS if was_known else PACKET_IDENTIFIER_NOT_FOUND
            self._engine.acknowledge(PUBCOMP, packet_id, packet_id, code)

    def _publish_exactly_once(self, event: PublishReceived) -> None:
        """Publish new messages; repetitions are acknowledged in order and not published [4.3.3-10]."""
        received = self._session.received
        session, quota = self._session, self._quota
        if quota.takes_received(session, event.batch.count) and not _has_repetition(received, event):
            for first, last in event.before:
                received.add(first, last + 1)
            received.add(event.first, event.last + 1)
            quota.count_received(session)
            self._publish_new(event)
            return
        for row, packet_id in enumerate(_each(event.packet_ids)):
            packet = event.alone(row, packet_id)
            if packet_id in received:
                self._publish_again(packet)
            elif quota.takes_received(session, 1):
                received.add(packet_id, packet_id + 1)
                quota.count_received(session)
                self._publish_new(packet)
            else:
                entry = self.line.add(self.line.next_token(), EXACTLY_ONCE, packet.packet_ids, 1, 0)
                entry.reason_code, entry.reason_text = QUOTA_EXCEEDED, quota.deny_received(session)

    def _publish_new(self, event: PublishReceived) -> None:
        """Publish what no PUBLISH before has brought."""
        batch = event.batch
        token = self.line.next_token()
        result = self.publisher.publish(batch, token)
        if result.refusal != ADMITTED and batch.count > 1:
            for row, packet_id in enumerate(_each(event.packet_ids)):
                self._publish_new(event.alone(row, packet_id))
            return
        if result.refusal == ADMITTED and not (result.confirmations_pending or self.line.unanswered_count):
            # Done, with nothing before it that waits: it need not stand in line.
            kind = PUBACK if batch.qos == AT_LEAST_ONCE else PUBREC
            code = SUCCESS if result.routed else NO_MATCHING_SUBSCRIBERS
            for first, last in event.before:
                self._acknowledge(kind, first, last, code)
            self._acknowledge(kind, event.first, event.last, code)
            return
        packet_ids = event.packet_ids
        entry = self.line.add(token, batch.qos, packet_ids, batch.count, result.confirmations_pending)
        self._note(result, entry)
        entry.received_ms = batch.received_ms
        publication = result.publication
        if batch.qos == EXACTLY_ONCE and self._session.is_durable and publication is not None:
            # One commit for both. The message without its ids would come twice after a crash, the ids without it never.
            entry.publication = publication
            session = self._session
            publication.session_rows = [(session.received_key(each), RECEIVED) for each in _each(packet_ids)]

    def _publish_again(self, packet: PublishReceived) -> None:
        """Take a repetition: received is received, unless the first one was refused after its connection had ended.

        Where it was to be retained, and that was under way by then, what is retained now is stored once more: who would
        hear of the first is gone.
        """
        packet_id, ids, token = packet.first, packet.packet_ids, self.line.next_token()
        undecided = self._session.undecided
        if packet_id not in undecided:
            self.line.add(token, EXACTLY_ONCE, ids, 1, 0)
            return
        publication = undecided.pop(packet_id)
        if publication is not None and publication.refused:
            self._publish_new(packet)
            return
        retained_count = self.publisher.retain_again(packet.batch, token) if packet.batch.retain else 0
        waits = publication is not None and not publication.confirmed
        entry = self.line.add(token, EXACTLY_ONCE, ids, 1, retained_count + waits)
        entry.publication = publication
        if publication is not None and waits:
            self._before_answer(lambda: self._decided(token, publication), publication)

    def _decided(self, token: int, publication: Publication) -> None:
        """The first copy is stored, or refused: then the client gets a refusal, and may send it a third time."""
        if publication.refused:
            self.refused(PublishFailed(token, "an earlier copy was refused"))
        else:
            self.confirmed(token)

    def _note(self, result: PublishResult, entry: Unanswered) -> None:
        """Note the response to a publish."""
        if result.refusal != ADMITTED:
            code = REASON_CODES.get(result.refusal, QUOTA_EXCEEDED)
            if result.refusal == REFUSED_NOT_FOUND and not result.routed:
                code = TOPIC_NAME_INVALID  # `$queue/NAME` of no queue, not one that a definition names
            if code in _DROPPED_BEFORE_5 and self._level < 5:
                return  # it is acknowledged, and its message dropped [311:3.3.5-2]; it would come again for ever
            entry.reason_code = code
            entry.reason_text = result.reason()
        elif not (result.routed or result.confirmations_pending):
            entry.reason_code = NO_MATCHING_SUBSCRIBERS

    def _free_ids(self, entry: Unanswered) -> None:
        """A refused publish was not received; its ids are free again [4.3.3-9]."""
        if entry.qos == EXACTLY_ONCE:
            for first, last in entry.packet_ids:
                self._session.received.remove(first, last + 1)
            if self._session.received_bytes:
                self._quota.count_received(self._session)

    def _refuse(self, topic: str, qos: int, packet_ids: list[tuple[int, int]]) -> None:
        """Refuse one message of a reserved topic. A 3.x client is acknowledged, and its message dropped."""
        if qos == AT_MOST_ONCE or self._level < 5:
            self._counters.count(self._counters.dropped, DROPPED)
        if qos == AT_MOST_ONCE:
            return
        entry = self.line.add(self.line.next_token(), qos, packet_ids, 1, 0)
        if self._level == 5:
            is_share = topic.startswith(SHARE_TOPICS)
            entry.reason_code = TOPIC_NAME_INVALID if is_share else NOT_AUTHORIZED
            entry.reason_text = NOT_A_TOPIC if is_share else RESERVED_TEXT
        self.answer()


def _differ(batch: MessageBatch) -> bool:
    """Return whether packets of a run have different fates: on topics of the server's, to queues beside others."""
    if batch.topics is None:
        return batch.topic.startswith(NOT_FOR_CLIENTS)
    return any(topic.startswith(_NOT_ALIKE) for topic in batch.topics)


def _has_repetition(received: RangeSet, event: PublishReceived) -> bool:
    """Return whether an id was received before, or stands in two of the runs."""
    if not event.before:
        return received.count_within(event.first, event.last + 1) > 0
    seen = RangeSet()
    for first, last in event.packet_ids:
        if received.count_within(first, last + 1) or seen.count_within(first, last + 1):
            return True
        seen.add(first, last + 1)
    return False


def _each(packet_ids: list[tuple[int, int]]) -> list[int]:
    return [packet_id for first, last in packet_ids for packet_id in range(first, last + 1)]
