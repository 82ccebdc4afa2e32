"""One message VPN of a spool that is read without a broker: its queues, their positions and ranges, its cursors.

Deliberately elsewhere: the files, and what VPNs have together (storage.backup.reader).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, final

import orjson

from sluicegate.messaging.bulk.durable_cursors import CONSUME, CursorBook, cursor_from_row
from sluicegate.messaging.bulk.range_reads import CHUNK_BYTES_MAX, RangePiece, RangeRun, gaps_of, plan_range, runs_of
from sluicegate.messaging.bulk.retained_log import RetainedLog, RetentionRules
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.recovery import StoredPartition, restore
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.messaging.partitions.state.gaps import Gap
from sluicegate.storage.catalog.queues import StoredQueue, stored_queues
from sluicegate.storage.catalog.recovered import StoredVpn
from sluicegate.storage.errors import UnknownRow
from sluicegate.storage.interface import Quarantined

if TYPE_CHECKING:
    from sluicegate.storage.backup.reader import SpoolReader

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
class VpnReader:
    """What a spool holds of one message VPN."""

    def __init__(self, spool: "SpoolReader", name: str, rows: StoredVpn) -> None:
        self.name = name
        self.rows = rows
        self._spool = spool
        # Those without a definition are read as a node would serve them.
        self.queues: dict[str, StoredQueue] = {each.name: each for each in (*self._stored_queues(), *rows.lost)}
        self.cursors = self._cursor_book()
        self._logs: dict[int, RetainedLog] = {}

    def partitions(self, queue: str) -> list[PartitionPosition]:
        """Return where the partitions of a queue stand, by number. Raises KeyError when there is no such queue."""
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
