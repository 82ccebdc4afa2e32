"""The records of the log inside a data file: those of a backup, and the journal of a spool of format 1.

A backup is one data file. The records that its state needs of the log are in its sub-database `journal`, under their
numbers: sealed (`storage.records.seal`) as kind SGR, version 1, content as `storage.log.record` says. In format 1 there
was no log, and the sub-database held the journal records themselves, of kind SGJ.

A node that starts on such a file moves the records into a new log. They are appended first. Then one transaction
removes them from the data file and sets its format. So after an interruption the next start begins again, with the data
file as it was.
"""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import lmdb

from sluicegate.storage.environment.databases import DATABASE_COUNT, RECORD_KEY, Databases, key_numbers
from sluicegate.storage.environment.identity import (
    Positions,
    has_log,
    read_clean,
    read_incarnation,
    read_positions,
    write_incarnation,
    write_positions,
)
from sluicegate.storage.errors import DamagedRecord, StoreFailed
from sluicegate.storage.interface import LogEntry, LogGap, Quarantined
from sluicegate.storage.log.journal import Journal
from sluicegate.storage.log.record import LogRecord, encode_log_record
from sluicegate.storage.log.replay import ReadableLog
from sluicegate.storage.records.journal import JOURNAL_KIND
from sluicegate.storage.records.seal import SEAL_BYTES, mismatched, seal, unseal_whole

if TYPE_CHECKING:
    Transaction = lmdb.Transaction[bytes]

log = logging.getLogger("sluicegate.spool")

COPIED_KIND: Final = b"SGR"
COPIED_FORMAT: Final = 1

_ROOM_BYTES: Final = 64 << 20  # of the map, for changes of what is there


@final
class CopiedLog:
    """The records in a data file, as a log that is only read."""

    def __init__(self, env: lmdb.Environment, databases: Databases) -> None:
        self._env = env
        self._databases = databases
        self.damages: list[tuple[str, str]] = []
        self.gaps: list[LogGap] = []  # a database has all records, or reports damage itself
        self.place = "journal"
        with env.begin() as txn, txn.cursor(db=databases.journal) as cursor:
            self.first_number = key_numbers(RECORD_KEY, cursor.key())[0] if cursor.first() else 1
            self.last_number = key_numbers(RECORD_KEY, cursor.key())[0] if cursor.last() else 0

    def read(self, first: int) -> Iterator[LogEntry]:
        """Yield the records from number `first` on. Raises lmdb.Error, UnsupportedFormat."""
        for key in self._keys():
            number = key_numbers(RECORD_KEY, key)[0]
            if number < first:
                continue
            with self._env.begin() as txn:
                data = txn.get(key, db=self._databases.journal)
            if data is not None:
                yield _entry(number, data)

    def _keys(self) -> list[bytes]:
        with self._env.begin() as txn, txn.cursor(db=self._databases.journal) as cursor:
            return list(cursor.iternext(keys=True, values=False))


def _entry(number: int, data: bytes) -> LogEntry:
    if data[:3] == JOURNAL_KIND:
        return LogEntry(number, encode_log_record(LogRecord(data)), is_sound=True)  # it has its own checksum
    try:
        unseal_whole(data, COPIED_KIND, COPIED_FORMAT, f"log record {number}")
    except DamagedRecord:
        return LogEntry(number, data[SEAL_BYTES:], is_sound=False)
    return LogEntry(number, data[SEAL_BYTES:], is_sound=True)


def positions_of(
    txn: "Transaction", databases: Databases, source: ReadableLog, where: str
) -> tuple[Positions, list[Quarantined]]:
    """Return the place of a data file in its log, and what is damaged of that. Raises UnsupportedFormat.

    Where it is not known, all of the log is applied. That repeats what the state has, and changes nothing: the last
    record with a row is in the log, or none is. It is not known in format 1, whose records have no rows: only a clean
    shutdown wrote all cursors.
    """
    everything = Positions(source.first_number - 1, source.first_number)
    if not has_log(txn, databases):
        if read_clean(txn, databases):
            return everything._replace(applied=max(source.last_number, everything.applied)), []
        return everything, []
    try:
        return read_positions(txn, databases, where), []
    except DamagedRecord as error:
        return everything, [Quarantined("place in the log", "damaged", f"{error.reason}; all of the log is applied")]


def holds_records(txn: "Transaction", databases: Databases) -> bool:
    """Return whether the data file itself has the records of its log."""
    return not has_log(txn, databases) or txn.stat(databases.journal)["entries"] > 0


def copy_records(copy: Path, entries: Iterable[LogEntry], *, log_bytes: int) -> None:
    """Put records of the log, of about `log_bytes`, into a copy of a data file that nobody else has open.

    The caller makes the file durable. Raises lmdb.Error, OSError.
    """
    env = open_copy(copy, 2 * log_bytes)
    try:
        databases = Databases(env)
        with env.begin(write=True) as txn:
            for entry in entries:
                txn.put(RECORD_KEY.pack(entry.number), sealed_entry(entry), db=databases.journal)
    finally:
        env.close()


def first_needed(copy: Path) -> int:
    """Return the first record of the log that a copy of a data file needs. Raises lmdb.Error, DamagedRecord."""
    env = open_copy(copy, 0)
    try:
        databases = Databases(env)
        with env.begin() as txn:
            positions = read_positions(txn, databases, str(copy))
    finally:
        env.close()
    return min(positions.needed_from, positions.applied + 1)


def last_copied(copy: Path) -> int:
    """Return the number of the last record in a copy of a data file, 0 if it has none. Raises lmdb.Error."""
    env = open_copy(copy, 0)
    try:
        return CopiedLog(env, Databases(env)).last_number
    finally:
        env.close()


def open_copy(copy: Path, room_bytes: int) -> lmdb.Environment:
    """Open a data file that is no spool's yet, to change it; with so much room in its map. Raises lmdb.Error."""
    size = copy.stat().st_size + room_bytes + _ROOM_BYTES
    return lmdb.open(str(copy), subdir=False, lock=False, map_size=size, max_dbs=DATABASE_COUNT, sync=False)


def check_begun(journal: Journal, env: lmdb.Environment, databases: Databases) -> None:
    """Check that a log is what an interrupted `move_records` has left: it can be removed. Raises StoreFailed."""
    known = {entry.number for entry in CopiedLog(env, databases).read(1)}
    if any(entry.number not in known for entry in journal.read(1)):
        raise StoreFailed(f"{journal.folder} is not the log of the data file beside it: move one of them away")


def move_records(env: lmdb.Environment, databases: Databases, journal: Journal, where: str) -> None:
    """Move the records of a data file into a new log. Raises lmdb.Error, OSError, DamagedRecord, UnsupportedFormat."""
    source = CopiedLog(env, databases)
    with env.begin() as txn:
        positions, _ = positions_of(txn, databases, source, where)
        incarnation = read_incarnation(txn, databases, where)
        total = txn.stat(databases.journal)["entries"]
    if total:
        log.info("moving %d records of %s into the log", total, where)
    for entry in source.read(1):
        journal.append_copies([entry])
    journal.sync()
    with env.begin(write=True) as txn:
        txn.drop(databases.journal, delete=False)
        write_positions(txn, databases, positions)
        write_incarnation(txn, databases, incarnation or 0)
    if total:
        log.info("moved %d records into the log", total)


def sealed_entry(entry: LogEntry) -> bytes:
    """Return the form in a data file. The seal of a damaged record does not match."""
    value = seal(COPIED_KIND, COPIED_FORMAT, entry.data)
    return value if entry.is_sound else mismatched(value)
