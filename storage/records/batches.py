"""The batches of a record, each with its own checksum: when one is damaged, the others are still readable.

    head            the record's own fields, and those of its batches
    u32[], u64[]    bytes and xxh3_64 of each batch, as two columns
    u64             xxh3_64 of everything before it
    batches         one after the other, see `batch`

The record's seal covers all of this. The reader checks the checksums in here only when the seal does not match.
"""

import struct
from typing import Final, NamedTuple, final

import xxhash

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.records.batch import batch_end, column_bytes, decode_whole_rows, take_column

_CHECKSUM: Final = struct.Struct("<Q")
_SIZE: Final = struct.Struct("<I")


class BatchRead(NamedTuple):
    """The readable part of a batch of a record."""

    batch: MessageBatch | None  # None: nothing of it
    half_count: int = 0  # messages omitted at its end


@final
class Losses:
    """The unreadable parts of a record's batches."""

    def __init__(self) -> None:
        self.damaged_count = 0  # batches whose checksum does not match
        self.unreadable_count = 0  # intact batches that cannot be decoded
        self.half_count = 0  # messages with unreadable headers

    def description(self, batches_count: int, *, is_sealed: bool) -> str:
        """Describe the losses for operators; empty when the record is whole."""
        parts: list[str] = []
        if self.damaged_count:
            parts.append(f"the checksums of {self.damaged_count} of {batches_count} batches do not match")
        if self.unreadable_count:
            parts.append(f"{self.unreadable_count} of {batches_count} batches cannot be decoded")
        if self.half_count:
            parts.append(f"it holds half of {self.half_count} messages, whose headers cannot be read")
        if not parts and not is_sealed:
            parts.append("its checksum does not match, and those of all its batches do")
        return " and ".join(parts)


class BatchSpan(NamedTuple):
    """Where a batch is in a record."""

    start: int
    size: int
    checksum: int  # xxh3_64


def put_batches(head: bytes, batches: list[bytes]) -> list[bytes]:
    """Return the pieces of a record's content."""
    return put_checked_batches(head, batches, [xxhash.xxh3_64_intdigest(batch) for batch in batches])


def put_checked_batches(head: bytes, batches: list[bytes], checksums: list[int]) -> list[bytes]:
    """Return the same with checksums that are known; one that does not match is found by the reader."""
    table = head + column_bytes("I", [len(batch) for batch in batches]) + column_bytes("Q", checksums)
    return [table, _CHECKSUM.pack(xxhash.xxh3_64_intdigest(table)), *batches]


def take_spans(data: bytes, start: int, offset: int, count: int, where: str) -> list[BatchSpan]:
    """Return the places of the batches behind a head from `start` to `offset`. Their bytes need not be in `data`.

    Raises ValueError and struct.error when the data end before the batches do begin, and DamagedRecord.
    """
    sizes, checksums, at = _take_table(data, start, offset, count, where, is_sealed=False)
    spans: list[BatchSpan] = []
    for size, checksum in zip(sizes, checksums, strict=True):
        spans.append(BatchSpan(at, size, checksum))
        at += size
    return spans


def take_batches(
    data: bytes, start: int, offset: int, count: int, where: str, losses: Losses, *, is_sealed: bool
) -> list[BatchRead]:
    """Read the batches behind a head from `start` to `offset`; they extend to the end of `data`.

    `is_sealed`: the record's seal matches, and so do the checksums of its batches. Raises DamagedRecord, ValueError and
    struct.error for an invalid head, and UnsupportedFormat.
    """
    sizes, checksums, at = _take_table(data, start, offset, count, where, is_sealed=is_sealed)
    batches: list[BatchRead] = []
    for size, checksum in zip(sizes, checksums, strict=True):
        end = at + size
        if not is_sealed and xxhash.xxh3_64_intdigest(data[at:end]) != checksum:
            losses.damaged_count += 1
            batches.append(BatchRead(None))
        else:
            found, found_end = take_batch(data, at, where, losses)
            if found_end != end:
                raise ValueError(f"a batch that ends at byte {found_end} instead of {end}")
            batches.append(found)
        at = end
    if is_sealed and at != len(data):
        raise ValueError(f"{len(data) - at} bytes follow the last batch")
    return batches


def take_sizes(data: bytes, offset: int, count: int) -> list[int]:
    """Return the sizes of the batches behind a head that ends at `offset`. Raises ValueError."""
    if count == 1 and offset + _SIZE.size <= len(data):  # of most records: no array is built for it
        return [_SIZE.unpack_from(data, offset)[0]]
    return take_column("I", data, offset, count)


def table_bytes(count: int) -> int:
    """Return the bytes between the end of a head and the first of its batches."""
    return 12 * count + _CHECKSUM.size


def _take_table(
    data: bytes, start: int, offset: int, count: int, where: str, *, is_sealed: bool
) -> tuple[list[int], list[int], int]:
    """Return the sizes and checksums of the batches, and where the first one begins."""
    sizes = take_sizes(data, offset, count)
    checksums = take_column("Q", data, offset + 4 * count, count)
    end = offset + 12 * count
    if not is_sealed:
        (checksum,) = _CHECKSUM.unpack_from(data, end)
        if xxhash.xxh3_64_intdigest(data[start:end]) != checksum:
            raise DamagedRecord(where, "the checksum of its head does not match")
    return sizes, checksums, offset + table_bytes(count)


def take_batch(data: bytes, at: int, where: str, losses: Losses) -> tuple[BatchRead, int]:
    """Return the readable part of the intact batch at `at`, and the offset behind it.

    Raises DamagedRecord when even its end is unknown, and UnsupportedFormat.
    """
    try:
        batch, end, half_count = decode_whole_rows(data, at, where)
    except DamagedRecord:
        end = batch_end(data, at, where)
        losses.unreadable_count += 1
        return BatchRead(None), end
    losses.half_count += half_count
    return BatchRead(batch, half_count), end
