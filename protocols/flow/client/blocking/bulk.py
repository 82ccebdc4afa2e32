"""Bulk reading and writing without asyncio, run on the client's thread."""

from collections.abc import Mapping

from sluicegate.messaging.bulk.durable_cursors import TAP
from sluicegate.protocols.flow.client.aio.bulk import (
    AHEAD_DEFAULT,
    COLUMNS_DEFAULT,
    END_MAX,
    NO_BOUNDS,
    Bulk,
    Column,
    Cursor,
    RangeReader,
)
from sluicegate.protocols.flow.client.blocking.loop_thread import LoopThread
from sluicegate.protocols.flow.client.blocking.owner import BlockingIterator
from sluicegate.protocols.flow.codec.columns import ColumnWriter
from sluicegate.protocols.flow.codec.frames.cursor import Position, Positions
from sluicegate.protocols.flow.codec.frames.rows import RowsReceived
from sluicegate.protocols.flow.codec.frames.stage import StagingAnswer


class BlockingCursor:
    """`Cursor`, without asyncio."""

    def __init__(self, thread: LoopThread, cursor: Cursor) -> None:
        self._thread = thread
        self.cursor = cursor

    @property
    def epoch(self) -> int:
        """Which bind of the cursor this is."""
        return self.cursor.epoch

    @property
    def incarnation(self) -> int:
        """Of the spool: sequences of another one mean nothing here."""
        return self.cursor.incarnation

    @property
    def vpn(self) -> str:
        """The message VPN that the queue is in; empty: the gateway did not say."""
        return self.cursor.vpn

    @property
    def positions(self) -> tuple[Position, ...]:
        """As of the last answer that named them."""
        return self.cursor.positions

    def acknowledge(self, before: Mapping[int, int], *, batch_ref: str = "") -> Positions:
        """As `Cursor.acknowledge`."""
        return self._thread.run(self.cursor.acknowledge(before, batch_ref=batch_ref))

    def pin(self, before: Mapping[int, int]) -> None:
        """As `Cursor.pin`."""
        self._thread.run(self.cursor.pin(before))

    def status(self, above: Mapping[int, int] | None = None, *, wait_s: float = 0.0) -> Positions:
        """As `Cursor.status`."""
        return self._thread.run(self.cursor.status(above, wait_s=wait_s))

    def unbind(self) -> None:
        """As `Cursor.unbind`."""
        self._thread.run(self.cursor.unbind())


class BlockingRangeReader(BlockingIterator[RowsReceived]):
    """`RangeReader`, without asyncio."""

    def __init__(self, thread: LoopThread, reader: RangeReader) -> None:
        super().__init__(thread, reader)
        self._reader = reader

    @property
    def incarnation(self) -> int:
        """As `RangeReader.incarnation`."""
        return self._reader.incarnation

    @property
    def next_sequence(self) -> int:
        """As `RangeReader.next_sequence`."""
        return self._reader.next_sequence


class BlockingBulk:
    """`Bulk`, without asyncio."""

    def __init__(self, thread: LoopThread, bulk: Bulk) -> None:
        self._thread = thread
        self._bulk = bulk

    def read_range(
        self,
        queue: str,
        *,
        partition: int = 0,
        first: int,
        end: int = END_MAX,
        columns: Column = COLUMNS_DEFAULT,
        chunk_bytes: int = 0,
        ahead: int = AHEAD_DEFAULT,
        cursor: BlockingCursor | None = None,
    ) -> BlockingRangeReader:
        """As `Bulk.read_range`."""
        reader = self._bulk.read_range(
            queue,
            partition=partition,
            first=first,
            end=end,
            columns=columns,
            chunk_bytes=chunk_bytes,
            ahead=ahead,
            cursor=None if cursor is None else cursor.cursor,
        )
        return BlockingRangeReader(self._thread, reader)

    def queue_status(self, queue: str) -> Positions:
        """As `Bulk.queue_status`."""
        return self._thread.run(self._bulk.queue_status(queue))

    def cut_ranges(
        self,
        queue: str,
        firsts: Mapping[int, int],
        *,
        usage_bytes: Mapping[int, int] = NO_BOUNDS,
        rows: Mapping[int, int] = NO_BOUNDS,
    ) -> dict[int, int]:
        """As `Bulk.cut_ranges`."""
        return self._thread.run(self._bulk.cut_ranges(queue, firsts, usage_bytes=usage_bytes, rows=rows))

    def bind_cursor(
        self,
        queue: str,
        name: str,
        *,
        mode: str = TAP,
        instance: str = "",
        start: str = "",
        lag_bytes_max: int = 0,
        lag_time_ms_max: int = 0,
        heartbeat_s: float = 0.0,
    ) -> BlockingCursor:
        """As `Bulk.bind_cursor`."""
        bound = self._bulk.bind_cursor(
            queue,
            name,
            mode=mode,
            instance=instance,
            start=start,
            lag_bytes_max=lag_bytes_max,
            lag_time_ms_max=lag_time_ms_max,
            heartbeat_s=heartbeat_s,
        )
        return BlockingCursor(self._thread, self._thread.run(bound))

    def bound_cursor(self, queue: str, name: str, epoch: int) -> BlockingCursor:
        """As `Bulk.bound_cursor`."""
        return BlockingCursor(self._thread, self._bulk.bound_cursor(queue, name, epoch))

    def look_at_cursor(self, queue: str, name: str) -> Positions:
        """As `Bulk.look_at_cursor`."""
        return self._thread.run(self._bulk.look_at_cursor(queue, name))

    def delete_cursor(self, queue: str, name: str) -> None:
        """As `Bulk.delete_cursor`."""
        self._thread.run(self._bulk.delete_cursor(queue, name))

    def stage(
        self,
        transaction: str,
        columns: ColumnWriter,
        count: int,
        *,
        part: int = 0,
        attempt: int = 0,
        to_queues: bool = False,
    ) -> StagingAnswer:
        """As `Bulk.stage`."""
        return self._thread.run(
            self._bulk.stage(transaction, columns, count, part=part, attempt=attempt, to_queues=to_queues)
        )

    def commit_staged(self, transaction: str, attempts: Mapping[int, int]) -> StagingAnswer:
        """As `Bulk.commit_staged`."""
        return self._thread.run(self._bulk.commit_staged(transaction, attempts))

    def abort_staged(self, transaction: str) -> StagingAnswer:
        """As `Bulk.abort_staged`."""
        return self._thread.run(self._bulk.abort_staged(transaction))
