"""What a range read has found, brought into the columns of a ROWS.

Flow: columns. A column in which no row says anything is left out: its rows have no value, or 0, or 4 as priority.
"""

from typing import Final

from sluicegate.actors.messages.readers import RangeChunk
from sluicegate.messaging.bulk.range_reads import RangeRun
from sluicegate.messaging.message.batch import AT_MOST_ONCE
from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, Headers
from sluicegate.protocols.flow.codec import columns as c
from sluicegate.protocols.flow.codec.columns import ColumnWriter
from sluicegate.protocols.flow.codec.frames.publish import AS_DIRECT, flags_of
from sluicegate.protocols.flow.codec.frames.rows import write_rows
from sluicegate.protocols.flow.codec.property_texts import property_text

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
