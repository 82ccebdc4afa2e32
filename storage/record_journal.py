"""A journal record: every message of one commit once, where each goes, and what was settled since the last one.

Sealed (`record_seal`) as kind SGJ, version 1. Content, little-endian:

    u32             count of entries
    u32             count of settlements
    u32[], u64[], u64[]     the settlements: partition, first, end, as three columns
    then for each entry
        u32         count of matches
        per match   u32 partition, u64 first sequence, u32 count of rows, u32[] rows
                    (a count of 0xFFFFFFFF: every row, and no column)
        batch       see `record`

The row at position i of a match has the sequence `first_sequence + i` in its partition. The commit number is the
record's key in the store. Which record may go is decided by the spool's accounting, not here.
"""

import struct
from typing import Final, NamedTuple

from messaging.batch import MessageBatch
from storage.errors import DamagedRecord
from storage.record import column_bytes, decode_batch, encode_batch, take_column
from storage.record_seal import SEAL_BYTES, seal, unseal_whole

JOURNAL_KIND: Final = b"SGJ"
JOURNAL_FORMAT: Final = 1

_COUNTS: Final = struct.Struct("<II")
_U32: Final = struct.Struct("<I")
_MATCH: Final = struct.Struct("<IQI")
_MATCH_BYTES: Final = 16
_ALL_ROWS: Final = 0xFFFF_FFFF


class Match(NamedTuple):
    """One partition that a batch, or a selection of its rows, went to."""

    partition_id: int  # u32
    first_sequence: int  # u64; the rows have consecutive sequences
    rows: list[int] | None  # None: every row of the batch


class Entry(NamedTuple):
    """A batch with the partitions it went to."""

    batch: MessageBatch
    matches: list[Match]


class Settlement(NamedTuple):
    """Sequences of one partition that need not be kept any longer, `first` to `end` (exclusive)."""

    partition_id: int
    first: int
    end: int


class JournalRecord(NamedTuple):
    """What one commit wrote."""

    entries: list[Entry]
    settlements: list[Settlement]


def encode_journal_record(entries: list[Entry], settlements: list[Settlement]) -> bytes:
    """Return the record's bytes. Raises ValueError for a match without rows or a record beyond 4 GiB."""
    parts = [
        _COUNTS.pack(len(entries), len(settlements)),
        column_bytes("I", [partition_id for partition_id, _, _ in settlements]),
        column_bytes("Q", [first for _, first, _ in settlements]),
        column_bytes("Q", [end for _, _, end in settlements]),
    ]
    for batch, matches in entries:
        parts.append(_U32.pack(len(matches)))
        for match in matches:
            _put_match(parts, match, batch.count)
        parts.append(encode_batch(batch))
    return seal(JOURNAL_KIND, JOURNAL_FORMAT, b"".join(parts))


def decode_journal_record(data: bytes, where: str = "journal record") -> JournalRecord:
    """Return the record's entries and settlements. Raises DamagedRecord and UnsupportedFormat."""
    unseal_whole(data, JOURNAL_KIND, JOURNAL_FORMAT, where)
    try:
        return _decode_content(data, where)
    except (IndexError, ValueError, OverflowError, struct.error) as error:
        raise DamagedRecord(where, f"its content cannot be read: {error}") from error


def _decode_content(data: bytes, where: str) -> JournalRecord:
    counts: tuple[int, int] = _COUNTS.unpack_from(data, SEAL_BYTES)
    entry_count, settlement_count = counts
    offset = SEAL_BYTES + 8
    partition_ids = take_column("I", data, offset, settlement_count)
    firsts = take_column("Q", data, offset + 4 * settlement_count, settlement_count)
    ends = take_column("Q", data, offset + 12 * settlement_count, settlement_count)
    offset += 20 * settlement_count
    settlements = [Settlement(*row) for row in zip(partition_ids, firsts, ends, strict=True)]
    entries: list[Entry] = []
    for _ in range(entry_count):
        match_count: int = _U32.unpack_from(data, offset)[0]
        offset += 4
        matches: list[Match] = []
        for _ in range(match_count):
            match, offset = _take_match(data, offset)
            matches.append(match)
        batch, offset = decode_batch(data, offset, where)
        _check_rows(matches, batch.count)
        entries.append(Entry(batch, matches))
    if offset != len(data):
        raise ValueError(f"{len(data) - offset} bytes follow the last entry")
    return JournalRecord(entries, settlements)


def _put_match(parts: list[bytes], match: Match, count: int) -> None:
    rows = match.rows
    if rows is None:
        parts.append(_MATCH.pack(match.partition_id, match.first_sequence, _ALL_ROWS))
        return
    _check_rows([match], count)
    parts.append(_MATCH.pack(match.partition_id, match.first_sequence, len(rows)))
    parts.append(column_bytes("I", rows))


def _take_match(data: bytes, offset: int) -> tuple[Match, int]:
    fields: tuple[int, int, int] = _MATCH.unpack_from(data, offset)
    partition_id, first_sequence, row_count = fields
    offset += _MATCH_BYTES
    if row_count == _ALL_ROWS:
        return Match(partition_id, first_sequence, None), offset
    rows = take_column("I", data, offset, row_count)
    return Match(partition_id, first_sequence, rows), offset + 4 * row_count


def _check_rows(matches: list[Match], count: int) -> None:
    for match in matches:
        rows = match.rows
        if rows is None:
            continue
        if not rows:
            raise ValueError(f"a match of partition {match.partition_id} that selects no row")
        if max(rows) >= count:
            raise ValueError(f"a match of partition {match.partition_id} selects row {max(rows)} of {count}")
