"""The reading side of a partition: range reads, and the messages kept for readers.

messaging.bulk.range_reads plans the reads, and messaging.bulk.retained_log decides what is kept. Pages are read for the
request only: they do not enter the partition's memory.
"""

from typing import Any

from sluicegate.actors.messages.readers import (
    ConsumeThrough,
    DescribeLog,
    FindRangeEnd,
    HoldLog,
    HoldOverview,
    LogOverview,
    PartitionRequest,
    PrepareReplay,
    RangeChunk,
    ReadFailed,
    ReadRange,
)
from sluicegate.actors.messages.spool import PageRead, ReadPage
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.spool.store_threads import StoreReader
from sluicegate.messaging.bulk.range_reads import RangePiece, RangePlan, RangeRun, gaps_of, plan_range, runs_of
from sluicegate.messaging.bulk.retained_log import RetainedLog
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch


class RangeReader:
    """Answers the requests of readers to one partition."""

    def __init__(self, log: RetainedLog, *, number: int, partition_id: int, reader: StoreReader | None) -> None:
        self._log = log
        self._number = number
        self._partition_id = partition_id
        self._reader = reader
        self.replay: tuple[int, int] | None = None  # what the next ledger is to deliver again

    def receive(self, request: PartitionRequest) -> Any:
        """Answer one request. A queue that is never written has nothing in the store, so nothing to read."""
        log = self._log
        if isinstance(request, ReadRange):
            read = RangeRead(log, request, number=self._number, partition_id=self._partition_id, reader=self._reader)
            read.begin()
            return read.answer
        if isinstance(request, FindRangeEnd):
            end = log.cut(request.first, bytes_max=request.bytes_max, rows_max=request.rows_max)
            return min(end, max(request.first, log.synced_end()))
        if isinstance(request, PrepareReplay):
            return self._prepare_replay(request)
        if isinstance(request, ConsumeThrough):
            return log.ledger.consume(log.ledger.floor, request.end)
        if isinstance(request, HoldLog):
            if request.sequence is None:
                log.release(request.reader)
            else:
                log.hold(request.reader, request.sequence)
        else:
            assert isinstance(request, DescribeLog)
        return self._overview()

    def _prepare_replay(self, request: PrepareReplay) -> int:
        log = self._log
        since = log.first_since(request.since_ms) if request.since_ms else request.first
        first, end = max(since, log.low()), min(request.end, log.ledger.next_sequence)
        count = log.settled_count(first, end) if log.active and first < end else 0
        self.replay = (first, end) if count else None
        return count

    def _overview(self) -> LogOverview:
        log = self._log
        synced_end = log.synced_end()
        bytes_synced = log.bytes_at(synced_end)
        holds: dict[str, HoldOverview] = {}
        for reader, sequence in log.holds.items():
            oldest = log.at_or_after(sequence)
            waits = oldest is not None and oldest.first < synced_end
            holds[reader] = HoldOverview(
                sequence,
                max(0, bytes_synced - log.bytes_at(sequence)),
                oldest.arrived_ms if oldest is not None and waits else 0,
            )
        return LogOverview(
            number=self._number,
            partition_id=self._partition_id,
            low=log.low(),
            synced_end=synced_end,
            next_sequence=log.ledger.next_sequence,
            bytes_end=log.bytes_end,
            holds=holds,
        )


class RangeRead(Address):
    """One chunk in progress: all its pages are requested at once, and the answer is given when the last has come."""

    def __init__(
        self, log: RetainedLog, request: ReadRange, *, number: int, partition_id: int, reader: StoreReader | None
    ) -> None:
        self._log = log
        self._number = number
        self._partition_id = partition_id
        self._reader = reader
        self._plan: RangePlan = plan_range(log, request.first, request.end, request.bytes_max)
        self._pages: dict[int, list[tuple[int, MessageBatch]]] = {}
        self._damaged: set[int] = set()
        self._failed = False
        self._awaited_count = 0
        self.answer: LoopFuture[RangeChunk] = LoopFuture()

    def begin(self) -> None:
        """Request the pages; without any, answer at once."""
        wanted = list(dict.fromkeys([each.page_first for each in self._plan.pieces if each.batch is None]))
        self._awaited_count = len(wanted)
        for first in wanted:
            assert self._reader is not None, "only durable queues have pages"
            self._reader.read(ReadPage(self, self._partition_id, first))
        if not wanted:
            self._finish()

    def post(self, message: object) -> None:
        """Handle a page that was read."""
        assert isinstance(message, PageRead)
        if message.failed:
            self._failed = True
        elif message.damage:
            self._damaged.add(message.first_sequence)
        self._pages[message.first_sequence] = message.runs
        self._awaited_count -= 1
        if self._awaited_count > 0:
            return
        if self._failed:
            error = ReadFailed(f"pages of partition {self._number} cannot be read now")
            self.answer.set_exception((ReadFailed, error, None))
        else:
            self._finish()

    def _finish(self) -> None:
        runs: list[RangeRun] = []
        damaged: list[RangePiece] = []
        for piece in self._plan.pieces:
            if piece.batch is None and piece.page_first in self._damaged:
                damaged.append(piece)
            else:
                runs += runs_of(piece, self._pages.get(piece.page_first))
        plan = self._plan
        gaps = gaps_of(self._log, plan, runs, damaged)
        self.answer.set(RangeChunk(self._number, plan.first, plan.next_sequence, plan.synced_end, runs, gaps))
