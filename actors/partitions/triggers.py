"""Wake partitions for credit, for time and after commits, and release the publishers that feed them.

messaging.queues.credit decides which partitions are woken for credit. A woken partition may have no messages any more,
or be gone; so a second check at the end of the turn gives its credit to those after it.
"""

from typing import final

from sluicegate.actors.messages.data import WAKE, Resume
from sluicegate.actors.messages.readers import WatchCommits
from sluicegate.actors.runtime.inbox import Dispatcher, Flushed
from sluicegate.actors.runtime.runtime import Runtime, TimerHandle
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.credit import CreditPool, CreditWindow
from sluicegate.messaging.queues.pressure import Pressure, PressureLimits


def wake_waiters(window: CreditWindow[Address], dispatcher: Dispatcher) -> None:
    """Wake the partitions that wait for this window: there is credit again, or may be."""
    if window.is_waited_for():
        _wake(window, window.next_waiters(), dispatcher)


def watch_for_room(pool: CreditPool[Address], dispatcher: Dispatcher) -> None:
    """From now on wake partitions that wait for room in the pool, at the end of a turn that frees some."""
    pool.has_room = _PoolRoomCheck(pool, dispatcher).ask


def _wake(window: CreditWindow[Address], waiters: list[Address], dispatcher: Dispatcher) -> None:
    for waiter in waiters:
        waiter.post(WAKE)
    if waiters and window.called_count == len(waiters):  # the first in this turn
        dispatcher.at_turn_end(_CreditLeftCheck(window, dispatcher))


@final
class _CreditLeftCheck(Flushed):
    """Checks, at the end of the turn in which partitions were woken, for credit that is left for others."""

    def __init__(self, window: CreditWindow[Address], dispatcher: Dispatcher) -> None:
        self._window = window
        self._dispatcher = dispatcher

    def flush(self) -> None:
        """Wake as many more as there is credit for."""
        for waiter in self._window.further_waiters():
            waiter.post(WAKE)
        if self._window.called_count > 0:
            self._dispatcher.at_turn_end(self)


@final
class _PoolRoomCheck(Flushed):
    """Checks, at the end of a turn in which the pool got room, which windows wait for it."""

    def __init__(self, pool: CreditPool[Address], dispatcher: Dispatcher) -> None:
        self._pool = pool
        self._dispatcher = dispatcher
        self._is_asked = False

    def ask(self) -> None:
        """Check at the end of this turn."""
        if not self._is_asked:
            self._is_asked = True
            self._dispatcher.at_turn_end(self)

    def flush(self) -> None:
        """Wake as many as there is room for, of the windows that have waited longest; then check what they left."""
        self._is_asked = False
        room = self._pool.available()
        while room > 0:
            window = self._pool.next_window()
            if window is None:
                return
            waiters = window.waiters_for_room()
            _wake(window, waiters, self._dispatcher)
            room -= len(waiters)
            if room <= 0:
                self.ask()


DELAY_MS_MAX = 60_000  # a later time is checked again: the wall clock may have been set meanwhile


@final
class TurnTimer:
    """A timer that gives a partition a turn when time next affects its messages. Only the earliest time is set."""

    def __init__(self, runtime: Runtime, address: Address) -> None:
        self._runtime = runtime
        self._address = address
        self._handle: TimerHandle | None = None
        self._at_ms = 0  # wall clock; 0: not set

    def set(self, at_ms: int, wall_ms: int) -> None:
        """Set the time of the next turn; 0: none."""
        if at_ms == self._at_ms:
            return
        self.cancel()
        self._at_ms = at_ms
        if at_ms > 0:
            self._handle = self._runtime.after(min(max(at_ms - wall_ms, 1), DELAY_MS_MAX), self._ended)

    def cancel(self) -> None:
        """Cancel the timer."""
        self._at_ms = 0
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ended(self) -> None:
        self._handle = None
        self._at_ms = 0
        self._address.post(WAKE)


@final
class PressureWatch:
    """Slows the publishers that feed a queue, and releases them when it empties or when no consumer empties it.

    messaging.queues.pressure decides at which levels.
    """

    def __init__(
        self, runtime: Runtime, address: Address, *, gate: QueueGate, pressure: Pressure, limits: PressureLimits
    ) -> None:
        self._runtime = runtime
        self._address = address  # of the partition
        self._clock = runtime.clock
        self._gate = gate
        self._pressure = pressure
        self._limits = limits
        self._timer: TimerHandle | None = None

    def check(self, released: bool) -> None:
        """Check the level; `released`: messages were settled since the last check.

        When none were for a while, publishers continue: one dead consumer must not hold up the others.
        """
        pressure = self._pressure
        usage_bytes = self._gate.usage_bytes
        if pressure.calm(usage_bytes):
            return
        now_ms = self._clock.now_ms()
        if released:
            pressure.progress(now_ms)
        stall_ms = self._limits.stall_ms
        for publisher in pressure.level(usage_bytes, now_ms) + pressure.waive_if_stalled(now_ms, stall_ms):
            publisher.post(Resume())
        if pressure.over and self._timer is None:
            self._timer = self._runtime.after(stall_ms, self._check_again)

    def end(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_again(self) -> None:
        """Give the partition a turn, which ends with a check."""
        self._timer = None
        self._address.post(WAKE)


@final
class CommitWatch:
    """Wakes a partition after each commit while messages in it wait for one.

    Messages wait for commits in last-value queues (messaging.partitions.rules.last_value) and in queues that deliver
    only stored messages (messaging.partitions.ledger).
    """

    def __init__(self, address: Address, spool: Address | None) -> None:
        self._address = address
        self._spool = spool  # None: nothing is written, and nothing waits for it
        self.on = False

    def want(self, on: bool) -> None:
        """Start or stop waking the partition."""
        if on != self.on and self._spool is not None:
            self.on = on
            self._spool.post(WatchCommits(self._address, on))
