"""The rows of a STAGE, brought into batches.

Flow: staged publishing. A row says what a PUBLISH could say. All of it is looked at here, before anything is kept:
whether rows may be published where they want to go depends on the queues, and is asked when they are committed.
"""

from typing import Final

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, PRIORITY_MAX, TIME_MS_MAX, Headers, UserPropertyValue
from sluicegate.messaging.message.partitioning import key_hash
from sluicegate.messaging.topics.syntax import queue_topic
from sluicegate.protocols.flow.codec import columns as c
from sluicegate.protocols.flow.codec.codes import MALFORMED, TOPIC_INVALID
from sluicegate.protocols.flow.codec.columns import Columns, counts_of, cut_values
from sluicegate.protocols.flow.codec.errors import PeerViolation
from sluicegate.protocols.flow.codec.frames.publish import HEADER_FLAGS, headers_of
from sluicegate.protocols.flow.codec.frames.stage import StageRows
from sluicegate.protocols.flow.codec.properties import ENTRIES_MAX
from sluicegate.protocols.flow.codec.property_texts import property_value
from sluicegate.protocols.flow.datapath.publishing import topic_problem

BATCH_ROWS_MAX: Final = 500  # of one batch: what a queue numbers and delivers in one go

REQUIRED: Final = c.TOPIC | c.PAYLOAD
STAGEABLE: Final = (
    REQUIRED
    | (c.PARTITION_KEY | c.PRIORITY | c.FLAGS | c.EXPIRY_MS | c.TIMESTAMP_MS | c.MESSAGE_ID | c.CORRELATION)
    | (c.REPLY_TO | c.CONTENT_TYPE | c.PROPERTIES)
)


def batches_of(stage: StageRows, publisher: str, wall_ms: int) -> list[MessageBatch]:
    """Return the rows as batches, in their order. Raises PeerViolation; the text names the row."""
    columns = stage.columns
    given = columns.columns
    if given & REQUIRED != REQUIRED or given & ~STAGEABLE:
        raise PeerViolation(MALFORMED, f"STAGE with columns {given:#06x}; required {REQUIRED:#06x} of {STAGEABLE:#06x}")
    try:
        topics = _topics_of(columns.values(c.TOPIC), to_queues=stage.to_queues)
        headers = _headers_of(columns, wall_ms) if given & ~REQUIRED else None
    except UnicodeDecodeError as error:
        raise PeerViolation(MALFORMED, f"a text in the columns is not UTF-8: {error.reason}") from None
    payloads = columns.values(c.PAYLOAD)
    batches: list[MessageBatch] = []
    for start in range(0, columns.count, BATCH_ROWS_MAX):
        stop = min(start + BATCH_ROWS_MAX, columns.count)
        part = topics[start:stop]
        is_one = part.count(part[0]) == len(part)
        chosen = payloads[start:stop]
        batches.append(
            MessageBatch(
                topic=part[0] if is_one else "",
                topics=None if is_one else part,
                payloads=chosen,
                headers=None if headers is None else headers[start:stop],
                qos=AT_LEAST_ONCE,
                retain=False,
                publisher=publisher,
                received_ms=wall_ms,
                payload_bytes=sum([len(payload) for payload in chosen]),
            )
        )
    return batches


def _topics_of(values: list[bytes], *, to_queues: bool) -> list[str]:
    """Return the topics of all rows; those alike are one text."""
    known: dict[bytes, str] = {}
    for value in values:
        if value not in known:
            topic = value.decode("utf-8")
            problem = "" if to_queues else topic_problem(topic)
            if problem:
                raise PeerViolation(TOPIC_INVALID, f"row {values.index(value)}: {problem}")
            known[value] = queue_topic(topic) if to_queues else topic
    return [known[value] for value in values]


def _headers_of(columns: Columns, wall_ms: int) -> list[Headers | None]:
    given = columns.columns
    count = columns.count
    keys = columns.optional_values(c.PARTITION_KEY) if given & c.PARTITION_KEY else None
    priorities = columns.numbers(c.PRIORITY) if given & c.PRIORITY else None
    flags = columns.numbers(c.FLAGS) if given & c.FLAGS else None
    found: list[Headers] = []
    for row in range(count):
        priority = PRIORITY_DEFAULT if priorities is None else priorities[row]
        row_flags = 0 if flags is None else flags[row]
        if priority > PRIORITY_MAX or row_flags & ~HEADER_FLAGS:
            raise PeerViolation(MALFORMED, f"row {row} with priority {priority}, flags {row_flags:#04x}")
        headers = headers_of((None if keys is None else keys[row]) or b"", priority, row_flags)
        if headers.partition_key is not None:
            headers.key_hash = key_hash(headers.partition_key)
        found.append(headers)
    _set_times(columns, found, wall_ms)
    _set_texts(columns, found)
    if given & c.PROPERTIES:
        _set_properties(columns, found)
    column: list[Headers | None] = []
    column += found
    return column


def _set_times(columns: Columns, found: list[Headers], wall_ms: int) -> None:
    if columns.columns & c.EXPIRY_MS:
        for row, ttl_ms in enumerate(columns.numbers(c.EXPIRY_MS)):
            if ttl_ms > 0:
                found[row].expires_at_ms = wall_ms + min(ttl_ms, TIME_MS_MAX)
    if columns.columns & c.TIMESTAMP_MS:
        for row, timestamp_ms in enumerate(columns.numbers(c.TIMESTAMP_MS)):
            found[row].timestamp_ms = min(max(0, timestamp_ms), TIME_MS_MAX)


def _set_texts(columns: Columns, found: list[Headers]) -> None:
    given = columns.columns
    if given & c.MESSAGE_ID:
        for row, value in enumerate(columns.optional_values(c.MESSAGE_ID)):
            found[row].message_id = None if value is None else value.decode("utf-8")
    if given & c.CORRELATION:
        for row, value in enumerate(columns.optional_values(c.CORRELATION)):
            found[row].correlation = value
    if given & c.REPLY_TO:
        for row, value in enumerate(columns.optional_values(c.REPLY_TO)):
            found[row].reply_to = None if value is None else value.decode("utf-8")
    if given & c.CONTENT_TYPE:
        for row, value in enumerate(columns.optional_values(c.CONTENT_TYPE)):
            found[row].content_type = None if value is None else value.decode("utf-8")


def _set_properties(columns: Columns, found: list[Headers]) -> None:
    offsets, name_offsets, names_data, types, value_offsets, values_data = columns.buffers(c.PROPERTIES)
    names = cut_values(name_offsets, names_data)
    texts = cut_values(value_offsets, values_data)
    at = 0
    for row, count in enumerate(counts_of(offsets)):
        if count > ENTRIES_MAX:
            raise PeerViolation(MALFORMED, f"row {row} with {count} properties; at most {ENTRIES_MAX} are taken")
        if count:
            user: list[tuple[str, UserPropertyValue]] = []
            for entry in range(at, at + count):
                user.append((names[entry].decode("utf-8"), property_value(types[entry], texts[entry])))
            found[row].user_properties = user
        at += count
