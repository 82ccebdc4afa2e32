"""Publish the messages of one client's publishers, and answer them.

Flow: publishing. A publisher is a flow with a window of absolute sequences. Its messages are published as they arrive,
and answered in the order of their sequences: one PUB_ACK per turn says up to which sequence everything is stored, and
lists refusals. A refusal concerns single messages, so a batch that is refused is tried again message by message, as
in every protocol.
"""

from bisect import bisect_right
from collections import deque
from typing import Final, final

from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.refusals import (
    ADMITTED,
    REFUSED_GUARANTEED_SEND,
    REFUSED_LOW_PRIORITY,
    REFUSED_MESSAGE_TOO_LARGE,
    REFUSED_NO_MATCH,
    REFUSED_NOT_FOUND,
    REFUSED_PAYLOAD,
    REFUSED_PUBLISH_ACL,
    REFUSED_QUEUE_COUNT,
    REFUSED_QUEUE_FULL,
    REFUSED_SHUT_DOWN,
    REFUSED_SPOOL_FAILED,
)
from sluicegate.messaging.observability.events import as_word
from sluicegate.messaging.topics.syntax import TopicError, check_published_topic, queue_topic
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.codes import FlowBroken
from sluicegate.protocols.flow.codec.frames.publish import TOPIC_CACHED_BYTES_MAX, PubAck, PublishesReceived, Refusal
from sluicegate.protocols.flow.codec.limits import RANGES_MAX
from sluicegate.protocols.flow.publishers.publisher import NamedPublisher

TOPICS_KNOWN_MAX: Final = 1024  # of one connection, checked and valid
TEXT_CHARS_MAX: Final = 200  # of a refusal
UNKNOWN_FLOW: Final = "unknown_flow"  # counter: messages on a flow that had ended
DIRECT_REFUSED: Final = "invalid_topic"  # counter: direct messages dropped without a response

_CODES: Final[dict[int, int]] = {
    REFUSED_MESSAGE_TOO_LARGE: codes.MESSAGE_TOO_LARGE,
    REFUSED_QUEUE_FULL: codes.QUEUE_FULL,
    REFUSED_QUEUE_COUNT: codes.QUEUE_FULL,
    REFUSED_LOW_PRIORITY: codes.LOW_PRIORITY,
    REFUSED_NOT_FOUND: codes.QUEUE_NOT_FOUND,
    REFUSED_SHUT_DOWN: codes.QUEUE_DISABLED,
    REFUSED_SPOOL_FAILED: codes.NOT_STORED,
    REFUSED_NO_MATCH: codes.NOBODY_SUBSCRIBES,
    REFUSED_PUBLISH_ACL: codes.NOT_PERMITTED,
    REFUSED_GUARANTEED_SEND: codes.NOT_PERMITTED,
    REFUSED_PAYLOAD: codes.PAYLOAD_INVALID,
}


@final
class Unanswered:
    """Neighbouring sequences with one fate, not answered yet."""

    __slots__ = ("code", "count", "first", "last", "pending", "publication", "received_ms", "text")

    def __init__(self, first: int, last: int, count: int, pending: int) -> None:
        self.first = first
        self.last = last
        self.count = count  # messages: between the two not every sequence has to be one
        self.pending = pending  # confirmations still to come
        self.code = codes.NONE  # NONE: stored, once nothing is pending
        self.text = ""
        self.received_ms = 0  # wall clock; 0: its latency does not count
        self.publication: Publication | None = None


@final
class PublisherFlow:
    """A publisher of one connection."""

    def __init__(self, flow_id: int, named: NamedPublisher | None, window: int) -> None:
        self.flow_id = flow_id
        self.named = named  # None: anonymous
        self.epoch = 0 if named is None else named.epoch
        self.window = window
        self.answered_through = 0 if named is None else named.floor
        self.received_through = self.answered_through
        self.sequence_max = self.answered_through + window
        # What it may have had in flight when the gateway crashed: consumers may have had that. It was at most a window
        # ahead of the answers that it had heard, and the first that it sends again lies behind these: the second number
        # is that window until something is published. What is refused says nothing, it may be a filler of the client.
        self.doubtful_window = named.window if named is not None and named.was_cut_off else 0
        self.doubtful_through = 0 if named is None or not named.was_cut_off else named.highest() + named.window
        self.line: deque[Unanswered] = deque()  # ascending
        self.unanswered_count = 0  # messages in the line
        self.refusals: list[Refusal] = []  # to be sent with the next PUB_ACK
        self.has_news = False

    def add(self, first: int, last: int, count: int, pending: int) -> Unanswered:
        """Put sequences into the line, behind all others."""
        entry = Unanswered(first, last, count, pending)
        self.line.append(entry)
        self.unanswered_count += count
        return entry

    def advance(self) -> None:
        """Remove decided entries from the head of the queue."""
        line = self.line
        before = self.answered_through
        named = self.named
        while line and line[0].pending == 0:
            entry = line.popleft()
            self.answered_through = entry.last
            self.unanswered_count -= entry.count
            if entry.code != codes.NONE:
                self.refusals.append(Refusal(entry.first, entry.last, entry.code, entry.text[:TEXT_CHARS_MAX]))
                if named is not None:
                    named.note_refused(entry.first, entry.last)
            elif named is not None:
                named.note_stored(entry.first, entry.last)
        if self.answered_through != before:
            self.has_news = True
            self.sequence_max = self.answered_through + self.window
            if named is not None:
                # What it has sent proves that it has received every answer up to a window before.
                named.advance(self.answered_through, self.received_through - self.window)

    def leave(self) -> None:
        """The flow ends: pending entries stay with the named publisher."""
        named = self.named
        if named is None:
            return
        for entry in self.line:
            if entry.pending and entry.publication is not None:
                named.undecided.append((entry.publication, entry.first, entry.last))
            elif entry.code == codes.NONE:  # if its row is on its way still, whatever is written next comes behind it
                named.note_stored(entry.first, entry.last)

    def shown(self) -> str:
        """Return what operators know it by: its publisher's name, or the id of an anonymous one."""
        return str(self.flow_id) if self.named is None else as_word(self.named.name)

    def __repr__(self) -> str:
        return f"PublisherFlow({self.flow_id}, {self.named!r}, through {self.answered_through})"


@final
class Publishers:
    """The publishers of one client."""

    def __init__(self, *, publisher: Publisher, client: str, counters: ProtocolCounters) -> None:
        self.publisher = publisher  # changed until the client has shown who it is
        self.flows: dict[int, PublisherFlow] = {}
        self.unanswered_count = 0
        self.has_news = False  # an answer is due
        self.client = client
        self._counters = counters
        self._by_token: dict[int, tuple[PublisherFlow, Unanswered]] = {}
        self._next_token = 1
        self._known_topics: dict[str, str] = {}  # topic -> why it is refused; empty: it is not

    def add(self, flow: PublisherFlow) -> None:
        """Let a publisher begin."""
        self.flows[flow.flow_id] = flow

    def remove(self, flow_id: int) -> PublisherFlow | None:
        """Forget a publisher. Its publications continue; their answers are dropped."""
        flow = self.flows.pop(flow_id, None)
        if flow is not None:
            self.unanswered_count -= flow.unanswered_count
            flow.leave()
        return flow

    # --- messages ---

    def publish(self, event: PublishesReceived, wall_ms: int) -> None:
        """Publish the messages of one flow. Raises FlowBroken."""
        if event.has_headers:
            _hash_keys(event.headers)
        if event.flow_id == 0:
            self._publish_direct(event, wall_ms)
            return
        flow = self.flows.get(event.flow_id)
        if flow is None:
            self._counters.count(self._counters.dropped, UNKNOWN_FLOW, len(event.sequences))
            return
        _check_sequences(flow, event.sequences)
        before = flow.unanswered_count
        named = flow.named
        if named is not None and named.stored.total > 0:
            self._publish_again(flow, named, event, wall_ms)
        else:
            self._publish_rows(flow, event, 0, len(event.sequences), wall_ms)
        if named is not None and flow.doubtful_window == 0 < flow.doubtful_through < flow.received_through:
            flow.doubtful_through = 0
            named.was_cut_off = False  # it is past the messages that were in flight
        flow.advance()
        self.has_news = self.has_news or flow.has_news
        self.unanswered_count += flow.unanswered_count - before

    def _publish_again(
        self, flow: PublisherFlow, named: NamedPublisher, event: PublishesReceived, wall_ms: int
    ) -> None:
        """Publish those that the store has not; the others are answered in their place."""
        start = 0
        for row, sequence in enumerate(event.sequences):
            if sequence in named.stored:
                self._publish_rows(flow, event, start, row, wall_ms)
                flow.add(sequence, sequence, 1, 0)
                start = row + 1
        self._publish_rows(flow, event, start, len(event.sequences), wall_ms)

    def _publish_rows(self, flow: PublisherFlow, event: PublishesReceived, start: int, stop: int, wall_ms: int) -> None:
        """Publish neighbouring rows, in batches that go the same way."""
        topics = event.topics
        row = start
        sequences = event.sequences
        while row < stop:
            problem = "" if event.to_queue else self._problem_of(topics[row])
            end = row + 1
            if problem:
                entry = flow.add(event.sequences[row], event.sequences[row], 1, 0)
                entry.code, entry.text = codes.TOPIC_INVALID, problem
                row = end
                continue
            # To queues a batch has one destination, for it is refused when that is not there.
            while end < stop and (
                topics[end] is topics[end - 1]
                or (topics[end] == topics[row] if event.to_queue else not self._problem_of(topics[end]))
            ):
                end += 1
            if flow.doubtful_window:
                flow.doubtful_through = max(flow.doubtful_through, sequences[row] - 1 + flow.doubtful_window)
            is_doubtful = sequences[row] <= flow.doubtful_through
            if is_doubtful:
                end = bisect_right(sequences, flow.doubtful_through, row, end)
            batch = self._batch(event, row, end, AT_LEAST_ONCE, wall_ms, is_doubtful)
            self._publish(flow, sequences[row:end], batch, event)
            row = end

    def _publish(
        self, flow: PublisherFlow, sequences: list[int], batch: MessageBatch, event: PublishesReceived
    ) -> None:
        token = self._next_token
        self._next_token += 1
        result = self.publisher.publish(batch, token)
        if result.refusal != ADMITTED:
            if batch.count > 1:
                for row, sequence in enumerate(sequences):
                    self._publish(flow, [sequence], batch.select([row]), event)
                return
            entry = flow.add(sequences[0], sequences[0], 1, 0)
            entry.code = _CODES.get(result.refusal, codes.SPOOL_FULL)
            entry.text = result.reason()
            return
        flow.doubtful_window = 0
        publication = result.publication
        named = flow.named
        pending: int = result.confirmations_pending
        if named is not None and publication is None:
            pending = 1  # what no durable queue took is answered, too, when the store knows that it was sent
        entry = flow.add(sequences[0], sequences[-1], len(sequences), pending)
        if pending == 0:
            return
        self._by_token[token] = (flow, entry)
        entry.received_ms = batch.received_ms
        if named is None:
            return
        noted = named.row_of(entry.first, entry.last)
        if publication is None:
            self.publisher.note(noted, token)
        else:
            # One commit for both. The messages without their row would come twice after a crash, the row without
            # them never.
            entry.publication = publication
            publication.session_rows = [noted]

    def _publish_direct(self, event: PublishesReceived, wall_ms: int) -> None:
        """Publish direct messages, which get no answer; refused ones are counted."""
        rows = [row for row in range(len(event.topics)) if event.to_queue or not self._problem_of(event.topics[row])]
        if len(rows) < len(event.topics):
            self._counters.count(self._counters.dropped, DIRECT_REFUSED, len(event.topics) - len(rows))
            if not rows:
                return
        batch = self._batch(event, 0, len(event.topics), AT_MOST_ONCE, wall_ms, False)
        if len(rows) < batch.count:
            batch = batch.select(rows)
        if self.publisher.publish(batch, 0).refusal != ADMITTED and batch.count > 1:
            for row in range(batch.count):
                self.publisher.publish(batch.select([row]), 0)

    def _batch(
        self, event: PublishesReceived, start: int, stop: int, qos: int, wall_ms: int, is_doubtful: bool
    ) -> MessageBatch:
        whole = start == 0 and stop == len(event.payloads)
        topics = event.topics if whole else event.topics[start:stop]
        payloads = event.payloads if whole else event.payloads[start:stop]
        headers: list[Headers | None] | None = None
        if event.has_headers:
            headers = event.headers if whole else event.headers[start:stop]
        if event.to_queue:
            topics = [queue_topic(name) for name in topics]
        first = topics[0]
        is_one = topics.count(first) == len(topics)
        return MessageBatch(
            topic=first if is_one else "",
            topics=None if is_one else topics,
            payloads=payloads,
            headers=headers,
            qos=qos,
            retain=False,
            publisher=self.client,
            received_ms=wall_ms,
            payload_bytes=event.payload_bytes if whole else sum([len(payload) for payload in payloads]),
            possible_duplicate=is_doubtful,
        )

    def _problem_of(self, topic: str) -> str:
        """Return why a topic cannot be published to, or nothing."""
        problem = self._known_topics.get(topic)
        if problem is None:
            problem = topic_problem(topic)
            if len(topic) <= TOPIC_CACHED_BYTES_MAX:
                if len(self._known_topics) >= TOPICS_KNOWN_MAX:
                    self._known_topics.clear()
                self._known_topics[topic] = problem
        return problem

    # --- answers ---

    def confirmed(self, token: int, refusal: str = "", wall_ms: int = 0) -> None:
        """Note that a publish is safe or, with a refusal, could not be stored."""
        found = self._by_token.get(token)
        if found is None:
            return
        flow, entry = found
        entry.pending -= 1
        if refusal:
            entry.code, entry.text = codes.NOT_STORED, refusal
        if entry.pending:
            return
        del self._by_token[token]
        if entry.code == codes.NONE and entry.received_ms:
            self._counters.confirmations.observe(entry.received_ms, wall_ms, entry.count)
        if self.flows.get(flow.flow_id) is not flow:
            return
        before = flow.unanswered_count
        flow.advance()
        self.has_news = self.has_news or flow.has_news
        self.unanswered_count += flow.unanswered_count - before

    def acks(self) -> list[PubAck]:
        """Return the answers that are due."""
        due: list[PubAck] = []
        self.has_news = False
        for flow in self.flows.values():
            if flow.has_news:
                flow.has_news = False
                refusals, flow.refusals = flow.refusals, []
                while len(refusals) > RANGES_MAX:
                    part, refusals = refusals[:RANGES_MAX], refusals[RANGES_MAX:]
                    due.append(PubAck(flow.flow_id, part[-1].last, flow.sequence_max, part))
                due.append(PubAck(flow.flow_id, flow.answered_through, flow.sequence_max, refusals))
        return due


def _check_sequences(flow: PublisherFlow, sequences: list[int]) -> None:
    """Raise FlowBroken unless the sequences ascend, behind those before, and lie within the window."""
    last = flow.received_through
    for sequence in sequences:
        if sequence <= last:
            text = f"sequence {sequence} behind {last}; they ascend"
            raise FlowBroken(codes.SEQUENCE_NOT_ASCENDING, text)
        last = sequence
    if last > flow.sequence_max:
        raise FlowBroken(codes.WINDOW_EXCEEDED, f"sequence {last}; at most {flow.sequence_max} may be sent now")
    flow.received_through = last


def _hash_keys(column: list[Headers | None]) -> None:
    """Hash the partition keys. Not in the codec: its other user, the client library, has no need of hashes."""
    for headers in column:
        if headers is not None and headers.partition_key is not None:
            headers.key_hash = key_hash(headers.partition_key)


def topic_problem(topic: str) -> str:
    """Return why a topic is invalid for publishing, or an empty text."""
    try:
        check_published_topic(topic)
    except TopicError as error:
        return str(error)
    return ""
