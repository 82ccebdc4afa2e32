"""Reading a backup, or the folder of a node that has stopped, without a broker: queues, positions, ranges.

It shows what a node would that starts on these files, by the same cores: positions, what is still to be read, gaps with
their reasons. Nothing is changed, so any number of processes may read one backup at the same time. A process has one
reader of it open at a time, and that is its own: neither fork it nor send it to another one.

The journal is held in memory, as by a node; pages are read when they are asked for.
"""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self, final

import lmdb
import orjson

from messaging.batch import MessageBatch
from messaging.cursors import CONSUME, CursorBook, cursor_from_row
from messaging.flows import DeliveryRules
from messaging.gaps import Gap
from messaging.ledger import Ledger
from messaging.message_vpn import DEFAULT_VPN
from messaging.queue_config import QueueInvalid
from messaging.range_plan import CHUNK_BYTES_MAX, RangePiece, RangeRun, gaps_of, plan_range, runs_of
from messaging.recovery import StoredPartition, restore
from messaging.retention import RetainedLog, RetentionRules
from storage.backup_folder import read_note
from storage.databases import PAGE_KEY, RECORD_KEY, Databases
from storage.environment import open_to_read, translated
from storage.errors import BackupRefused, DamagedRecord, PageNotFound
from storage.identity import read_clean, read_incarnation
from storage.interface import PageKey, Quarantined, QuarantinedBytes, Recovery, Table
from storage.quarantine import browse, describe_page
from storage.queue_catalog import StoredQueue, stored_queues
from storage.record_page import Run
from storage.recovery import RecoveryScan, checked_page
from storage.stored_state import read_partitions, read_vpns

SEQUENCE_END: Final = 1 << 64  # behind every sequence


class PartitionPosition(NamedTuple):
    """Where one partition of a queue stands. All but the counts are sequences."""

    number: int
    partition_id: int
    low: int  # the first that can be read
    first_unsettled: int
    end: int  # behind the last one that was stored or settled
    waiting_count: int
    waiting_bytes: int


class StoredRange(NamedTuple):
    """A part of what was asked for: messages and gaps, both ascending, of `[first, next_sequence)`."""

    first: int
    next_sequence: int  # to go on from; that of the question's end when all was read
    runs: list[RangeRun]
    gaps: list[Gap]


@final
class SpoolReader:
    """A spool opened for reading. Close it, or use it in a `with` statement."""

    def __init__(self, env: lmdb.Environment, where: Path) -> None:
        """Use `open_backup` or `open_folder`; this takes over the environment."""
        self._env = env
        self._databases = Databases(env)
        scan = RecoveryScan(env, self._databases, repairs=False)
        recovery = self._recovery(scan, where)
        self.incarnation = recovery.incarnation
        self.was_clean = recovery.was_clean
        self.damage: list[Quarantined] = recovery.quarantined  # what could not be read, and was left out
        self.tables = {table: dict(rows) for table, rows in recovery.tables.items()}
        self.cursor_states = recovery.cursors  # by partition id
        self.pages = recovery.pages
        self.vpns = read_vpns({table: rows.items() for table, rows in self.tables.items()})
        self._queues = {name: {each.name: each for each in self._stored_queues(name)} for name in self.vpns}
        self._cursors = {name: self._cursor_book(name) for name in self.vpns}
        self.enter(DEFAULT_VPN)
        self._stored, records = read_partitions(recovery)
        self.journal_records_count = len(records)
        self._logs: dict[int, RetainedLog] = {}

    @classmethod
    def open_backup(cls, folder: Path) -> Self:
        """Open a backup. Raises BackupRefused, UnsupportedFormat, DamagedRecord, StoreFailed."""
        read_note(folder)
        return cls.open_folder(folder)

    @classmethod
    def open_folder(cls, folder: Path) -> Self:
        """Open the data folder of a node that does not run.

        Raises BackupRefused when there is no spool, UnsupportedFormat, DamagedRecord, StoreFailed.
        """
        with translated(folder, needed_bytes=0):
            env = open_to_read(folder)
            try:
                return cls(env, folder)
            except BaseException:
                env.close()
                raise

    def enter(self, vpn: str) -> None:
        """Read what is of this message VPN from now on, at first `default`. Raises KeyError for one without rows."""
        self.vpn = vpn
        self.queues: dict[str, StoredQueue] = self._queues[vpn]
        self.cursors: CursorBook = self._cursors[vpn]

    def partitions(self, queue: str) -> list[PartitionPosition]:
        """Return where the partitions of a queue stand, by number. Raises KeyError when there is no such queue."""
        positions: list[PartitionPosition] = []
        for number, partition_id in enumerate(self.queues[queue].partition_ids):
            log = self._log(queue, partition_id)
            ledger = log.ledger
            end = _end_of(self._stored.get(partition_id))
            positions.append(
                PartitionPosition(
                    number=number,
                    partition_id=partition_id,
                    low=min(log.low(), end),
                    first_unsettled=min(ledger.floor, end),
                    end=end,
                    waiting_count=ledger.waiting_count,
                    waiting_bytes=ledger.waiting_bytes,
                )
            )
        return positions

    def check(self, queue: str) -> None:
        """Assert that the messages of a queue add up, as a node that starts would have them."""
        for partition_id in self.queues[queue].partition_ids:
            log = self._log(queue, partition_id)
            log.ledger.check()
            log.check()

    def read(
        self, queue: str, partition: int, first: int, end: int = SEQUENCE_END, *, bytes_max: int = CHUNK_BYTES_MAX
    ) -> StoredRange:
        """Return about `bytes_max` of payload of the sequences `[first, end)` of a partition.

        What can be read, and what a gap is called, is as in a range read of a node that has just started. An answer
        whose `next_sequence` is its `first` has come to the end. Raises KeyError and IndexError for a queue or a
        partition that is not there, StoreFailed.
        """
        partition_id = self.queues[queue].partition_ids[partition]
        log = self._log(queue, partition_id)
        plan = plan_range(log, first, min(end, _end_of(self._stored.get(partition_id))), bytes_max)
        runs: list[RangeRun] = []
        damaged: list[RangePiece] = []
        pages: dict[int, list[tuple[int, MessageBatch]] | None] = {}
        for piece in plan.pieces:
            page: list[tuple[int, MessageBatch]] | None = None
            if piece.batch is None:
                if piece.page_first not in pages:
                    pages[piece.page_first] = self._page(partition_id, piece.page_first)
                page = pages[piece.page_first]
                if page is None:
                    damaged.append(piece)
                    continue
            runs += runs_of(piece, page)
        return StoredRange(first, plan.next_sequence, runs, gaps_of(log, plan, runs, damaged))

    def read_page(self, partition_id: int, first_sequence: int) -> list[Run]:
        """Return the runs of a page. Raises PageNotFound, DamagedRecord, UnsupportedFormat, StoreFailed."""
        with translated(Path(), needed_bytes=0), self._env.begin() as txn:
            data = txn.get(PAGE_KEY.pack(partition_id, first_sequence), db=self._databases.pages)
        return checked_page(data, partition_id, first_sequence)

    def page_keys(self) -> Iterator[PageKey]:
        """Yield the names of all pages that there are, whatever the directory says."""
        with self._env.begin() as txn, txn.cursor(db=self._databases.pages) as cursor:
            for key in cursor.iternext(keys=True, values=False):
                yield PageKey(*PAGE_KEY.unpack(key))

    def quarantine(self, limit: int) -> list[QuarantinedBytes]:
        """Return up to `limit` items of the quarantine. Raises DamagedRecord for one that is damaged in its turn."""
        with self._env.begin() as txn:
            return list(browse(txn, self._databases, 0, limit))

    def close(self) -> None:
        """Release the files. May be called twice."""
        self._env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _recovery(self, scan: RecoveryScan, where: Path) -> Recovery:
        with self._env.begin() as txn:
            incarnation = read_incarnation(txn, self._databases, f"the store in {where}")
            if incarnation is None:
                raise BackupRefused(f"there is no spool in {where}")
            clean = read_clean(txn, self._databases)
            with txn.cursor(db=self._databases.journal) as cursor:
                last = RECORD_KEY.unpack(cursor.key())[0] if cursor.last() else 0
        return Recovery(
            incarnation=incarnation,
            was_clean=clean,
            next_record_number=last + 1,
            cursors=scan.cursors(),
            pages=scan.pages(),
            journal=scan.journal(),
            tables={table: scan.rows(table) for table in Table},
            quarantined=scan.quarantined,
        )

    def _log(self, queue: str, partition_id: int) -> RetainedLog:
        """Return a partition as a node would have it that has just started."""
        log = self._logs.get(partition_id)
        if log is None:
            log = self._logs[partition_id] = self._restored(queue, partition_id)
        return log

    def _restored(self, queue: str, partition_id: int) -> RetainedLog:
        config = self.queues[queue].definition.config
        ledger = Ledger(durable=True, rules=DeliveryRules())
        rules = RetentionRules(time_ms=config.retention_time_s * 1000, size_bytes=config.retention_bytes_max())
        log = RetainedLog(ledger, rules)
        held = self._stored.get(partition_id)
        if held is not None:
            restore(ledger, held, was_clean=self.was_clean)
        for cursor in self.cursors.of(queue):
            hold = cursor.hold(partition_id)
            if hold is not None:
                log.hold(cursor.name, hold)
            if cursor.mode == CONSUME:
                ledger.consume(ledger.floor, cursor.position(partition_id))
        if held is not None and (rules.on() or log.holds):
            log.restore(held)
        return log

    def _page(self, partition_id: int, first_sequence: int) -> list[tuple[int, MessageBatch]] | None:
        """Return the runs of a page, or None for one that cannot be read."""
        try:
            runs = self.read_page(partition_id, first_sequence)
        except (DamagedRecord, PageNotFound) as error:
            self.damage.append(Quarantined(describe_page(partition_id, first_sequence), "damaged", str(error)))
            return None
        return [(run.first_sequence, run.batch) for run in runs]

    def _cursor_book(self, vpn: str) -> CursorBook:
        book = CursorBook()
        for key, value in self.vpns[vpn].readers.items():
            try:
                book.add(cursor_from_row(orjson.loads(value)))
            except ValueError as error:
                detail = f"it is no durable cursor of this release: {error}"
                self.damage.append(Quarantined(f"row {key!r} of readers", "damaged", detail))
        return book

    def _stored_queues(self, vpn: str) -> Iterator[StoredQueue]:
        for key, value in self.vpns[vpn].catalog.items():
            try:
                yield from stored_queues({key: value})
            except (QueueInvalid, ValueError, KeyError, TypeError) as error:  # another release may know more attributes
                self.damage.append(
                    Quarantined(f"row {key!r} of catalog", "damaged", f"it is no queue of this release: {error}")
                )


def _end_of(stored: StoredPartition | None) -> int:
    """Return the sequence behind the last that is known to have been used. A node may have reserved many more."""
    if stored is None:
        return 1
    ends = [each.end for each in stored.pages] + [each.first + each.batch.count for each in stored.batches]
    return max([1, stored.floor, *stored.settled.ends, *ends])
