"""Reads a backup, or the folder of a stopped node, without a broker. A VpnReader reads each message VPN.

The reader shows the state of a node that starts on these files, and uses the same cores: positions, unread messages,
gaps with their reasons. It changes nothing, so any number of processes may read one backup at the same time. A process
may have one reader of a backup open at a time; do not fork it or send it to another process.

The reader keeps the journal in memory, as a node does, and reads pages on demand.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self, final

import lmdb
import orjson

from sluicegate.messaging.bulk.durable_cursors import CONSUME, CursorBook, cursor_from_row
from sluicegate.messaging.bulk.range_reads import CHUNK_BYTES_MAX, RangePiece, RangeRun, gaps_of, plan_range, runs_of
from sluicegate.messaging.bulk.retained_log import RetainedLog, RetentionRules
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.recovery import StoredPartition, restore
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.messaging.partitions.state.segments import Gap
from sluicegate.storage.backup.folder import read_note
from sluicegate.storage.catalog.copied_log import CopiedLog, holds_records, positions_of
from sluicegate.storage.catalog.partition_owners import find_lost
from sluicegate.storage.catalog.queues import StoredQueue, stored_queues
from sluicegate.storage.catalog.recovered import StoredVpn, read_partitions, read_vpns
from sluicegate.storage.catalog.recovery import RecoveryScan, checked_page
from sluicegate.storage.environment.databases import PAGE_KEY, Databases, key_numbers
from sluicegate.storage.environment.environment import open_to_read, translated
from sluicegate.storage.environment.identity import read_clean, read_incarnation
from sluicegate.storage.environment.quarantine import browse, describe_page
from sluicegate.storage.errors import BackupRefused, DamagedRecord, PageNotFound, UnknownRow
from sluicegate.storage.interface import PageKey, Quarantined, QuarantinedBytes, Recovery, Table
from sluicegate.storage.log.journal import LOG_FOLDER, Journal
from sluicegate.storage.log.links import StoredPage, page_and_links, whole_page
from sluicegate.storage.log.replay import Replay
from sluicegate.storage.log.tail import LogTail, TailChanges
from sluicegate.storage.records.page import PageRuns

SEQUENCE_END: Final = 1 << 64  # behind every sequence


class PartitionPosition(NamedTuple):
    """The position of one partition of a queue. All values except the counts are sequences."""

    number: int
    partition_id: int
    low: int  # the first readable sequence
    first_unsettled: int
    end: int  # behind the last stored or settled sequence
    waiting_count: int
    waiting_bytes: int


class StoredRange(NamedTuple):
    """A part of the requested range: messages and gaps, both ascending, of `[first, next_sequence)`."""

    first: int
    next_sequence: int  # where to continue; the end of the requested range when all was read
    runs: list[RangeRun]
    gaps: list[Gap]


@final
class VpnReader:
    """One message VPN of a spool: its queues, their positions and ranges, its cursors."""

    def __init__(self, spool: "SpoolReader", name: str, rows: StoredVpn) -> None:
        self.name = name
        self.rows = rows
        self._spool = spool
        # Queues without a definition are read as a node would serve them.
        self.queues: dict[str, StoredQueue] = {each.name: each for each in (*self._stored_queues(), *rows.lost)}
        self.cursors = self._cursor_book()
        self._logs: dict[int, RetainedLog] = {}

    def partitions(self, queue: str) -> list[PartitionPosition]:
        """Return the positions of a queue's partitions, by number. Raises KeyError for an unknown queue."""
        positions: list[PartitionPosition] = []
        for number, partition_id in enumerate(self.queues[queue].partition_ids):
            log = self._log(queue, partition_id)
            ledger = log.ledger
            end = _end_of(self._spool.partition(partition_id))
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
        """Assert that the messages of a queue are consistent, as a starting node would load them."""
        for partition_id in self.queues[queue].partition_ids:
            log = self._log(queue, partition_id)
            log.ledger.check()
            log.check()

    def read(
        self, queue: str, partition: int, first: int, end: int = SEQUENCE_END, *, bytes_max: int = CHUNK_BYTES_MAX
    ) -> StoredRange:
        """Return about `bytes_max` of payload of the sequences `[first, end)` of a partition.

        Readable messages and names of gaps are those of a range read on a node that has just started. An answer with
        `next_sequence` equal to its `first` is at the end. Raises KeyError and IndexError for an unknown queue or
        partition, StoreFailed.
        """
        partition_id = self.queues[queue].partition_ids[partition]
        log = self._log(queue, partition_id)
        plan = plan_range(log, first, min(end, _end_of(self._spool.partition(partition_id))), bytes_max)
        runs: list[RangeRun] = []
        damaged: list[RangePiece] = []
        pages: dict[int, list[tuple[int, MessageBatch]] | None] = {}
        for piece in plan.pieces:
            page: list[tuple[int, MessageBatch]] | None = None
            if piece.batch is None:
                if piece.page_first not in pages:
                    pages[piece.page_first] = self._spool.page(partition_id, piece.page_first)
                page = pages[piece.page_first]
                if page is None:
                    damaged.append(piece)
                    continue
            runs += runs_of(piece, page)
        return StoredRange(first, plan.next_sequence, runs, gaps_of(log, plan, runs, damaged))

    def _log(self, queue: str, partition_id: int) -> RetainedLog:
        """Return a partition in the state of a node that has just started."""
        log = self._logs.get(partition_id)
        if log is None:
            log = self._logs[partition_id] = self._restored(queue, partition_id)
        return log

    def _restored(self, queue: str, partition_id: int) -> RetainedLog:
        config = self.queues[queue].definition.config
        ledger = Ledger(durable=True, rules=DeliveryRules())
        rules = RetentionRules(time_ms=config.retention_time_s * 1000, size_bytes=config.retention_bytes_max())
        log = RetainedLog(ledger, rules)
        held = self._spool.partition(partition_id)
        if held is not None:
            restore(ledger, held, was_clean=self._spool.was_clean)
        for cursor in self.cursors.of(queue):
            hold = cursor.hold(partition_id)
            if hold is not None:
                log.hold(cursor.name, hold)
            if cursor.mode == CONSUME:
                ledger.consume(ledger.floor, cursor.position(partition_id))
        if held is not None and (rules.on() or log.holds):
            log.restore(held)
            log.count_rows()
        return log

    def _cursor_book(self) -> CursorBook:
        book = CursorBook()
        for key, value in self.rows.readers.items():
            try:
                book.add(cursor_from_row(orjson.loads(value)))
            except ValueError as error:
                detail = f"it is no durable cursor of this release: {error}"
                self._spool.damage.append(Quarantined(f"row {key!r} of readers", "damaged", detail))
        return book

    def _stored_queues(self) -> Iterator[StoredQueue]:
        for key, value in self.rows.catalog.items():
            try:
                yield from stored_queues({key: value})
            except UnknownRow as error:
                self._spool.damage.append(Quarantined(f"row {key!r} of catalog", "damaged", str(error)))


def _end_of(stored: StoredPartition | None) -> int:
    return 1 if stored is None else stored.known_end()


@final
class SpoolReader:
    """A spool opened for reading. Close it, or use it in a `with` statement."""

    def __init__(self, env: lmdb.Environment, where: Path) -> None:
        """Use `open_backup` or `open_folder`; this takes over the environment."""
        self._env = env
        self._databases = Databases(env)
        self._tail = LogTail()
        self._log = where / LOG_FOLDER
        recovery = self._recovery(where)
        self.incarnation = recovery.incarnation
        self.was_clean = recovery.was_clean
        self.damage: list[Quarantined] = recovery.quarantined  # unreadable items, which were omitted
        self.tables = {table: dict(rows) for table, rows in recovery.tables.items()}
        self.cursor_states = recovery.cursors  # by partition id
        self.pages = recovery.pages
        stored = read_vpns({table: rows.items() for table, rows in self.tables.items()})
        self._stored, records = read_partitions(recovery)
        find_lost(stored, self._stored)
        self.vpns = {name: VpnReader(self, name, rows) for name, rows in stored.items()}  # `default` is among them
        self.journal_records_count = len(records)

    @classmethod
    def open_backup(cls, folder: Path) -> Self:
        """Open a backup. Raises BackupRefused, UnsupportedFormat, DamagedRecord, StoreFailed."""
        read_note(folder)
        return cls.open_folder(folder)

    @classmethod
    def open_folder(cls, folder: Path) -> Self:
        """Open the data folder of a stopped node.

        Raises BackupRefused when there is no spool, UnsupportedFormat, DamagedRecord, StoreFailed.
        """
        with translated(folder, needed_bytes=0):
            env = open_to_read(folder)
            try:
                return cls(env, folder)
            except BaseException:
                env.close()
                raise

    def partition(self, partition_id: int) -> StoredPartition | None:
        """Return the stored content of a partition, None when there is none."""
        return self._stored.get(partition_id)

    def read_page(self, partition_id: int, first_sequence: int) -> PageRuns:
        """Return the readable part of a page. Raises PageNotFound, DamagedRecord, UnsupportedFormat, StoreFailed."""
        data = self._tail.page(PageKey(partition_id, first_sequence))
        if data is not None:
            return checked_page(data, partition_id, first_sequence)
        read = partial(self._stored_page, PAGE_KEY.pack(partition_id, first_sequence))
        with translated(Path(), needed_bytes=0):
            data = whole_page(read, self._log, describe_page(partition_id, first_sequence))
        return checked_page(data, partition_id, first_sequence)

    def _stored_page(self, key: bytes, known: StoredPage) -> StoredPage:
        with self._env.begin() as txn:
            return page_and_links(txn, self._databases, key, known)

    def page(self, partition_id: int, first_sequence: int) -> list[tuple[int, MessageBatch]] | None:
        """Return the runs of a page, or None for an unreadable page."""
        try:
            runs, lost = self.read_page(partition_id, first_sequence)
        except (DamagedRecord, PageNotFound) as error:
            self.damage.append(Quarantined(describe_page(partition_id, first_sequence), "damaged", str(error)))
            return None
        if lost:
            self.damage.append(Quarantined(describe_page(partition_id, first_sequence), "damaged", lost))
        return [(run.first_sequence, run.batch) for run in runs]

    def page_keys(self) -> Iterator[PageKey]:
        """Yield the keys of all existing pages, whether the directory has them or not."""
        with self._env.begin() as txn, txn.cursor(db=self._databases.pages) as cursor:
            for key in cursor.iternext(keys=True, values=False):
                yield PageKey(*key_numbers(PAGE_KEY, key))

    def quarantine(self, limit: int) -> list[QuarantinedBytes]:
        """Return up to `limit` items of the quarantine. Raises DamagedRecord for an item that is itself damaged."""
        with self._env.begin() as txn:
            return list(browse(txn, self._databases, limit))

    def close(self) -> None:
        """Release the files. May be called twice."""
        self._env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _recovery(self, where: Path) -> Recovery:
        place = f"the store in {where}"
        with self._env.begin() as txn:
            incarnation = read_incarnation(txn, self._databases, place)
            if incarnation is None:
                raise BackupRefused(f"there is no spool in {where}")
            clean = read_clean(txn, self._databases)
            is_copy = holds_records(txn, self._databases)
        source: Journal | CopiedLog
        if is_copy:
            source = CopiedLog(self._env, self._databases)
        else:
            source = Journal(where / LOG_FOLDER, incarnation, segment_bytes=0, sync=False)
        with self._env.begin() as txn:
            positions, damaged = positions_of(txn, self._databases, source, place)
        replay = Replay(source, positions)
        for number, record in replay.unapplied():
            self._tail.add(number, record)
        changes = TailChanges(self._tail.through(source.last_number))
        scan = RecoveryScan(self._env, self._databases, replay, changes, repairs=False)
        scan.quarantined += damaged
        return Recovery(
            incarnation=incarnation,
            was_clean=clean and source.last_number <= positions.applied,
            next_record_number=max(source.last_number, positions.applied) + 1,
            cursors=scan.cursors(),
            pages=scan.pages(),
            journal=scan.journal(),
            tables={table: scan.rows(table) for table in Table},
            quarantined=scan.quarantined,
            lost_cursors=scan.lost_cursors,
            applied=positions.applied,
        )
