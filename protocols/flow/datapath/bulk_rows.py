"""Convert between batches and columns: the rows of a range read to ROWS, the rows of a STAGE to batches.

Flow: columns. A column without a value in any row is left out: its rows have no value, or 0, or 4 as priority.
"""

from typing import Final

from sluicegate.actors.messages.readers import RangeChunk
from sluicegate.messaging.bulk.range_reads import RangeRun
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, PRIORITY_MAX, TIME_MS_MAX, Headers, UserPropertyValue
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.topics.syntax import queue_topic
from sluicegate.protocols.flow.codec import columns as c
from sluicegate.protocols.flow.codec.codes import MALFORMED, TOPIC_INVALID, PeerViolation
from sluicegate.protocols.flow.codec.columns import Columns, ColumnWriter, counts_of, cut_values
from sluicegate.protocols.flow.codec.frames.publish import AS_DIRECT, HEADER_FLAGS, flags_of, headers_of
from sluicegate.protocols.flow.codec.frames.rows import write_rows
from sluicegate.protocols.flow.codec.frames.stage import StageRows
from sluicegate.protocols.flow.codec.properties import ENTRIES_MAX, property_text, property_value
from sluicegate.protocols.flow.datapath.publishing import topic_problem

_OF_BATCHES: Final = c.SEQUENCE | c.TOPIC | c.PAYLOAD | c.RECEIVED_MS | c.PUBLISHER


def encode_chunk(flow_id: int, number: int, chunk: RangeChunk, wanted: int, *, is_last: bool) -> bytes:
    """Return the ROWS of a chunk, with those of the wanted columns that say something."""
    out = ColumnWriter()
    count = 0
    for run in chunk.runs:
        count += run.stop_row - run.start_row
    if count:
        if wanted & _OF_BATCHES:
            _put_what_batches_say(out, chunk.runs, wanted)
        headers = _headers_of(chunk.runs) if wanted & ~_OF_BATCHES else None
        if headers is not None:
            _put_what_headers_say(out, chunk.runs, headers, wanted)
        elif wanted & c.FLAGS:
            _put_flags(out, chunk.runs, None)
    return write_rows(
        flow_id,
        number,
        first=chunk.first,
        next_sequence=chunk.next_sequence,
        end_readable=chunk.synced_end,
        partition=chunk.partition_number,
        is_last=is_last,
        gaps=[(gap.first, gap.end, gap.reason) for gap in chunk.gaps],
        count=count,
        columns=out.columns,
        data=out.encoded(),
    )


def _put_what_batches_say(out: ColumnWriter, runs: list[RangeRun], wanted: int) -> None:
    """Put the columns that are there for whole batches: no step of Python for each row."""
    sequences: list[int] = []
    topics: list[bytes] = []
    payloads: list[bytes] = []
    received_ms: list[int] = []
    publishers: list[bytes] = []
    for run in runs:
        batch, start, stop = run.batch, run.start_row, run.stop_row
        count = stop - start
        whole = count == batch.count
        if wanted & c.SEQUENCE:
            sequences += range(run.first_sequence, run.first_sequence + count)
        if wanted & c.TOPIC:
            if batch.topics is None:
                topics += [batch.topic.encode("utf-8")] * count
            else:
                topics += [topic.encode("utf-8") for topic in batch.topics[start:stop]]
        if wanted & c.PAYLOAD:
            payloads += batch.payloads() if whole else batch.payloads()[start:stop]
        if wanted & c.RECEIVED_MS:
            received_ms += [batch.received_ms] * count
        if wanted & c.PUBLISHER:
            publishers += [batch.publisher.encode("utf-8")] * count
    if sequences:
        out.put_numbers(c.SEQUENCE, sequences)
    if topics:
        out.put_values(c.TOPIC, topics)
    if payloads:
        out.put_values(c.PAYLOAD, payloads)
    if received_ms:
        out.put_numbers(c.RECEIVED_MS, received_ms)
    if publishers:
        out.put_values(c.PUBLISHER, publishers)


def _headers_of(runs: list[RangeRun]) -> list[Headers | None] | None:
    """Return the headers of all rows, or None when no batch has any."""
    found: list[Headers | None] = []
    some = False
    for run in runs:
        headers = run.batch.headers()
        if headers is None:
            found += [None] * (run.stop_row - run.start_row)
        else:
            some = True
            found += headers[run.start_row : run.stop_row]
    return found if some else None


def _put_what_headers_say(out: ColumnWriter, runs: list[RangeRun], headers: list[Headers | None], wanted: int) -> None:
    if wanted & c.PARTITION_KEY:
        _put_texts(out, c.PARTITION_KEY, [None if each is None else each.partition_key for each in headers])
    if wanted & c.PRIORITY:
        priorities = bytes([PRIORITY_DEFAULT if each is None else each.priority for each in headers])
        if priorities.count(PRIORITY_DEFAULT) < len(priorities):
            out.put(c.PRIORITY, [priorities])
    if wanted & c.FLAGS:
        _put_flags(out, runs, headers)
    if wanted & c.EXPIRY_MS:
        _put_times(out, c.EXPIRY_MS, [0 if each is None else each.expires_at_ms for each in headers])
    if wanted & c.TIMESTAMP_MS:
        _put_times(out, c.TIMESTAMP_MS, [0 if each is None else each.timestamp_ms for each in headers])
    if wanted & c.MESSAGE_ID:
        _put_texts(out, c.MESSAGE_ID, [None if each is None else each.message_id for each in headers])
    if wanted & c.CORRELATION:
        correlations = [None if each is None else each.correlation for each in headers]
        if correlations.count(None) < len(correlations):
            out.put_optional(c.CORRELATION, correlations)
    if wanted & c.REPLY_TO:
        _put_texts(out, c.REPLY_TO, [None if each is None else each.reply_to for each in headers])
    if wanted & c.CONTENT_TYPE:
        _put_texts(out, c.CONTENT_TYPE, [None if each is None else each.content_type for each in headers])
    if wanted & c.PROPERTIES:
        _put_properties(out, headers)


def _put_flags(out: ColumnWriter, runs: list[RangeRun], headers: list[Headers | None] | None) -> None:
    flags = bytearray()
    for run in runs:
        flags += bytes([AS_DIRECT if run.batch.qos == AT_MOST_ONCE else 0]) * (run.stop_row - run.start_row)
    if headers is not None:
        for row, each in enumerate(headers):
            if each is not None:
                flags[row] |= flags_of(each)
    if any(flags):
        out.put(c.FLAGS, [bytes(flags)])


def _put_times(out: ColumnWriter, column: int, times_ms: list[int]) -> None:
    if any(times_ms):
        out.put_numbers(column, times_ms)


def _put_texts(out: ColumnWriter, column: int, texts: list[str | None]) -> None:
    if texts.count(None) < len(texts):
        out.put_optional(column, [None if each is None else each.encode("utf-8") for each in texts])


def _put_properties(out: ColumnWriter, headers: list[Headers | None]) -> None:
    counts: list[int] = []
    names: list[bytes] = []
    types = bytearray()
    values: list[bytes] = []
    for each in headers:
        before = len(names)
        if each is not None:
            for name, value in [*(each.user_properties or []), *(each.dead.properties() if each.dead else [])]:
                kind, text = property_text(value)
                names.append(name.encode("utf-8"))
                types.append(kind)
                values.append(text)
        counts.append(len(names) - before)
    if names:
        out.put_map(c.PROPERTIES, counts, names, bytes(types), values)


# The rows of a STAGE, brought into batches.
#
# Flow: staged publishing. A row has the fields of a PUBLISH. All of it is checked here, before anything is kept:
# whether the queues accept the rows is checked at the commit.


BATCH_ROWS_MAX: Final = 500  # of one batch: numbered and delivered by a queue at once

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
        headers = _staged_headers(columns, wall_ms) if given & ~REQUIRED else None
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


def _staged_headers(columns: Columns, wall_ms: int) -> list[Headers | None]:
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
