"""The unit that travels between actors: a run of messages, stored in columns.

One object per message would give the garbage collector a million tracked objects for every million waiting messages. A
batch is a handful of objects, whatever its length: payloads are bytes, topics are shared strings, and the rare
attributes are in a column that is absent when no row has any.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.usage import (
    MEMORY_MESSAGE_BYTES,
    STORED_MESSAGE_BYTES,
    headers_bytes,
    text_bytes,
    topics_bytes,
)

AT_MOST_ONCE: Final = 0  # a direct message: never spooled, never acknowledged
AT_LEAST_ONCE: Final = 1  # a guaranteed message
EXACTLY_ONCE: Final = 2  # a guaranteed message whose publisher asked for MQTT's QoS 2

BYTES_PER_ROW: Final = 48  # header of a bytes object and its slot in the column
BYTES_PER_BATCH: Final = 640  # the batch, its columns, its segment and its publication


class UnequalColumns(ValueError):
    """Columns of one batch have different numbers of rows: a mistake of the caller."""


# The class keeps its last freed instance for the next one: messages that come alone make one each, and allocation costs
# some 250 instructions more.
@mypyc_attr(free_list_len=1)
class MessageBatch:
    """A run of messages of one publisher, in the order published. Immutable once built, except `encodings`.

    Invariants: `count >= 1`; a column that is present has `count` rows; `topic` is the topic of every row when `topics`
    is None, and empty otherwise.
    """

    def __init__(
        self,
        *,
        topic: str,
        topics: list[str] | None,
        payloads: list[bytes],
        headers: list[Headers | None] | None,
        qos: i64,
        retain: bool,
        publisher: str,
        received_ms: i64,
        payload_bytes: i64,
        possible_duplicate: bool = False,
        topic_bytes: i64 = -1,
    ) -> None:
        """Take over the columns. Raises UnequalColumns, so that no incomplete message reaches a queue or the disk."""
        self.count: i64 = len(payloads)
        if topics is not None and len(topics) != self.count:
            raise UnequalColumns(f"{self.count} payloads with {len(topics)} topics")
        if headers is not None and len(headers) != self.count:
            raise UnequalColumns(f"{self.count} payloads with {len(headers)} rows of headers")
        self.topic = topic
        self.topics = topics
        self._payloads = payloads
        self._headers = headers
        self.qos = qos  # AT_MOST_ONCE, AT_LEAST_ONCE or EXACTLY_ONCE, as published
        self.retain = retain  # every row was published with MQTT's RETAIN flag
        self.publisher = publisher  # client id, for No Local and for the message's origin
        self.received_ms = received_ms  # wall clock
        self.payload_bytes = payload_bytes
        # The publisher sent them before, and it is unknown whether they were delivered then: a crash came in between.
        self.possible_duplicate = possible_duplicate
        # Wire forms shared by every subscriber of one dialect. The key belongs to the protocol; the value is its bytes.
        self.encodings: dict[int, bytes] | None = None
        self._topics_bytes: i64 = topic_bytes  # the usage of the topic, or of all topics; -1: not computed yet
        self._memory_bytes: i64 = 0  # 0: not computed yet
        self._content_bytes: i64 = -1  # -1: not computed yet

    def payloads(self) -> list[bytes]:
        """Return the payload column. Callers must not change it."""
        return self._payloads

    def headers(self) -> list[Headers | None] | None:
        """Return the header column, or None when no row has any. Callers must not change it."""
        return self._headers

    def topic_of(self, row: int) -> str:
        """Return the topic of one row."""
        topics = self.topics
        return self.topic if topics is None else topics[row]

    def headers_of(self, row: int) -> Headers | None:
        """Return the headers of one row, None when it has none."""
        column = self.headers()
        return None if column is None else column[row]

    def content_bytes(self) -> i64:
        """Return the size of the messages themselves: payloads, topics and headers."""
        if self._content_bytes < 0:
            of_topics = self._usage_of_topics()
            self._content_bytes = self.payload_bytes + (of_topics * self.count if self.topics is None else of_topics)
            headers = self.headers()
            if headers is not None:
                self._content_bytes += headers_bytes(headers)
        return self._content_bytes

    def usage_bytes(self, *, durable: bool) -> i64:
        """Return the usage of the messages against the limits of a durable queue, or of a queue that is in memory only.

        The usage is the size of the content plus a share for each message (messaging.message.usage).
        """
        return self.content_bytes() + self.count * (STORED_MESSAGE_BYTES if durable else MEMORY_MESSAGE_BYTES)

    def usage_bytes_of(self, row: int, *, durable: bool) -> i64:
        """Return the usage of one message."""
        size = len(self.payloads()[row]) + text_bytes(self.topic_of(row))
        headers = self.headers_of(row)
        if headers is not None:
            size += headers.memory_bytes()
        return size + (STORED_MESSAGE_BYTES if durable else MEMORY_MESSAGE_BYTES)

    def memory_bytes(self) -> i64:
        """Return an estimate of the memory of the batch: payloads, topics, headers, their objects, and its own."""
        if self._memory_bytes == 0:
            self._memory_bytes = self.payload_bytes + BYTES_PER_ROW * self.count + BYTES_PER_BATCH
            self._memory_bytes += self._usage_of_topics()
            if self._headers is not None:
                self._memory_bytes += _memory_of(self._headers)
        return self._memory_bytes

    def _usage_of_topics(self) -> i64:
        if self._topics_bytes < 0:
            self._topics_bytes = topics_bytes(self.topic, self.topics, 1)
        return self._topics_bytes

    def select(self, rows: list[int]) -> "MessageBatch":
        """Return a batch of the given rows, in the given order. Payloads are shared, not copied."""
        payloads = self.payloads()
        headers = self.headers()
        topics = self.topics
        chosen = [payloads[row] for row in rows]
        return MessageBatch(
            topic=self.topic,
            topics=None if topics is None else [topics[row] for row in rows],
            payloads=chosen,
            headers=None if headers is None else [headers[row] for row in rows],
            qos=self.qos,
            retain=self.retain,
            publisher=self.publisher,
            received_ms=self.received_ms,
            payload_bytes=sum([len(payload) for payload in chosen]),
            possible_duplicate=self.possible_duplicate,
        )

    def with_headers(self, headers: list[Headers | None]) -> "MessageBatch":
        """Return the same messages with another header column. The other columns are shared, not copied."""
        return MessageBatch(
            topic=self.topic,
            topics=self.topics,
            payloads=self.payloads(),
            headers=headers,
            qos=self.qos,
            retain=self.retain,
            publisher=self.publisher,
            received_ms=self.received_ms,
            payload_bytes=self.payload_bytes,
            possible_duplicate=self.possible_duplicate,
        )

    def arriving(self, received_ms: int) -> "MessageBatch":
        """Return the same messages with another time of arrival. Columns are shared, not copied."""
        return MessageBatch(
            topic=self.topic,
            topics=self.topics,
            payloads=self.payloads(),
            headers=self.headers(),
            qos=self.qos,
            retain=self.retain,
            publisher=self.publisher,
            received_ms=received_ms,
            payload_bytes=self.payload_bytes,
            possible_duplicate=self.possible_duplicate,
        )

    def __repr__(self) -> str:
        where = self.topic if self.topics is None else f"{len(set(self.topics))} topics"
        return f"MessageBatch({self.count} on {where!r}, qos={self.qos}, {self.payload_bytes} bytes)"


def _memory_of(column: list[Headers | None]) -> i64:
    """Return an estimate of the memory of headers. Rows that follow each other often share them."""
    size: i64 = 0
    last: Headers | None = None
    for headers in column:
        if headers is not None and headers is not last:
            size += headers.memory_bytes()
            last = headers
    return size
