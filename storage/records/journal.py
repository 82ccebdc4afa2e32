"""A journal record: every message of one commit once, its destinations, and the settlements since the last record.

Sealed (`seal`) as kind SGJ, version 2. Content, little-endian:

    u32             count of entries
    u32             count of settlements
    u32[], u64[], u64[]     the settlements: partition, first, end, as three columns
    then for each entry
        u32         count of matches
        per match   u32 partition, u64 first sequence, u32 count of rows, u32[] rows
                    (a count of 0xFFFFFFFF: every row, and no column)
    batches         one for each entry, see `batches`; the fields above are its head

In version 1 each batch followed the matches of its entry, without its own checksum. Version 1 is still read.

The row at position i of a match has the sequence `first_sequence + i` in its partition. The commit number is the
record's key in the store. The spool's accounting decides which records to delete (storage.commit.journal).
"""

import struct
from typing import Final, NamedTuple

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.records.batch import batch_rows, column_bytes, encode_batch, take_column
from sluicegate.storage.records.batches import (
    BatchRead,
    BatchSpan,
    Losses,
    put_batches,
    table_bytes,
    take_batch,
    take_batches,
    take_sizes,
    take_spans,
)
from sluicegate.storage.records.seal import SEAL_BYTES, is_sealed_as, seal, sealed_version, unseal_whole

JOURNAL_KIND: Final = b"SGJ"
JOURNAL_FORMAT: Final = 2
JOURNAL_FORMAT_OLDEST: Final = 1

_COUNTS: Final = struct.Struct("<II")
_U32: Final = struct.Struct("<I")
_MATCH: Final = struct.Struct("<IQI")
_MATCH_BYTES: Final = 16
_ALL_ROWS: Final = 0xFFFF_FFFF


class Match(NamedTuple):
    """One partition that received a batch, or a selection of its rows."""

    partition_id: int  # u32
    first_sequence: int  # u64; the rows have consecutive sequences
    rows: list[int] | None  # None: every row of the batch


class JournalEntry(NamedTuple):
    """A batch with its destination partitions."""

    batch: MessageBatch
    matches: list[Match]


class Settlement(NamedTuple):
    """Settled sequences of one partition, `first` to `end` (exclusive)."""

    partition_id: int
    first: int
    end: int


class JournalRecord(NamedTuple):
    """The readable part of what one commit wrote."""

    entries: list[JournalEntry]
    settlements: list[Settlement]
    lost: str = ""  # describes the unreadable part; empty for a whole record


class Sequences(NamedTuple):
    """Sequences of one partition that a record gives to messages, `first` to `end` (exclusive)."""

    partition_id: int
    first: int
    end: int


class JournalSummary(NamedTuple):
    """What a record does to partitions, without its messages."""

    added: list[Sequences]
    settlements: list[Settlement]


def encode_journal_record(entries: list[JournalEntry], settlements: list[Settlement]) -> bytes:
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
    content = put_batches(b"".join(parts), [encode_batch(batch) for batch, _ in entries])
    return seal(JOURNAL_KIND, JOURNAL_FORMAT, b"".join(content))


def decode_journal_record(data: bytes, where: str = "journal record") -> JournalRecord:
    """Return the readable part of the record. Raises DamagedRecord when there is none, and UnsupportedFormat."""
    is_sealed = True
    try:
        unseal_whole(data, JOURNAL_KIND, JOURNAL_FORMAT, where, oldest=JOURNAL_FORMAT_OLDEST)
    except DamagedRecord:
        if not is_sealed_as(data, JOURNAL_KIND, JOURNAL_FORMAT):
            raise
        is_sealed = False
    try:
        if sealed_version(data, 0) == 1:
            return _decode_version_1(data, where)
        return _decode_content(data, where, is_sealed=is_sealed)
    except (IndexError, ValueError, OverflowError, struct.error) as error:
        raise DamagedRecord(where, f"its content cannot be read: {error}") from error


def decode_journal_summary(data: bytes, where: str) -> JournalSummary:
    """Return what the record does to partitions; of its messages only the number is read.

    The seal says that they are as they were written. Raises DamagedRecord when it does not match, or the number cannot
    be read, and UnsupportedFormat.
    """
    unseal_whole(data, JOURNAL_KIND, JOURNAL_FORMAT, where, oldest=JOURNAL_FORMAT_OLDEST)
    if sealed_version(data, 0) == 1:
        return summary_of(decode_journal_record(data, where))
    try:
        return _decode_summary(data, where)
    except (IndexError, ValueError, OverflowError, struct.error) as error:
        raise DamagedRecord(where, f"its content cannot be read: {error}") from error


def summary_of(record: JournalRecord) -> JournalSummary:
    """Return what a record does to partitions."""
    added: list[Sequences] = []
    for batch, matches in record.entries:
        _add_sequences(added, matches, batch.count)
    return JournalSummary(added, record.settlements)


def _decode_summary(data: bytes, where: str) -> JournalSummary:
    entry_count, settlements, offset = _take_settlements(data)
    matches_of: list[list[Match]] = []
    for _ in range(entry_count):
        matches, offset = _take_matches(data, offset)
        matches_of.append(matches)
    added: list[Sequences] = []
    sizes = take_sizes(data, offset, entry_count)
    at = offset + table_bytes(entry_count)
    for matches, size in zip(matches_of, sizes, strict=True):
        count = batch_rows(data, at, at + size, where)
        _check_rows(matches, count)
        _add_sequences(added, matches, count)
        at += size
    if at != len(data):
        raise ValueError(f"batches that end at byte {at} instead of {len(data)}")
    return JournalSummary(added, settlements)


def _add_sequences(added: list[Sequences], matches: list[Match], count: int) -> None:
    for partition_id, first, rows in matches:
        added.append(Sequences(partition_id, first, first + (count if rows is None else len(rows))))


def batch_spans(data: bytes) -> list[BatchSpan]:
    """Return the places of the batches in a record, of which `data` need only have the head.

    Raises ValueError, IndexError, struct.error and DamagedRecord when the head is not whole, or damaged.
    """
    entry_count, _, offset = _take_settlements(data)
    for _ in range(entry_count):
        _, offset = _take_matches(data, offset)
    return take_spans(data, SEAL_BYTES, offset, entry_count, "journal record")


def _decode_content(data: bytes, where: str, *, is_sealed: bool) -> JournalRecord:
    entry_count, settlements, offset = _take_settlements(data)
    matches_of: list[list[Match]] = []
    for _ in range(entry_count):
        matches, offset = _take_matches(data, offset)
        matches_of.append(matches)
    losses = Losses()
    batches = take_batches(data, SEAL_BYTES, offset, entry_count, where, losses, is_sealed=is_sealed)
    entries: list[JournalEntry] = []
    for matches, read in zip(matches_of, batches, strict=True):
        _add_entry(entries, read, matches)
    return JournalRecord(entries, settlements, losses.description(entry_count, is_sealed=is_sealed))


def _decode_version_1(data: bytes, where: str) -> JournalRecord:
    entry_count, settlements, offset = _take_settlements(data)
    losses = Losses()
    entries: list[JournalEntry] = []
    for _ in range(entry_count):
        matches, offset = _take_matches(data, offset)
        read, offset = take_batch(data, offset, where, losses)
        _add_entry(entries, read, matches)
    if offset != len(data):
        raise ValueError(f"{len(data) - offset} bytes follow the last entry")
    return JournalRecord(entries, settlements, losses.description(entry_count, is_sealed=True))


def _add_entry(entries: list[JournalEntry], read: BatchRead, matches: list[Match]) -> None:
    """Add the readable part of a batch, with its destinations. Raises ValueError for invalid matches."""
    if read.batch is None:
        return
    if read.half_count:
        matches = _without_rows_from(matches, read.batch.count)
    _check_rows(matches, read.batch.count)
    entries.append(JournalEntry(read.batch, matches))


def _take_settlements(data: bytes) -> tuple[int, list[Settlement], int]:
    """Return the number of entries that follow, the settlements, and the offset behind them."""
    counts: tuple[int, int] = _COUNTS.unpack_from(data, SEAL_BYTES)
    entry_count, settlement_count = counts
    offset = SEAL_BYTES + 8
    if settlement_count == 0:
        return entry_count, [], offset
    partition_ids = take_column("I", data, offset, settlement_count)
    firsts = take_column("Q", data, offset + 4 * settlement_count, settlement_count)
    ends = take_column("Q", data, offset + 12 * settlement_count, settlement_count)
    settlements = [Settlement(*row) for row in zip(partition_ids, firsts, ends, strict=True)]
    return entry_count, settlements, offset + 20 * settlement_count


def _take_matches(data: bytes, offset: int) -> tuple[list[Match], int]:
    match_count: int = _U32.unpack_from(data, offset)[0]
    offset += 4
    matches: list[Match] = []
    for _ in range(match_count):
        match, offset = _take_match(data, offset)
        matches.append(match)
    return matches, offset


def _without_rows_from(matches: list[Match], count: int) -> list[Match]:
    """Remove the rows after the first `count`, which are the last ones of each match."""
    found: list[Match] = []
    for match in matches:
        rows = None if match.rows is None else [row for row in match.rows if row < count]
        if rows is None or rows:
            found.append(match._replace(rows=rows))
    return found


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
