"""The directory of durable cursors: binds them, stores their rows, and tells partitions what to keep for them.

messaging.bulk.durable_cursors decides about epochs, positions and lag. An answer that promises durability is given when
the store has the cursor's row. Long polls wait in actors.cursors.long_polls.
"""

import logging
from typing import Any, Final

import orjson
from pykka import ActorDeadError

from sluicegate.actors.cursors.long_polls import StatusWaiters
from sluicegate.actors.messages.data import Confirmed, PublishFailed
from sluicegate.actors.messages.directory import FindQueue, LocalQueue, QueueHandle
from sluicegate.actors.messages.queues import BindRefused
from sluicegate.actors.messages.readers import (
    AckCursor,
    AskPartitions,
    BindCursor,
    CommitSeen,
    ConsumeThrough,
    CursorBound,
    CursorOverview,
    CursorPosition,
    CursorSeen,
    CursorStatus,
    DeleteCursor,
    DescribeLog,
    HeartbeatCursor,
    HoldLog,
    ListCursors,
    LogOverview,
    LookAtCursor,
    PartitionRequest,
    PinCursor,
    ReleaseQueue,
    ReserveQueue,
    UnbindCursor,
)
from sluicegate.actors.messages.spool import WriteTables
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell, TimerHandle
from sluicegate.actors.runtime.tasks import run
from sluicegate.messaging.bulk.durable_cursors import (
    AHEAD,
    BAD_CURSOR,
    BATCH_REF_CHARS_MAX,
    CONSUME,
    CURSORS_PER_QUEUE_MAX,
    EARLIEST,
    LATEST,
    MODE_DIFFERS,
    NO_SUCH_CURSOR,
    NO_SUCH_PARTITION,
    NO_SUCH_QUEUE,
    NOT_DURABLE,
    NOT_STORED,
    QUEUE_IN_USE,
    TOO_MANY,
    CursorBook,
    CursorRefused,
    DurableCursor,
    check_bind,
)
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.observability.events import (
    VPN_CURSOR_BINDING_LOST,
    VPN_CURSOR_LAG_CLEAR,
    VPN_CURSOR_LAG_EXCEEDED,
    as_word,
)
from sluicegate.storage.interface import Table, TableWrite

log = logging.getLogger("sluicegate.cursors")

FIRST_EPOCH: Final = 1  # of a new cursor
MAINTENANCE_INTERVAL_MS: Final = 1000  # how late a silent binding or an exceeded lag may be noticed


class CursorDirectory(LoopActor):
    """All durable cursors of a message VPN."""

    def __init__(
        self,
        cell: ActorCell,
        *,
        book: CursorBook,
        queues: ActorCell,
        spool: Address,
        row_prefix: bytes,
        incarnation: int,
        events: Events,
    ) -> None:
        super().__init__(cell)
        self._row_prefix = row_prefix  # before the keys of the VPN's rows
        self._events = events
        self._book = book
        self._queues = queues
        self._spool = spool
        self._incarnation = incarnation
        self._tokens = 0
        self._writing: dict[int, LoopFuture[str]] = {}
        self._deleting: dict[bytes, LoopFuture[None]] = {}  # by row key: deletions not stored yet
        self._timer: TimerHandle | None = None
        self._waiters = StatusWaiters(cell, spool, self._positions)
        self.handlers = {
            BindCursor: lambda message: run(self.runtime, self._bind(message)),
            AckCursor: lambda message: run(self.runtime, self._acknowledge(message)),
            PinCursor: lambda message: run(self.runtime, self._pin(message)),
            CursorStatus: self._status,
            HeartbeatCursor: lambda message: self._live(message.queue, message.cursor, message.epoch),
            UnbindCursor: lambda message: run(self.runtime, self._unbind(message)),
            DeleteCursor: lambda message: run(self.runtime, self._delete(message)),
            LookAtCursor: lambda message: run(self.runtime, self._look(message)),
            ListCursors: lambda message: run(self.runtime, self._list(message)),
            CommitSeen: lambda _: self._waiters.commit_seen(),
            Confirmed: lambda message: self._writing.pop(message.token).set(""),
            PublishFailed: lambda message: self._writing.pop(message.token).set(message.reason),
        }

    def on_start(self) -> None:
        """Begin to maintain the stored cursors."""
        for queue in self._book.queues():
            for cursor in self._book.of(queue):
                cursor.resume(self.runtime.clock.now_ms())
        self._schedule_maintenance()

    def on_stop(self) -> None:
        """Release all waiting requests."""
        if self._timer is not None:
            self._timer.cancel()
        self._waiters.stop()

    # --- requests ---

    async def _bind(self, message: BindCursor) -> CursorBound:
        check_bind(message.mode, message.cursor, message.instance, message.limits)
        if message.start not in (EARLIEST, LATEST):
            raise CursorRefused(BAD_CURSOR, f"start {message.start!r}; allowed: {EARLIEST} or {LATEST}")
        handle = await self._handle_of(message.queue)
        if isinstance(handle, LocalQueue) and handle.move is not None:
            raise CursorRefused(QUEUE_IN_USE, handle.move.refusal(handle.name))
        if not handle.durable:
            raise CursorRefused(NOT_DURABLE, f"queue {message.queue!r} is never written, so there is nothing to read")
        overviews: list[LogOverview] = await self._ask(handle, DescribeLog())
        await self._until_deleted(message.queue, message.cursor)
        cursor = self._found_or_new(message, overviews)
        # Bound before the first wait: the end of another binding of the same name then releases nothing of this one.
        epoch = cursor.bind(message.instance, message.limits, self.runtime.clock.now_ms())
        self._waiters.fence(cursor)
        try:
            await self._reserve(handle, cursor)
            # Held before it is stored: a row that claims less than the cursor may read costs nothing, a trimmed message
            # does.
            await self._hold(handle, cursor, overviews)
            await self._store(cursor)
        except CursorRefused:
            if not self._is_there(cursor):
                raise  # its deletion has released everything
            cursor.unbind(epoch)
            await self._release(cursor)
            if cursor.epoch == FIRST_EPOCH and self._is_there(cursor):  # it was new, and no other binding has it
                self._book.remove(cursor)
                await self._ask(handle, HoldLog(cursor.name, None))
            raise
        return CursorBound(epoch, self._incarnation, await self._positions(cursor))

    def _found_or_new(self, message: BindCursor, overviews: list[LogOverview]) -> DurableCursor:
        """Return the known cursor, or a new one; nothing runs between this and its binding."""
        cursor = self._book.find(message.queue, message.cursor)
        if cursor is not None:
            if cursor.mode != message.mode:
                text = f"cursor {cursor.name!r} is in mode {cursor.mode!r}, not {message.mode!r}; delete it first"
                raise CursorRefused(MODE_DIFFERS, text)
            return cursor
        if len(self._book.of(message.queue)) >= CURSORS_PER_QUEUE_MAX:
            raise CursorRefused(TOO_MANY, f"queue {message.queue!r} has {CURSORS_PER_QUEUE_MAX} cursors already")
        cursor = DurableCursor(message.cursor, message.queue, message.mode)
        for each in overviews:
            cursor.positions[each.partition_id] = each.low if message.start == EARLIEST else each.next_sequence
        self._book.add(cursor)
        self._schedule_maintenance()
        return cursor

    async def _acknowledge(self, message: AckCursor) -> list[CursorPosition]:
        if len(message.batch_ref) > BATCH_REF_CHARS_MAX:
            text = f"a batch reference of {len(message.batch_ref)} characters; allowed: {BATCH_REF_CHARS_MAX}"
            raise CursorRefused(BAD_CURSOR, text)
        cursor = self._live(message.queue, message.cursor, message.epoch)
        handle = await self._handle_of(message.queue)
        overviews: list[LogOverview] = await self._ask(handle, DescribeLog())
        upto = _by_partition_id(message.upto, overviews)
        for each in overviews:
            if upto.get(each.partition_id, 0) > each.synced_end:
                text = f"partition {each.number}: {upto[each.partition_id]} is above {each.synced_end}, the next one"
                raise CursorRefused(AHEAD, text)
        cursor.heartbeat(message.epoch, self.runtime.clock.now_ms())  # another binding may have started meanwhile
        cursor.acknowledge(upto, message.batch_ref)
        if cursor.caught_up({each.partition_id: each.low for each in overviews}):
            self._events.emit(VPN_CURSOR_LAG_CLEAR, f"{_described(cursor)} continues")
        # Stored whatever it changes: an earlier write of the same row may be in progress, or refused.
        await self._store(cursor)
        await self._hold(handle, cursor, overviews)
        return await self._positions(cursor)

    async def _pin(self, message: PinCursor) -> None:
        cursor = self._live(message.queue, message.cursor, message.epoch)
        overviews: list[LogOverview] = await self._ask(await self._handle_of(message.queue), DescribeLog())
        cursor.heartbeat(message.epoch, self.runtime.clock.now_ms())
        cursor.pin(_by_partition_id(message.ends, overviews))
        await self._store(cursor)

    def _status(self, message: CursorStatus) -> LoopFuture[list[CursorPosition]]:
        cursor = self._live(message.queue, message.cursor, message.epoch)
        return self._waiters.wait(cursor, message)

    async def _unbind(self, message: UnbindCursor) -> None:
        cursor = self._known(message.queue, message.cursor)
        cursor.unbind(message.epoch)
        if message.epoch == cursor.epoch:
            await self._release(cursor)
            await self._store(cursor)

    async def _delete(self, message: DeleteCursor) -> None:
        await self._until_deleted(message.queue, message.cursor)
        await self._forget(self._known(message.queue, message.cursor))

    async def _look(self, message: LookAtCursor) -> CursorSeen:
        cursor = self._known(message.queue, message.cursor)
        epoch, batch_ref = cursor.epoch, cursor.batch_ref
        return CursorSeen(epoch, batch_ref, await self._positions(cursor))

    async def _list(self, message: ListCursors) -> list[CursorOverview]:
        names = self._book.queues() if message.queue is None else [message.queue]
        cursors = [cursor for name in names for cursor in self._book.of(name)]
        return [_overview(cursor, await self._positions(cursor)) for cursor in cursors]

    # --- what time brings ---

    def _schedule_maintenance(self) -> None:
        if self._timer is None and self._book.queues():
            self._timer = self.cell.after(MAINTENANCE_INTERVAL_MS, self._start_maintenance)

    def _start_maintenance(self) -> None:
        if not self.cell.is_stopped():
            run(self.runtime, self._maintain()).then(self._maintained)

    def _maintained(self, outcome: LoopFuture[None]) -> None:
        try:
            outcome.get()
        except ActorDeadError:
            log.info("a queue was deleted while its cursors were maintained")
        except Exception:  # the next check must come, whatever happened to this one
            log.exception("maintenance of durable cursors failed")
        self._timer = None
        self._schedule_maintenance()

    async def _maintain(self) -> None:
        """End silent bindings, measure lags, and delete the cursors of deleted queues."""
        for name in self._book.queues():
            handle: QueueHandle | None = await self._queues.ask(FindQueue(name))
            if handle is None:
                for cursor in self._book.of(name):
                    if self._is_there(cursor):
                        await self._forget(cursor)
                continue
            overviews: list[LogOverview] = await self._ask(handle, DescribeLog())
            for cursor in self._book.of(name):
                await self._measure(handle, cursor, overviews)

    async def _measure(self, handle: QueueHandle, cursor: DurableCursor, overviews: list[LogOverview]) -> None:
        if cursor.tick(self.runtime.clock.now_ms()):
            text = f"{_described(cursor)}: {as_word(cursor.instance)} sent no heartbeat in time"
            self._events.emit(VPN_CURSOR_BINDING_LOST, text)
            self._waiters.fence(cursor)
            await self._release(cursor)
            await self._write(cursor)
        for each in overviews:  # a partition that was added later has to keep its messages from the first on
            if cursor.name not in each.holds and not cursor.exceeded and self._is_there(cursor):
                await self._ask(handle, HoldLog(cursor.name, cursor.position(each.partition_id)), each.number)
        holds = [each.holds[cursor.name] for each in overviews if cursor.name in each.holds]
        lag_bytes = sum(hold.lag_bytes for hold in holds)
        oldest_ms = min((hold.oldest_ms for hold in holds if hold.oldest_ms), default=0)
        if cursor.measure(lag_bytes, oldest_ms, self.runtime.clock.wall_ms()):
            text = f"{_described(cursor)} is {lag_bytes} bytes behind; messages may go unread"
            self._events.emit(VPN_CURSOR_LAG_EXCEEDED, text)
            await self._write(cursor)
            await self._hold(handle, cursor, overviews)

    # --- what it asks of others ---

    async def _handle_of(self, queue: str) -> QueueHandle:
        handle: QueueHandle | None = await self._queues.ask(FindQueue(queue))
        if handle is None:
            raise CursorRefused(NO_SUCH_QUEUE, f"there is no queue {queue!r}")
        return handle

    async def _ask(self, handle: QueueHandle, request: PartitionRequest, number: int | None = None) -> list[Any]:
        answers: list[Any] = await handle.cell.ask(AskPartitions(number, request))
        return answers

    async def _hold(self, handle: QueueHandle, cursor: DurableCursor, overviews: list[LogOverview]) -> None:
        """Tell every partition from which sequence to keep messages for the cursor, and what it has consumed."""
        for each in overviews:
            if not self._is_there(cursor):
                return  # deleted meanwhile: nothing is kept for it any more
            hold = cursor.hold(each.partition_id)
            await self._ask(handle, HoldLog(cursor.name, hold), each.number)
            if cursor.mode == CONSUME:
                await self._ask(handle, ConsumeThrough(cursor.position(each.partition_id)), each.number)

    async def _reserve(self, handle: QueueHandle, cursor: DurableCursor) -> None:
        if cursor.mode == CONSUME:
            try:
                await handle.cell.ask(ReserveQueue(cursor.name))
            except BindRefused as refusal:
                raise CursorRefused(QUEUE_IN_USE, str(refusal)) from None

    async def _release(self, cursor: DurableCursor) -> None:
        handle: QueueHandle | None = await self._queues.ask(FindQueue(cursor.queue))
        if handle is not None and cursor.mode == CONSUME and not cursor.bound:
            handle.cell.inbox.post(ReleaseQueue(cursor.name))

    async def _positions(self, cursor: DurableCursor) -> list[CursorPosition]:
        """Return the positions of a cursor, by partition number."""
        handle: QueueHandle | None = await self._queues.ask(FindQueue(cursor.queue))
        overviews: list[LogOverview] = [] if handle is None else await self._ask(handle, DescribeLog())
        positions = []
        for each in overviews:
            hold = each.holds.get(cursor.name)
            acked, lag_bytes = cursor.position(each.partition_id), 0 if hold is None else hold.lag_bytes
            positions.append(
                CursorPosition(each.number, each.partition_id, each.low, acked, each.synced_end, lag_bytes)
            )
        return positions

    async def _forget(self, cursor: DurableCursor) -> None:
        """Delete a cursor; return when the store has deleted it. Until then its name is not available."""
        key = _key(cursor)
        deleted = self._deleting[key] = LoopFuture()
        self._book.remove(cursor)
        cursor.unbind(cursor.epoch)
        self._waiters.fence(cursor)
        try:
            await self._write_row(key, None, until_done=True)
            await self._release(cursor)
            handle: QueueHandle | None = await self._queues.ask(FindQueue(cursor.queue))
            if handle is not None:
                await self._ask(handle, HoldLog(cursor.name, None))
        finally:
            del self._deleting[key]
            deleted.set()

    async def _store(self, cursor: DurableCursor) -> None:
        reason = await self._write(cursor)
        if reason:
            code = NOT_STORED if self._is_there(cursor) else NO_SUCH_CURSOR
            raise CursorRefused(code, f"the position of cursor {cursor.name!r} could not be stored: {reason}")

    async def _write(self, cursor: DurableCursor) -> str:
        """Write a cursor's row; return an empty text, or why it was not written."""
        if not self._is_there(cursor):
            return "it was deleted meanwhile"
        return await self._write_row(_key(cursor), orjson.dumps(cursor.to_row()))

    def _write_row(self, key: bytes, value: bytes | None, *, until_done: bool = False) -> LoopFuture[str]:
        self._tokens += 1
        answer: LoopFuture[str] = LoopFuture()
        self._writing[self._tokens] = answer
        row = TableWrite(Table.READERS, key, value).under(self._row_prefix)
        self._spool.post(WriteTables([row], self.cell.inbox, self._tokens, until_done))
        return answer

    async def _until_deleted(self, queue: str, name: str) -> None:
        """Wait for a deletion in progress: the absence of a cursor is only reported when it is stored."""
        while (deleted := self._deleting.get(_key_of(queue, name))) is not None:
            await deleted

    # --- checks ---

    def _is_there(self, cursor: DurableCursor) -> bool:
        """Return whether a cursor was not deleted meanwhile."""
        return self._book.find(cursor.queue, cursor.name) is cursor

    def _known(self, queue: str, name: str) -> DurableCursor:
        cursor = self._book.find(queue, name)
        if cursor is None:
            raise CursorRefused(NO_SUCH_CURSOR, f"queue {queue!r} has no cursor {name!r}")
        return cursor

    def _live(self, queue: str, name: str, epoch: int) -> DurableCursor:
        cursor = self._known(queue, name)
        cursor.heartbeat(epoch, self.runtime.clock.now_ms())
        return cursor


def _by_partition_id(by_number: dict[int, int], overviews: list[LogOverview]) -> dict[int, int]:
    ids = {each.number: each.partition_id for each in overviews}
    for number in by_number:
        if number not in ids:
            raise CursorRefused(NO_SUCH_PARTITION, f"there is no partition {number}, but {min(ids)} to {max(ids)}")
    return {ids[number]: sequence for number, sequence in by_number.items()}


def _overview(cursor: DurableCursor, positions: list[CursorPosition]) -> CursorOverview:
    return CursorOverview(
        queue=cursor.queue,
        name=cursor.name,
        mode=cursor.mode,
        epoch=cursor.epoch,
        bound=cursor.bound,
        instance=cursor.instance,
        batch_ref=cursor.batch_ref,
        exceeded=cursor.exceeded,
        limits=cursor.limits,
        positions=positions,
    )


def _key(cursor: DurableCursor) -> bytes:
    return _key_of(cursor.queue, cursor.name)


def _key_of(queue: str, name: str) -> bytes:
    return f"{queue}\0{name}".encode()


def _described(cursor: DurableCursor) -> str:
    return f"cursor {as_word(cursor.name)} on queue {as_word(cursor.queue)}"
