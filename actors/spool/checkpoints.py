"""The checkpoints of a spool: one at a time, beside the commits. The planner says what they do and when one is due."""

from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.runtime.runtime import ActorCell, TimerHandle
from sluicegate.actors.spool.store_threads import StoreWriter
from sluicegate.storage.commit.checkpoint import Checkpoint
from sluicegate.storage.commit.pending import NEVER
from sluicegate.storage.commit.planner import CommitPlanner

# Between the end of a checkpoint and the beginning of another one: as long as it took, within these bounds.
PAUSE_MS_MIN: Final = 10
PAUSE_MS_MAX: Final = 100
TRY_AGAIN_MS: Final = 1000  # after one that failed


@final
class Checkpoints:
    """Begins checkpoints, and keeps account of them.

    `look_again` is called when the moment has come at which a checkpoint may be due.
    """

    def __init__(
        self, cell: ActorCell, planner: CommitPlanner, writer: StoreWriter, look_again: Callable[[], None]
    ) -> None:
        self.in_progress = False
        self.is_failing = False  # the last one failed
        self.is_closed = False
        self.count = 0
        self.failed_count = 0
        self.taken_ns = 0  # from the handover to the report
        self._cell = cell
        self._clock = cell.runtime.clock
        self._planner = planner
        self._writer = writer
        self._look_again = look_again
        self._began_ns = 0
        self._not_before_ms = 0
        self._timer: TimerHandle | None = None
        self.looks_ms = NEVER  # a checkpoint that is due later needs no call of `begin_if_due`

    def begin_if_due(self) -> None:
        """Begin a checkpoint when it is due, or look again at the moment when it will be."""
        if self.in_progress or self.is_closed:
            return
        due_ms = self._planner.checkpoints.due_ms()
        if due_ms == NEVER:
            return
        now_ms = self._clock.now_ms()
        due_ms = max(due_ms, self._not_before_ms)
        if due_ms <= now_ms:
            self.in_progress = True
            self.count += 1
            self._began_ns = self._clock.now_ns()
            self._writer.checkpoint(self._planner.next_checkpoint().job, self._cell.inbox)
        elif due_ms < self.looks_ms:
            if self._timer is not None:
                self._timer.cancel()
            self.looks_ms = due_ms
            self._timer = self._cell.after(due_ms - now_ms, self._timer_ended)

    def succeeded(self, overhead_bytes: int) -> Checkpoint:
        """Handle the success of the checkpoint in progress."""
        taken_ns = self._ended()
        self._not_before_ms += max(PAUSE_MS_MIN, min(PAUSE_MS_MAX, taken_ns // 1_000_000))
        self.is_failing = False
        return self._planner.checkpoints.succeeded(overhead_bytes)

    def failed(self) -> Checkpoint:
        """Handle the failure of the checkpoint in progress; the next one is tried after a pause."""
        self._ended()
        self._not_before_ms += TRY_AGAIN_MS
        self.is_failing = True
        self.failed_count += 1
        return self._planner.checkpoints.failed()

    def make_room(self) -> None:
        """Make a checkpoint due when it would free some of the store."""
        if self._planner.checkpoints.makes_room():
            self._planner.checkpoints.want()

    def close(self) -> None:
        """Begin no more of them: the node makes the last one itself."""
        self.is_closed = True

    def _ended(self) -> int:
        """Note the end of a checkpoint; return the time that it took."""
        self.in_progress = False
        self._not_before_ms = self._clock.now_ms()
        taken_ns = self._clock.now_ns() - self._began_ns
        self.taken_ns += taken_ns
        return taken_ns

    def _timer_ended(self) -> None:
        self._timer = None
        self.looks_ms = NEVER
        self._look_again()
