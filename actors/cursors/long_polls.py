"""Long polls of durable cursors: requests that wait for new messages, woken by commits.

At most one check of the queues is in progress, however many commits come meanwhile: then one more follows.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from sluicegate.actors.messages.readers import STATUS_WAIT_MS_MAX, CursorPosition, CursorStatus, WatchCommits
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell, TimerHandle
from sluicegate.actors.runtime.tasks import run
from sluicegate.messaging.bulk.durable_cursors import CursorFenced, DurableCursor
from sluicegate.messaging.message.address import Address


class _Waiter:
    def __init__(self, cursor: DurableCursor, above: dict[int, int]) -> None:
        self.cursor = cursor
        self.above = above
        self.answer: LoopFuture[list[CursorPosition]] = LoopFuture()
        self.timer: TimerHandle | None = None

    def is_answered_by(self, positions: list[CursorPosition]) -> bool:
        return any(each.next_sequence > self.above.get(each.number, 0) for each in positions)


class StatusWaiters:
    """The waiting long polls of one directory of cursors."""

    def __init__(
        self,
        cell: ActorCell,
        spool: Address,
        positions: Callable[[DurableCursor], Coroutine[Any, Any, list[CursorPosition]]],
    ) -> None:
        self._cell = cell
        self._runtime = cell.runtime
        self._spool = spool
        self._positions = positions
        self._waiters: list[_Waiter] = []
        self._is_scanning = False
        self._scan_again = False

    def wait(self, cursor: DurableCursor, message: CursorStatus) -> LoopFuture[list[CursorPosition]]:
        """Answer when there is something above, or the time is up. A newer poll of a cursor ends an older one."""
        self._answer_now(cursor)
        waiter = _Waiter(cursor, message.above)
        if not self._waiters:
            self._spool.post(WatchCommits(self._cell.inbox, True))
        self._waiters.append(waiter)
        wait_ms = min(message.wait_ms, STATUS_WAIT_MS_MAX)
        waiter.timer = self._runtime.after(wait_ms, lambda: run(self._runtime, self._time_is_up(waiter)))
        self.commit_seen()
        return waiter.answer

    def commit_seen(self) -> None:
        """Check whether a poll can be answered."""
        if self._is_scanning:
            self._scan_again = True
        elif self._waiters:
            self._is_scanning = True
            run(self._runtime, self._scan()).then(lambda _: self._scanned())

    def fence(self, cursor: DurableCursor) -> None:
        """End the poll of a binding that is no longer the live one."""
        for waiter in [each for each in self._waiters if each.cursor is cursor]:
            error = CursorFenced(f"cursor {cursor.name!r}: the binding ended while it waited")
            self._drop(waiter)
            waiter.answer.set_exception((CursorFenced, error, None))

    def stop(self) -> None:
        """End all polls."""
        for waiter in list(self._waiters):
            self.fence(waiter.cursor)

    def _answer_now(self, cursor: DurableCursor) -> None:
        for waiter in [each for each in self._waiters if each.cursor is cursor]:
            run(self._runtime, self._time_is_up(waiter))

    async def _scan(self) -> None:
        for cursor in list(dict.fromkeys([each.cursor for each in self._waiters])):
            positions = await self._positions(cursor)
            for waiter in [each for each in self._waiters if each.cursor is cursor]:
                if waiter.is_answered_by(positions):
                    self._drop(waiter)
                    waiter.answer.set(positions)

    def _scanned(self) -> None:
        self._is_scanning = False
        if self._scan_again:
            self._scan_again = False
            self.commit_seen()

    async def _time_is_up(self, waiter: _Waiter) -> None:
        try:
            positions = await self._positions(waiter.cursor)
        except Exception:  # the queue may end at this moment; the waiting client is told
            if waiter in self._waiters:
                self._drop(waiter)
                waiter.answer.set_exception()
            return
        if waiter in self._waiters:
            self._drop(waiter)
            waiter.answer.set(positions)

    def _drop(self, waiter: _Waiter) -> None:
        self._waiters.remove(waiter)
        if waiter.timer is not None:
            waiter.timer.cancel()
        if not self._waiters:
            self._spool.post(WatchCommits(self._cell.inbox, False))
