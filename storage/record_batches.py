"""The batches of a record, each with a checksum of its own: where one is damaged, the others can still be read.

    head            what the record says of its batches, and of anything else
    u32[], u64[]    bytes and xxh3_64 of each batch, as two columns
    u64             xxh3_64 of all that stands before it
    batches         one behind the other, see `record`

The record's seal covers all of this. Only where it does not match are the checksums in here looked at.
"""

import struct
from typing import Final, NamedTuple

import xxhash

from messaging.batch import MessageBatch
from storage.errors import DamagedRecord
from storage.record import column_bytes, decode_whole_rows, take_column

_CHECKSUM: Final = struct.Struct("<Q")


class BatchesRead(NamedTuple):
    """The batches of a record in order, None for each that is damaged, and what could not be read of them."""

    batches: list[MessageBatch | None]
    half_count: int  # messages without headers that were left out


def put_batches(head: bytes, batches: list[bytes]) -> list[bytes]:
    """Return the pieces of a record's content."""
    sizes = column_bytes("I", [len(batch) for batch in batches])
    checksums = column_bytes("Q", [xxhash.xxh3_64_intdigest(batch) for batch in batches])
    table = head + sizes + checksums
    return [table, _CHECKSUM.pack(xxhash.xxh3_64_intdigest(table)), *batches]


def take_batches(data: bytes, start: int, offset: int, count: int, where: str, *, is_sealed: bool) -> BatchesRead:
    """Read the batches behind a head that goes from `start` to `offset`; they go to the end of `data`.

    `is_sealed`: the record's seal is right, so a batch that cannot be read is no damage of the disk. Raises
    DamagedRecord, UnsupportedFormat, ValueError and struct.error; without the seal, for a damaged head only.
    """
    sizes = take_column("I", data, offset, count)
    checksums = take_column("Q", data, offset + 4 * count, count)
    table_end = offset + 12 * count
    if not is_sealed:
        (checksum,) = _CHECKSUM.unpack_from(data, table_end)
        if xxhash.xxh3_64_intdigest(data[start:table_end]) != checksum:
            raise DamagedRecord(where, "the checksum of its head does not match")
    batches: list[MessageBatch | None] = []
    half_count = 0
    at = table_end + _CHECKSUM.size
    for size, checksum in zip(sizes, checksums, strict=True):
        end = at + size
        if not is_sealed and xxhash.xxh3_64_intdigest(data[at:end]) != checksum:
            batches.append(None)
        else:
            batch, batch_end, halves = decode_whole_rows(data, at, where)
            if batch_end != end:
                raise ValueError(f"a batch that ends at byte {batch_end} instead of {end}")
            batches.append(batch)
            half_count += halves
        at = end
    if is_sealed and at != len(data):
        raise ValueError(f"{len(data) - at} bytes follow the last batch")
    return BatchesRead(batches, half_count)


def told_lost(batches_count: int, damaged_count: int, half_count: int, *, is_sealed: bool) -> str:
    """Return what of a record cannot be read, in words for operators; nothing when it is whole."""
    parts: list[str] = []
    if damaged_count:
        parts.append(f"the checksums of {damaged_count} of {batches_count} batches do not match")
    if half_count:
        parts.append(f"it holds half of {half_count} messages, without their headers")
    if not parts and not is_sealed:
        parts.append("its checksum does not match, and those of all its batches do")
    return " and ".join(parts)
