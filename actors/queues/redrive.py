"""Re-drive a queue: return its messages to the queues where they died, in bounded parts, at a limited rate.

It is a job of the node: it continues when the client that started it has gone, and ends when it has examined everything
that was in the queue when it began. Messages that die again meanwhile wait for the next one. It does not survive a
restart of the node; started again, it finds what is left.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from sluicegate.actors.messages.operations import REDRIVE, MessagesTaken, TakeMessages
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell, TimerHandle
from sluicegate.messaging.queues.message_filter import MessageFilter

RUNNING: Final = "running"
DONE: Final = "done"
CANCELLED: Final = "cancelled"
FAILED: Final = "failed"

AT_ONCE_MAX: Final = 1000  # messages of one request, and so of one burst
PACE_MS: Final = 100  # with a rate, the interval between parts


@dataclass(frozen=True, slots=True)
class RedriveOrder:
    """Which messages to re-drive, where to, and how fast."""

    message_filter: MessageFilter
    to: str  # name of a queue; empty: the queue where each message died
    limit: int  # maximum number of messages
    rate: int  # messages per second; 0: no limit


@dataclass(slots=True)
class RedriveProgress:
    """The progress of a re-drive. Its actor updates it, and the client that started it may read it at any time."""

    started_ms: int  # wall clock
    state: str = RUNNING
    ended_ms: int = 0  # 0: it is running
    done_count: int = 0
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> messages that stay
    position: tuple[int, int] = (0, 1)  # partition, and the sequence below which everything was examined
    failure: str = ""


@dataclass(slots=True)
class CancelRedrive:
    """Ask of a re-drive: stop. Answered with None."""


@dataclass(slots=True)
class _Answered:
    """A re-drive -> itself: a part is done."""

    answer: LoopFuture[MessagesTaken]


class RedriveActor(LoopActor):
    """One re-drive of one queue. `ends` are the next sequences of its partitions when it began."""

    def __init__(
        self, cell: ActorCell, progress: RedriveProgress, *, queue: ActorCell, order: RedriveOrder, ends: list[int]
    ) -> None:
        super().__init__(cell)
        self._queue = queue
        self._order = order
        self._ends = ends
        self._progress = progress
        self._credit = 1.0  # messages that may be re-driven now, with a rate
        self._credited_ms = self.runtime.clock.now_ms()
        self._timer: TimerHandle | None = None
        self.handlers = {
            CancelRedrive: lambda _: self._end(CANCELLED),
            _Answered: self._answered,
        }

    def on_start(self) -> None:
        """Begin."""
        self._go_on()

    def on_failure(self, *_: Any) -> None:
        """Record the failure: it does not continue."""
        self._progress.failure = "a fault of the gateway; its log says more"
        self._end(FAILED)

    def on_stop(self) -> None:
        """Stop with the node."""
        self._end(CANCELLED)

    def _go_on(self) -> None:
        self._timer = None
        if self._progress.state != RUNNING:
            return
        number, first = self._progress.position
        if number == len(self._ends) or self._progress.done_count >= self._order.limit:
            self._end(DONE)
            return
        count = min(self._allowed_now(), AT_ONCE_MAX, self._order.limit - self._progress.done_count)
        if count == 0:
            self._timer = self.cell.after(PACE_MS, self._go_on)
            return
        ask = TakeMessages(
            action=REDRIVE,
            partition_number=number,
            sequences=None,
            first=first,
            end=self._ends[number],
            message_filter=self._order.message_filter,
            limit=count,
            to=self._order.to,
        )
        self._queue.ask(ask).then(lambda answer: self.cell.inbox.post(_Answered(answer)))

    def _answered(self, message: _Answered) -> None:
        try:
            taken = message.answer.get()
        except Exception as error:  # the queue is deleted, or failed: nothing is lost, and nothing more can be done
            self._progress.failure = str(error)
            self._end(FAILED)
            return
        progress = self._progress
        progress.done_count += taken.done_count
        self._credit -= taken.done_count
        for reason, count in taken.skipped.items():
            progress.skipped[reason] = progress.skipped.get(reason, 0) + count
        number, _ = progress.position
        at_end = taken.next_sequence >= self._ends[number]
        progress.position = (number + 1, 1) if at_end else (number, taken.next_sequence)
        self._go_on()

    def _allowed_now(self) -> int:
        """Return how many messages may be re-driven; with a rate, at most a second's worth accumulates."""
        rate = self._order.rate
        if rate == 0:
            return AT_ONCE_MAX
        now_ms = self.runtime.clock.now_ms()
        self._credit = min(float(rate), self._credit + (now_ms - self._credited_ms) * rate / 1000)
        self._credited_ms = now_ms
        return int(self._credit)

    def _end(self, state: str) -> None:
        if self._progress.state == RUNNING:
            self._progress.state = state
            self._progress.ended_ms = self.runtime.clock.wall_ms()
            if self._timer is not None:
                self._timer.cancel()
