"""A cursor at rest: the settled sequences of a partition or durable reader, and the delivery counts of the others.

Sealed (`seal`) as kind SGC. The content is a row of varints (`fields`):

    partition_id, floor, next_sequence,
    count of settled ranges, then for each: distance from the end of the one before (the first: from floor), length
    count of redelivered ranges, then for each: distance likewise, length, delivery count
    count of delays, then for each: distance from the sequence before (the first: from floor), moment, key + 2

The last line belongs to version 2, which is written only for cursors with delays: an older release reads the others.
Distances make a cursor with thousands of exceptions small: two or three bytes each instead of sixteen.
"""

import struct
from typing import Final, NamedTuple

from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.records.fields import put_varint, take_varint
from sluicegate.storage.records.seal import SEAL_BYTES, seal, sealed_version, unseal_whole

CURSOR_KIND: Final = b"SGC"
CURSOR_FORMAT: Final = 2
CURSOR_FORMAT_OLDEST: Final = 1
_LEAST_KEY: Final = -2  # messaging.partitions.state.redelivery.EVERYTHING


class CursorRecord(NamedTuple):
    """The settlements of a partition. Ranges are half-open, ascend, do not overlap and lie at or above the floor."""

    partition_id: int
    floor: int  # every sequence below is settled
    settled: list[tuple[int, int]]  # (first, end) settled above the floor
    next_sequence: int  # the reserved bound: no sequence at or above was assigned
    redelivered: list[tuple[int, int, int]]  # (first, end, count) of messages delivered before
    # (sequence, wall clock in ms, key hash or its substitute) of failed messages that waited at a clean shutdown
    delays: tuple[tuple[int, int, int], ...] = ()


def with_reservation(cursor: CursorRecord | None, partition_id: int, floor: int, next_sequence: int) -> CursorRecord:
    """Return the cursor with its reserved bound raised to `next_sequence`, or a new one that begins at `floor`."""
    if cursor is None:
        return CursorRecord(partition_id, floor, [], next_sequence, [])
    return cursor._replace(next_sequence=max(cursor.next_sequence, next_sequence))


def encode_cursor(cursor: CursorRecord) -> bytes:
    """Return the cursor's bytes. Raises ValueError when its ranges do not ascend from the floor."""
    out: list[bytes] = []
    put_varint(out, cursor.partition_id)
    put_varint(out, cursor.floor)
    put_varint(out, cursor.next_sequence)
    put_varint(out, len(cursor.settled))
    behind = cursor.floor
    for first, end in cursor.settled:
        _put_range(out, behind, first, end)
        behind = end
    put_varint(out, len(cursor.redelivered))
    behind = cursor.floor
    for first, end, count in cursor.redelivered:
        _put_range(out, behind, first, end)
        put_varint(out, count)
        behind = end
    if not cursor.delays:
        return seal(CURSOR_KIND, CURSOR_FORMAT_OLDEST, b"".join(out))
    put_varint(out, len(cursor.delays))
    behind = cursor.floor
    for sequence, due_ms, key in cursor.delays:
        if sequence < behind or key < _LEAST_KEY:
            raise ValueError(f"a delay of {sequence} for key {key} where one at or above {behind} must follow")
        put_varint(out, sequence - behind)
        put_varint(out, due_ms)
        put_varint(out, key - _LEAST_KEY)
        behind = sequence
    return seal(CURSOR_KIND, CURSOR_FORMAT, b"".join(out))


def decode_cursor(data: bytes, where: str = "cursor") -> CursorRecord:
    """Return the cursor. Raises DamagedRecord and UnsupportedFormat."""
    unseal_whole(data, CURSOR_KIND, CURSOR_FORMAT, where, oldest=CURSOR_FORMAT_OLDEST)
    try:
        return _decode_content(data, sealed_version(data, 0))
    except (IndexError, ValueError, OverflowError, struct.error) as error:
        raise DamagedRecord(where, f"its content cannot be read: {error}") from error


def _decode_content(data: bytes, version: int) -> CursorRecord:
    partition_id, offset = take_varint(data, SEAL_BYTES)
    floor, offset = take_varint(data, offset)
    next_sequence, offset = take_varint(data, offset)
    settled: list[tuple[int, int]] = []
    settled_count, offset = take_varint(data, offset)
    behind = floor
    for _ in range(settled_count):
        first, end, offset = _take_range(data, offset, behind)
        settled.append((first, end))
        behind = end
    redelivered: list[tuple[int, int, int]] = []
    redelivered_count, offset = take_varint(data, offset)
    behind = floor
    for _ in range(redelivered_count):
        first, end, offset = _take_range(data, offset, behind)
        count, offset = take_varint(data, offset)
        redelivered.append((first, end, count))
        behind = end
    delays: list[tuple[int, int, int]] = []
    delays_count = 0
    if version > CURSOR_FORMAT_OLDEST:
        delays_count, offset = take_varint(data, offset)
    behind = floor
    for _ in range(delays_count):
        distance, offset = take_varint(data, offset)
        due_ms, offset = take_varint(data, offset)
        key, offset = take_varint(data, offset)
        behind += distance
        delays.append((behind, due_ms, key + _LEAST_KEY))
    if offset != len(data):
        raise ValueError(f"{len(data) - offset} bytes follow its last field")
    return CursorRecord(partition_id, floor, settled, next_sequence, redelivered, tuple(delays))


def _put_range(out: list[bytes], behind: int, first: int, end: int) -> None:
    if not behind <= first < end:
        raise ValueError(f"a range from {first} to {end} where one at or above {behind} must follow")
    put_varint(out, first - behind)
    put_varint(out, end - first)


def _take_range(data: bytes, offset: int, behind: int) -> tuple[int, int, int]:
    distance, offset = take_varint(data, offset)
    length, offset = take_varint(data, offset)
    if length == 0:
        raise ValueError("a range without sequences")
    first = behind + distance
    return first, first + length, offset
