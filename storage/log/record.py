"""A record of the log: everything that one commit does.

    u8          format version: 1
    varint      count of reservations; for each: varint partition, varint floor, varint next sequence
    varint      count of deleted partitions; for each: varint
    varint      count of deleted rows; for each: u8 table, bytes stored key
    varint      count of written rows; for each: u8 table, varint bytes
    varint      count of staged pages; for each: varint partition, varint bytes
    varint      bytes of the journal record; 0: none
    u64         xxh3_64 of everything before it, little-endian
    rows        as at rest, see `storage.records.table`, one after the other
    pages       see `storage.records.page`
    journal     messages, their destinations, settlements, see `storage.records.journal`

    tables      0 catalog, 1 owners, 2 retained, 3 sessions, 4 readers, 5 transactions

Fields are those of `storage.records.fields`. The frame around a record (`storage.log.segment`) has a checksum of all of
this. Only when it does not match are the checksums in here looked at: that of the head, and those of rows, pages and
batches. So one flipped bit costs one row or one batch.
"""

import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import xxhash

from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.interface import CommitJob, PageKey, PageWrite, Reservation, Table
from sluicegate.storage.records.fields import BYTES, put_bytes, put_varint, take_bytes, take_varint
from sluicegate.storage.records.page import decode_page_summary
from sluicegate.storage.records.table import decode_row, encode_row, stored_key

RECORD_FORMAT: Final = 1

_TABLES: Final = (Table.CATALOG, Table.OWNERS, Table.RETAINED, Table.SESSIONS, Table.READERS, Table.TRANSACTIONS)
_CODES: Final = {table: code for code, table in enumerate(_TABLES)}
_CHECKSUM: Final = struct.Struct("<Q")


class RowWrite(NamedTuple):
    """A row as it is at rest, or with None its deletion."""

    table: Table
    key: bytes  # from records.table.stored_key
    data: bytes | None  # from records.table.encode_row


@dataclass(slots=True)
class LogRecord:
    """The readable part of a record. Parts take effect in the order of the fields."""

    journal: bytes | None = None  # from records.journal.encode_journal_record
    staged_pages: list[PageWrite] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    rows: list[RowWrite] = field(default_factory=list)
    partition_purges: list[int] = field(default_factory=list)
    lost: str = ""  # describes the unreadable part, beside that of the journal; empty for none


def record_of(job: CommitJob) -> LogRecord:
    """Return the record of a commit, with each row once: the last write of it counts.

    Raises ValueError for a row that cannot be stored.
    """
    if not job.table_writes:
        return LogRecord(job.record, job.staged_pages, job.reservations, [], job.partition_purges)
    rows: dict[tuple[Table, bytes], RowWrite] = {}
    for write in job.table_writes:
        data = None if write.value is None else encode_row(write.key, write.value)
        key = stored_key(write.key)
        rows[write.table, key] = RowWrite(write.table, key, data)
    return LogRecord(job.record, job.staged_pages, job.reservations, list(rows.values()), job.partition_purges)


def encode_log_record(record: LogRecord) -> bytes:
    """Return the record's bytes."""
    return b"".join(record_pieces(record))


def record_pieces(record: LogRecord) -> list[bytes]:
    """Return the record's bytes in pieces. Rows, pages and messages are not copied."""
    out: list[bytes] = [BYTES[RECORD_FORMAT]]
    put_varint(out, len(record.reservations))
    for partition_id, floor, next_sequence in record.reservations:
        put_varint(out, partition_id)
        put_varint(out, floor)
        put_varint(out, next_sequence)
    put_varint(out, len(record.partition_purges))
    for partition_id in record.partition_purges:
        put_varint(out, partition_id)
    deleted: list[bytes] = []
    written: list[bytes] = []
    rows: list[bytes] = []
    deleted_count = 0
    for table, key, data in record.rows:
        code = BYTES[_CODES[table]]
        if data is None:
            deleted_count += 1
            deleted.append(code)
            put_bytes(deleted, key)
        else:
            written.append(code)
            put_varint(written, len(data))
            rows.append(data)
    put_varint(out, deleted_count)
    out += deleted
    put_varint(out, len(rows))
    out += written
    put_varint(out, len(record.staged_pages))
    for write in record.staged_pages:
        put_varint(out, write.partition_id)
        put_varint(out, len(write.page))
        rows.append(write.page)
    journal = record.journal
    put_varint(out, 0 if journal is None else len(journal))
    head = b"".join(out)
    if journal is not None:
        rows.append(journal)
    return [head, _CHECKSUM.pack(xxhash.xxh3_64_intdigest(head)), *rows]


def decode_log_record(data: bytes, where: str, *, is_sound: bool) -> LogRecord:
    """Return the readable part of a record; the journal record in it is cut out, and not decoded.

    `is_sound`: the checksum around the record matches. Deleted rows come before written ones; no record has a row
    twice (`record_of`). Raises DamagedRecord when there is no readable part, and UnsupportedFormat.
    """
    try:
        return _Reader(data, where, is_sound=is_sound).read()
    except (IndexError, ValueError, OverflowError, struct.error) as error:
        raise DamagedRecord(where, f"its content cannot be read: {error}") from error


class _Reader:
    """Reads one record."""

    def __init__(self, data: bytes, where: str, *, is_sound: bool) -> None:
        self._data = data
        self._where = where
        self._is_sound = is_sound
        self._at = 0
        self._lost_rows = 0
        self._lost_pages = 0

    def read(self) -> LogRecord:
        data = self._data
        if data[0] != RECORD_FORMAT and self._is_sound:
            raise UnsupportedFormat(data[0], RECORD_FORMAT, self._where)
        self._at = 1
        record = LogRecord()
        for _ in range(self._number()):
            record.reservations.append(Reservation(self._number(), self._number(), self._number()))
        for _ in range(self._number()):
            record.partition_purges.append(self._number())
        for _ in range(self._number()):
            table = self._table()
            key, self._at = take_bytes(data, self._at)
            record.rows.append(RowWrite(table, key, None))
        written = [(self._table(), self._number()) for _ in range(self._number())]
        pages = [(self._number(), self._number()) for _ in range(self._number())]
        journal_bytes = self._number()
        self._check_head()
        for table, size in written:
            self._take_row(record, table, self._piece(size))
        for partition_id, size in pages:
            self._take_page(record, partition_id, self._piece(size))
        if journal_bytes:
            record.journal = self._piece(journal_bytes)
        if self._at != len(data):
            raise ValueError(f"{len(data) - self._at} bytes follow its end")
        record.lost = self._description(len(written), len(pages))
        return record

    def _number(self) -> int:
        number, self._at = take_varint(self._data, self._at)
        return number

    def _table(self) -> Table:
        table = _TABLES[self._data[self._at]]
        self._at += 1
        return table

    def _piece(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise ValueError(f"a part of {size} bytes where {len(self._data) - self._at} are left")
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def _check_head(self) -> None:
        (checksum,) = _CHECKSUM.unpack_from(self._data, self._at)
        if not self._is_sound and xxhash.xxh3_64_intdigest(self._data[: self._at]) != checksum:
            raise DamagedRecord(self._where, "the checksum of its head does not match")
        self._at += _CHECKSUM.size

    def _take_row(self, record: LogRecord, table: Table, data: bytes) -> None:
        try:
            key, _ = decode_row(data, self._where)
        except DamagedRecord:
            self._lost_rows += 1
            return
        record.rows.append(RowWrite(table, stored_key(key), data))

    def _take_page(self, record: LogRecord, partition_id: int, page: bytes) -> None:
        try:
            decode_page_summary(page, self._where)
        except DamagedRecord:
            self._lost_pages += 1
            return
        record.staged_pages.append(PageWrite(partition_id, page))

    def _description(self, rows: int, pages: int) -> str:
        parts: list[str] = []
        if self._lost_rows:
            parts.append(f"the checksums of {self._lost_rows} of {rows} rows do not match")
        if self._lost_pages:
            parts.append(f"the checksums of {self._lost_pages} of {pages} staged pages do not match")
        return " and ".join(parts)


def page_key_of(write: PageWrite) -> PageKey:
    """Return the name under which a page is stored. Raises DamagedRecord."""
    return PageKey(write.partition_id, decode_page_summary(write.page).first_sequence)
