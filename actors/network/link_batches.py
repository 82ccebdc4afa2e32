"""Batches on their way over a link: the form in which they are at rest (`storage.records.batch`).

It has all that a message is, encodes a batch at once, and its formats are versioned. A batch for several neighbors is
encoded once.
"""

from typing import Final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.records.batch import AT_REST, BATCH_FORMAT, decode_batch, encode_batch

PIECE_BYTES: Final = 256 * 1024  # of one frame, if it has several messages: control frames pass between
FORMAT: Final = f"batches-{BATCH_FORMAT}"  # as brokers tell each other what they write and read


def link_body(batch: MessageBatch) -> bytes:
    """Return a batch as it travels. Raises ValueError when it is too large for any frame."""
    body = encode_batch(batch)
    if batch.encodings is None:
        batch.encodings = {AT_REST: body}
    else:
        batch.encodings[AT_REST] = body
    return body


def body_once(batch: MessageBatch) -> bytes:
    """Return the same bytes for a batch that stays in memory: they are not kept with it. Raises ValueError."""
    return encode_batch(batch)


def link_batch(body: bytes) -> MessageBatch:
    """Return the batch in a body. Raises ValueError, which says what is wrong with it."""
    return link_batch_at(body, 0, len(body))


def link_batch_at(data: bytes, start: int, end: int) -> MessageBatch:
    """Return the same for a body that is a part of the data."""
    if start >= end:
        raise ValueError("no messages")
    try:
        batch, batch_end = decode_batch(data, start)
    except (DamagedRecord, UnsupportedFormat) as error:
        raise ValueError(str(error)) from error
    if batch_end != end:
        raise ValueError(f"messages of {batch_end - start} bytes in a body of {end - start}")
    return batch


def piece_end(batch: MessageBatch, start: int, stop: int) -> int:
    """Return the row behind those that go into one frame, of the rows from `start` to `stop`: one at least."""
    if batch.payload_bytes <= PIECE_BYTES:
        return stop  # without a look at each payload
    end = stop
    while end - start > 1 and _payload_bytes(batch, start, end) > PIECE_BYTES:
        end = start + (end - start) // 2
    return end


def _payload_bytes(batch: MessageBatch, start: int, stop: int) -> int:
    if start == 0 and stop == batch.count:
        return batch.payload_bytes
    return sum([len(each) for each in batch.payloads()[start:stop]])
