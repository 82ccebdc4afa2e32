"""A batch at rest: the columns of a messaging.message.batch.MessageBatch, one after the other.

    offset  type    field
    0       u8      format version: 2, or 3 with flag 8, or 4 with link targets in the headers
    1       u8      flags: 1 topic table, 2 headers, 4 retain, 8 possible duplicate; the others are 0
    2       u8      qos
    3       u8      0
    4       u32     count of rows, at least 1
    8       i64     received_ms
    16      u32     payload bytes, all rows together
    20      u32     publisher bytes
    24      u32     topic bytes: one topic, or the topic table
    28      u32     headers bytes, 0 without flag 2
    32              publisher, UTF-8
                    topic, UTF-8; or the topic table
                    u32[count] length of each payload
                    payloads, joined
                    headers column, see `headers`

    topic table     u32 count of distinct topics, u32[distinct] length of each, the topics joined (UTF-8), then the
                    topic of each row as an index: u16[count], or u32[count] beyond 65536 distinct topics

Integers are little-endian. Columns are built and cut with calls that run in C, so a row without headers costs about
four bytes and some tens of nanoseconds (`bench/cores/bench_storage.py`). A table of one topic is written as that
topic, and a headers column without headers is omitted: the decoded rows are equal. A batch has no checksum here,
because it lies inside a sealed record. Version 1 differed in the headers column only, and is still read. Version 2 had
no flag 8, version 3 no link targets; each is written wherever it is enough. See also: journal records (`journal`) and
pages (`page`).
"""

import struct
import sys
from array import array
from itertools import chain
from typing import Final

from sluicegate.messaging.message.batch import EXACTLY_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.records.fields import decode_text, encode_text
from sluicegate.storage.records.headers import HEADERS_WITH_TARGETS, decode_headers, encode_headers

BATCH_FORMAT: Final = 4
BATCH_FORMAT_OLDEST: Final = 1
_FORMAT_WITHOUT_DUPLICATES: Final = 2
_FORMAT_WITH_DUPLICATES: Final = 3

_TOPIC_TABLE: Final = 1
_HEADERS: Final = 2
_RETAIN: Final = 4
_POSSIBLE_DUPLICATE: Final = 8
_FLAGS_KNOWN: Final = 15

_HEAD: Final = struct.Struct("<BBBBIqIIII")
_HEAD_BYTES: Final = 32
_COUNT_OFFSET: Final = 4  # of the count of rows
_U32: Final = struct.Struct("<I")
_BYTES_MAX: Final = 0xFFFF_FFFF
_U16_TOPICS_MAX: Final = 1 << 16
_BIG_ENDIAN: Final = sys.byteorder == "big"
AT_REST: Final = 0xB6  # key of `MessageBatch.encodings`, for whoever keeps what `encode_batch` returns

if array("H").itemsize != 2 or array("I").itemsize != 4 or array("Q").itemsize != 8:
    raise ImportError("the record format needs a platform whose C integers have 2, 4 and 8 bytes")


def encode_batch(batch: MessageBatch) -> bytes:
    """Return the bytes of the whole batch. Raises ValueError when it is too large for one record."""
    kept = None if batch.encodings is None else batch.encodings.get(AT_REST)
    return encode_rows(batch, 0, batch.count) if kept is None else kept


def encode_rows(batch: MessageBatch, start: int, stop: int) -> bytes:
    """Return the bytes of the rows `start` to `stop` (exclusive). Raises ValueError for none, or too many bytes."""
    if not 0 <= start < stop <= batch.count:
        raise ValueError(f"rows {start} to {stop} of a batch of {batch.count}")
    payloads = batch.payloads()
    headers = batch.headers()
    topics = batch.topics
    if stop - start < batch.count:
        payloads = payloads[start:stop]
        headers = None if headers is None else headers[start:stop]
        topics = None if topics is None else topics[start:stop]
    flags = _RETAIN if batch.retain else 0
    version = _FORMAT_WITHOUT_DUPLICATES
    if batch.possible_duplicate:
        flags |= _POSSIBLE_DUPLICATE
        version = _FORMAT_WITH_DUPLICATES
    if len(payloads) == 1:  # a message that came alone: no columns are built for it
        payload_bytes = len(payloads[0])
        lengths = _U32.pack(payload_bytes) if payload_bytes <= _BYTES_MAX else b""  # larger ones are refused below
    else:
        sizes = [len(payload) for payload in payloads]
        payload_bytes = sum(sizes)
        lengths = column_bytes("I", sizes)
    publisher = encode_text(batch.publisher)
    if topics is None:
        topic = encode_text(batch.topic)
    else:
        distinct = list(dict.fromkeys(topics))
        if len(distinct) == 1:
            topic = encode_text(distinct[0])
        else:
            topic = _encode_topic_table(topics, distinct)
            flags |= _TOPIC_TABLE
    attributes = b""
    if headers is not None and any(row is not None for row in headers):
        attributes = encode_headers(headers)
        flags |= _HEADERS
        if any(row is not None and bool(row.link_targets) for row in headers):
            version = HEADERS_WITH_TARGETS
    if (
        payload_bytes > _BYTES_MAX
        or len(publisher) > _BYTES_MAX
        or len(topic) > _BYTES_MAX
        or len(attributes) > _BYTES_MAX
    ):
        raise ValueError(f"a column of more than {_BYTES_MAX} bytes")
    head = _HEAD.pack(
        version,
        flags,
        batch.qos,
        0,
        stop - start,
        batch.received_ms,
        payload_bytes,
        len(publisher),
        len(topic),
        len(attributes),
    )
    return b"".join([head, publisher, topic, lengths, *payloads, attributes])


def decode_batch(data: bytes, offset: int, where: str = "batch") -> tuple[MessageBatch, int]:
    """Return the batch at `offset` and the offset behind it. Raises DamagedRecord and UnsupportedFormat."""
    batch, end, half_count = decode_whole_rows(data, offset, where)
    if half_count:
        raise DamagedRecord(where, f"the batch at byte {offset} has {half_count} messages without headers")
    return batch, end


def decode_whole_rows(data: bytes, offset: int, where: str) -> tuple[MessageBatch, int, int]:
    """Return the batch at `offset`, the offset behind it, and the number of half messages omitted at its end.

    Earlier versions could write a message without its headers after whole ones, although the publisher was told that
    the message is malformed. Raises DamagedRecord and UnsupportedFormat.
    """
    try:
        return _decode(data, offset, where)
    except (IndexError, ValueError, OverflowError, struct.error) as error:
        raise DamagedRecord(where, f"the batch at byte {offset} cannot be read: {error}") from error


def batch_rows(data: bytes, start: int, end: int, where: str) -> int:
    """Return the number of rows of a batch from `start` to `end`; only its head is read.

    Raises DamagedRecord when the head says that it ends elsewhere, and UnsupportedFormat.
    """
    version = data[start]
    if not BATCH_FORMAT_OLDEST <= version <= BATCH_FORMAT:
        raise UnsupportedFormat(version, BATCH_FORMAT, where)
    found_end = batch_end(data, start, where)
    if found_end != end:
        raise DamagedRecord(where, f"the batch at byte {start} ends at {found_end} instead of {end}")
    count: int = _U32.unpack_from(data, start + _COUNT_OFFSET)[0]
    return count


def batch_end(data: bytes, offset: int, where: str) -> int:
    """Return the offset behind the batch at `offset`; only its head must be readable. Raises DamagedRecord."""
    try:
        head = _take_head(data, offset)
    except struct.error as error:
        raise DamagedRecord(where, f"the batch at byte {offset} has no head: {error}") from error
    _, _, _, _, count, _, payload_bytes, publisher_bytes, topic_bytes, headers_bytes = head
    end = offset + _HEAD_BYTES + publisher_bytes + topic_bytes + 4 * count + payload_bytes + headers_bytes
    if end > len(data):
        raise DamagedRecord(where, f"the batch at byte {offset} ends at {end}, behind the record")
    return end


def _take_head(data: bytes, offset: int) -> tuple[int, int, int, int, int, int, int, int, int, int]:
    head: tuple[int, int, int, int, int, int, int, int, int, int] = _HEAD.unpack_from(data, offset)
    return head


def _decode(data: bytes, offset: int, where: str) -> tuple[MessageBatch, int, int]:
    version = data[offset]
    if not BATCH_FORMAT_OLDEST <= version <= BATCH_FORMAT:
        raise UnsupportedFormat(version, BATCH_FORMAT, where)
    head = _take_head(data, offset)
    _, flags, qos, zero, count, received_ms, payload_bytes, publisher_bytes, topic_bytes, headers_bytes = head
    _check_head(flags, qos, zero, count, headers_bytes)
    topic_start = offset + _HEAD_BYTES + publisher_bytes
    lengths_start = topic_start + topic_bytes
    body_start = lengths_start + 4 * count
    headers_start = body_start + payload_bytes
    end = headers_start + headers_bytes
    if end > len(data):
        raise ValueError(f"it needs {end - offset} bytes, {len(data) - offset} are there")
    lengths = take_column("I", data, lengths_start, count) if count > 1 else list(_U32.unpack_from(data, lengths_start))
    payloads = cut(data, body_start, headers_start, lengths)
    topic = ""
    topics: list[str] | None = None
    if flags & _TOPIC_TABLE:
        topics = _decode_topic_table(data, topic_start, lengths_start, count)
    else:
        topic = decode_text(data[topic_start:lengths_start])
    headers: list[Headers | None] | None = None
    half_count = 0
    if flags & _HEADERS:
        headers, headers_end = decode_headers(data, headers_start, end, count, version)
        if headers_end != end:
            raise ValueError(f"its headers end at byte {headers_end} instead of {end}")
        if not headers:
            raise ValueError("a batch without a whole message")
        half_count = count - len(headers)
    if half_count:
        whole = count - half_count
        topics = None if topics is None else topics[:whole]
        payload_bytes -= sum([len(payload) for payload in payloads[whole:]])
        payloads = payloads[:whole]
    batch = MessageBatch(
        topic=topic,
        topics=topics,
        payloads=payloads,
        headers=headers,
        qos=qos,
        retain=flags & _RETAIN != 0,
        publisher=decode_text(data[offset + _HEAD_BYTES : topic_start]),
        received_ms=received_ms,
        payload_bytes=payload_bytes,
        possible_duplicate=flags & _POSSIBLE_DUPLICATE != 0,
    )
    return batch, end, half_count


def _check_head(flags: int, qos: int, zero: int, count: int, headers_bytes: int) -> None:
    if flags & ~_FLAGS_KNOWN or zero:
        raise ValueError(f"unknown flags {flags:#04x} {zero:#04x}")
    if qos > EXACTLY_ONCE:
        raise ValueError(f"quality of service {qos}")
    if count == 0:
        raise ValueError("a batch without rows")
    if (flags & _HEADERS == 0) != (headers_bytes == 0):
        raise ValueError(f"flags {flags:#04x} with {headers_bytes} bytes of headers")


def _encode_topic_table(topics: list[str], distinct: list[str]) -> bytes:
    texts = [encode_text(topic) for topic in distinct]
    index_of = dict(zip(distinct, range(len(distinct)), strict=True))
    index = column_bytes("H" if len(distinct) <= _U16_TOPICS_MAX else "I", [index_of[topic] for topic in topics])
    lengths = column_bytes("I", [len(text) for text in texts])
    return b"".join(chain((_U32.pack(len(distinct)), lengths), texts, (index,)))


def _decode_topic_table(data: bytes, start: int, end: int, count: int) -> list[str]:
    distinct_count: int = _U32.unpack_from(data, start)[0]
    kind, width = ("H", 2) if distinct_count <= _U16_TOPICS_MAX else ("I", 4)
    texts_start = start + 4 + 4 * distinct_count
    index_start = end - width * count
    if texts_start > index_start:
        raise ValueError(f"a topic table of {end - start} bytes for {distinct_count} topics")
    texts = cut(data, texts_start, index_start, take_column("I", data, start + 4, distinct_count))
    distinct = [decode_text(text) for text in texts]
    return [distinct[row] for row in take_column(kind, data, index_start, count)]


def cut(data: bytes, start: int, end: int, lengths: list[int]) -> list[bytes]:
    """Return the pieces of `data` from `start`, of the given lengths. Raises ValueError unless they end at `end`."""
    pieces: list[bytes] = []
    for length in lengths:
        stop = start + length
        pieces.append(data[start:stop])
        start = stop
    if start != end:
        raise ValueError(f"pieces that end at byte {start} instead of {end}")
    return pieces


def column_bytes(kind: str, values: list[int]) -> bytes:
    """Return integers as one column; `kind` is the array type: H (u16), I (u32) or Q (u64)."""
    column = array(kind, values)
    if _BIG_ENDIAN:
        column.byteswap()
    return column.tobytes()


def take_column(kind: str, data: bytes, offset: int, count: int) -> list[int]:
    """Return a column of `count` integers. Raises ValueError when the data end before it does."""
    column = array(kind)
    end = offset + column.itemsize * count
    if end > len(data):
        raise ValueError(f"a column of {count} integers where {len(data) - offset} bytes are left")
    column.frombytes(data[offset:end])
    if _BIG_ENDIAN:
        column.byteswap()
    return column.tolist()
