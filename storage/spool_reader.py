"""Reading a backup, or the folder of a node that has stopped, without a broker: queues, positions, ranges.

It shows what a node would that starts on these files, by the same cores: positions, what is still to be read, gaps with
their reasons. Nothing is changed, so any number of processes may read one backup at the same time. A process has one
reader of it open at a time, and that is its own: neither fork it nor send it to another one.

The journal is held in memory, as by a node; pages are read when they are asked for.
"""

from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self, final

import lmdb

from messaging.batch import MessageBatch
from messaging.cursors import CONSUME
from messaging.flows import DeliveryRules
from messaging.gaps import Gap
from messaging.ledger import Ledger
from messaging.range_plan import CHUNK_BYTES_MAX, RangePiece, RangeRun, gaps_of, plan_range, runs_of
from messaging.recovery import StoredPartition, restore
from messaging.retention import RetainedLog, RetentionRules
from storage.backup_folder import read_note
from storage.databases import PAGE_KEY, RECORD_KEY, Databases
from storage.environment import open_to_read, translated
from storage.errors import BackupRefused, DamagedRecord, PageNotFound
from storage.identity import read_clean, read_incarnation
from storage.interface import Quarantined, Recovery, Table
from storage.queue_catalog import StoredQueue, stored_queues
from storage.recovery import RecoveryScan, checked_page
from storage.stored_state import read_cursor_book, read_partitions

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
        tables = {table: dict(rows) for table, rows in recovery.tables.items()}
        self.queues: dict[str, StoredQueue] = {each.name: each for each in stored_queues(tables[Table.CATALOG])}
        self.cursors = read_cursor_book(tables[Table.READERS])
        self.row_counts = {table: len(rows) for table, rows in tables.items()}
        self._stored, records = read_partitions(recovery)
        self.journal_records_count = len(records)
        self.damage: list[Quarantined] = recovery.quarantined  # what could not be read, and was left out
        self._logs: dict[int, RetainedLog] = {}

    @classmethod
    def open_backup(cls, folder: Path) -> Self:
        """Open a backup. Raises BackupRefused, UnsupportedFormat, DamagedRecord, StoreFailed."""
        read_note(folder)
        return cls._open(folder, in_use=False)

    @classmethod
    def open_folder(cls, folder: Path, *, in_use: bool = False) -> Self:
        """Open the data folder of a node, which has to be on this machine; with `in_use` one that runs.

        Raises BackupRefused when there is no spool, UnsupportedFormat, DamagedRecord, StoreFailed.
        """
        return cls._open(folder, in_use=in_use)

    @classmethod
    def _open(cls, folder: Path, *, in_use: bool) -> Self:
        with translated(folder, needed_bytes=0):
            env = open_to_read(folder, in_use=in_use)
            try:
                return cls(env, folder)
            except BaseException:
                env.close()
                raise

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
        with translated(Path(), needed_bytes=0), self._env.begin() as txn:
            data = txn.get(PAGE_KEY.pack(partition_id, first_sequence), db=self._databases.pages)
        try:
            runs = checked_page(data, partition_id, first_sequence)
        except (DamagedRecord, PageNotFound) as error:
            self.damage.append(Quarantined(f"page {first_sequence} of partition {partition_id}", "damaged", str(error)))
            return None
        return [(run.first_sequence, run.batch) for run in runs]


def _end_of(stored: StoredPartition | None) -> int:
    """Return the sequence behind the last that is known to have been used. A node may have reserved many more."""
    if stored is None:
        return 1
    ends = [each.end for each in stored.pages] + [each.first + each.batch.count for each in stored.batches]
    return max([1, stored.floor, *stored.settled.ends, *ends])
