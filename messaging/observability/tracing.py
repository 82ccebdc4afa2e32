"""Select the messages to trace, and record when they arrive and when the store has them.

A message is traced by its trace context: each place that the message passes reads the context and decides alike, so
waiting messages carry no tracing state, in memory or on disk. The checks are made for a batch; a batch without headers
costs one look at its header column.

See also: records of queues and consumers (`messaging.partitions.trace`), and spans
(`gateway.observability.trace_spans`).
"""

from collections.abc import Mapping
from typing import Final, final

import xxhash

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers, NativeFields, marked
from sluicegate.messaging.message.refusals import ADMITTED, REFUSAL_TEXTS
from sluicegate.messaging.observability.trace_context import (
    LOW_HALF_AT,
    SPAN_ID_AT,
    TRACEPARENT,
    TRACEPARENT_CHARS,
    TRACESTATE,
    TraceContext,
    context_of,
    traceparent_in,
)
from sluicegate.messaging.observability.trace_records import PublishTraced, SpoolTraced, TraceBuffer
from sluicegate.messaging.topics.syntax import TOPIC_REMEMBERED_CHARACTERS_MAX, TopicFilter, matches

TOPICS_CACHED_MAX: Final = 4096  # whether they are traced; the cache goes when it is full
_IDS: Final = 1 << 64
_SAMPLED_DIGITS: Final = "13579bdf"  # the last digit of the flags: bit 0 is `sampled`
_BEHIND_ALL_DIGITS: Final = "g"


@final
class TraceSampler:
    """Samples traces with the names and the meaning of OpenTelemetry's `traceidratio` and `parentbased_traceidratio`.

    With `is_parent_based` the application that began a trace has decided. Otherwise, and for traces that begin here, a
    share of `ratio` is sampled by trace id, so that all parties with the same ratio sample the same traces.
    """

    def __init__(self, *, ratio: float, is_parent_based: bool, begins: bool, seed: int) -> None:
        self.begins = begins and ratio > 0.0  # messages without a context get one
        self.is_parent_based = is_parent_based
        self._bound = round(ratio * _IDS)  # of the lower half of a trace id
        self._bound_digits = f"{self._bound:016x}" if self._bound < _IDS else _BEHIND_ALL_DIGITS
        self._gap_max = 2.0 / ratio - 2.0 if ratio > 0.0 else 0.0
        self._gap_rest = 0.0  # how much the last gap exceeded the messages it skipped
        self._seed = seed
        self._drawn = 0
        self._gap = self._next_gap()

    def takes(self, traceparent: str) -> bool:
        """Return whether the messages of a trace are traced here, if this text is a trace context at all.

        One character decides, or sixteen: most messages are not sampled, and a full parse takes ten times as long.
        """
        if self.is_parent_based:
            return traceparent[TRACEPARENT_CHARS - 1] in _SAMPLED_DIGITS
        return traceparent[LOW_HALF_AT : SPAN_ID_AT - 1] < self._bound_digits

    def id(self) -> int:
        """Return a new span id."""
        self._drawn += 1
        drawn: int = xxhash.xxh3_64_intdigest(self._drawn.to_bytes(8, "big"), self._seed)
        return drawn or 1

    def new_context(self) -> TraceContext:
        """Return the context of a new trace."""
        low = self.id() % self._bound
        return TraceContext(f"{self.id():016x}{low or 1:016x}", f"{self.id():016x}", is_sampled=True)

    def next_to_begin(self, start: int, count: int) -> int:
        """Return the first row from `start` that begins a trace; `count` when none does."""
        row = start + self._gap
        if row >= count:
            self._gap = row - count
            return count
        self._gap = self._next_gap()
        return row

    def _next_gap(self) -> int:
        """Return how many messages to skip: evenly distributed, so that the ratio is met on average."""
        gap = self._gap_rest + self._gap_max * (self.id() / _IDS)
        whole = int(gap)
        self._gap_rest = gap - whole
        return whole


@final
class Tracing:
    """Traces of one message VPN; that of the node, with an empty VPN name, is for the spool."""

    def __init__(
        self,
        buffer: TraceBuffer,
        sampler: TraceSampler,
        *,
        topics: list[TopicFilter],
        queues: list[TopicFilter],
        natives: Mapping[int, NativeFields],
        vpn: str = "",
    ) -> None:
        self.buffer = buffer
        self.vpn = vpn
        self._sampler = sampler
        self._topics = topics  # of traced messages; empty: all
        self._queues = queues  # whose deliveries are recorded; empty: all
        self._natives = natives
        self._wanted: dict[str, bool] = {}  # by topic

    def of(self, vpn: str) -> "Tracing":
        """Return the same settings for a message VPN."""
        return Tracing(
            self.buffer, self._sampler, topics=self._topics, queues=self._queues, natives=self._natives, vpn=vpn
        )

    def wants_queue(self, name: str) -> bool:
        """Return whether deliveries of a queue are recorded."""
        return not self._queues or any(matches(each, name) for each in self._queues)

    def new_span_id(self) -> int:
        """Return an id for a span that has children."""
        return self._sampler.id()

    def context(self, batch: MessageBatch, headers: Headers | None, row: int) -> TraceContext | None:
        """Return the context of a row that is traced, None for others."""
        if headers is None or headers.user_properties is None:
            return None
        text = traceparent_in(headers)
        if not text or not self._sampler.takes(text):
            return None
        return context_of(headers) if not self._topics or self._wants(batch.topic_of(row)) else None

    # --- publishing ---

    def begin(self, batch: MessageBatch, publishes: list[PublishTraced]) -> MessageBatch:
        """Record the traced messages of a batch in `publishes`, and give some messages without a context one.

        Return the batch, or a new one if it has changed.
        """
        column = batch.headers()
        if column is not None:
            self._note_publishes(batch, column, publishes, "")
        if not self._sampler.begins or not batch.publisher:  # without a publisher it is a message of the broker itself
            return batch
        count = batch.count
        row = self._sampler.next_to_begin(0, count)
        changed: list[Headers | None] | None = None
        while row < count:
            headers = batch.headers_of(row)
            if not _brings_context(headers) and (not self._topics or self._wants(batch.topic_of(row))):
                context = self._sampler.new_context()
                if changed is None:
                    changed = [None] * count if column is None else list(column)
                changed[row] = marked(
                    headers, [(TRACEPARENT, context.traceparent())], self._natives, without=(TRACESTATE,)
                )
                record = self._published(context, batch, row, is_begun=True)
                publishes.append(record)
            row = self._sampler.next_to_begin(row + 1, count)
        return batch if changed is None else batch.with_headers(changed)

    def published(self, publishes: list[PublishTraced], refusal: int, *, is_routed: bool) -> None:
        """Keep the records of a batch, with its outcome."""
        for record in publishes:
            record.refusal = "" if refusal == ADMITTED else REFUSAL_TEXTS[refusal]
            record.is_routed = is_routed
            self.buffer.add(record)

    def arrived(self, batch: MessageBatch, neighbor: str) -> None:
        """Record the traced messages of a batch that came from a neighbor broker."""
        column = batch.headers()
        if column is not None:
            arrivals: list[PublishTraced] = []
            self._note_publishes(batch, column, arrivals, neighbor)
            for record in arrivals:
                self.buffer.add(record)

    def _note_publishes(
        self, batch: MessageBatch, column: list[Headers | None], publishes: list[PublishTraced], neighbor: str
    ) -> None:
        record: PublishTraced | None = None
        for row in range(batch.count):
            context = self.context(batch, column[row], row)
            if context is None:
                continue
            if record is None or record.context.traceparent() != context.traceparent():
                record = self._published(context, batch, row, is_begun=False, neighbor=neighbor)
                publishes.append(record)
            else:
                record.add(len(batch.payloads()[row]))

    def _published(
        self, context: TraceContext, batch: MessageBatch, row: int, *, is_begun: bool, neighbor: str = ""
    ) -> PublishTraced:
        return PublishTraced(
            context,
            vpn=self.vpn,
            topic=batch.topic_of(row),
            client=batch.publisher,
            qos=batch.qos,
            received_ms=batch.received_ms,
            payload_bytes=len(batch.payloads()[row]),
            is_begun=is_begun,
            neighbor=neighbor,
        )

    def _wants(self, topic: str) -> bool:
        wanted = self._wanted.get(topic)
        if wanted is None:
            wanted = any(matches(each, topic) for each in self._topics)
            if len(topic) > TOPIC_REMEMBERED_CHARACTERS_MAX:
                return wanted
            if len(self._wanted) >= TOPICS_CACHED_MAX:
                self._wanted.clear()
            self._wanted[topic] = wanted
        return wanted

    # --- the store ---

    def stored(self, batch: MessageBatch, outcome: str, wall_ms: int) -> None:
        """Record the traced messages of a batch whose outcome in the store is known."""
        column = batch.headers()
        if column is None:
            return
        record: SpoolTraced | None = None
        for row in range(batch.count):
            context = self.context(batch, column[row], row)
            if context is None:
                continue
            if record is None or record.context.traceparent() != context.traceparent():
                record = SpoolTraced(context, received_ms=batch.received_ms, done_ms=wall_ms, outcome=outcome)
                self.buffer.add(record)
            else:
                record.count += 1


def _brings_context(headers: Headers | None) -> bool:
    return headers is not None and context_of(headers) is not None
