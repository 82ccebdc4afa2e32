"""Why a move does not go on, and whether operators have to know: something stands in its way for long."""

import logging
from typing import Final, final

from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.events import Events
from sluicegate.messaging.observability.events import VPN_QUEUE_MOVE_WAITS, as_word

LONG_MS: Final = 60_000
OVER_MS: Final = 30_000  # a reason that was not met for so long is over: each step is tried again sooner

log = logging.getLogger("sluicegate.network")


@final
class Obstacle:
    """One reason why a move did not go on, lately."""

    def __init__(self, since_ms: int, *, ends_with_progress: bool) -> None:
        self.since_ms = since_ms
        self.met_ms = since_ms
        self.ends_with_progress = ends_with_progress
        self.is_told = False


@final
class MoveWait:
    """What one move waits for. A reason that lasts is an event, once.

    A move tries again from its beginning, and may meet several reasons in turn.
    """

    def __init__(self, queue: str, to: str, *, events: Events, clock: Clock) -> None:
        """`to` is the broker that is to have the queue; `events` are those of its message VPN."""
        self.reason = ""  # what has to change before the move goes on; empty: it goes on
        self._queue = queue
        self._to = to
        self._events = events
        self._clock = clock
        self._obstacles: dict[str, Obstacle] = {}  # by reason

    @property
    def is_long(self) -> bool:
        """Whether it has waited for `LONG_MS` for one reason, and still does."""
        now_ms = self._clock.now_ms()
        return any(each.is_told and now_ms - each.met_ms < OVER_MS for each in self._obstacles.values())

    def waits(self, reason: str) -> None:
        """Something is in the way of the next messages; called until they go."""
        self._meets(reason, ends_with_progress=True)

    def fails(self, reason: str) -> None:
        """A step has failed, and is tried again; messages that go meanwhile do not change that."""
        if reason != self.reason:
            log.info("move of queue %s to broker %s: %s", self._queue, self._to, reason)
        self._meets(reason, ends_with_progress=False)

    def goes_on(self) -> None:
        """Messages go."""
        self.reason = ""
        self._obstacles = {reason: each for reason, each in self._obstacles.items() if not each.ends_with_progress}

    def _meets(self, reason: str, *, ends_with_progress: bool) -> None:
        self.reason = reason
        now_ms = self._clock.now_ms()
        found = self._obstacles.get(reason)
        if found is None or now_ms - found.met_ms >= OVER_MS:
            latest = {known: each for known, each in self._obstacles.items() if now_ms - each.met_ms < OVER_MS}
            found = Obstacle(now_ms, ends_with_progress=ends_with_progress)
            self._obstacles = {**latest, reason: found}
        found.met_ms = now_ms
        if not found.is_told and now_ms - found.since_ms >= LONG_MS:
            found.is_told = True
            text = f"Queue {as_word(self._queue)} waits to be moved to broker {as_word(self._to)}: {reason}"
            self._events.emit(VPN_QUEUE_MOVE_WAITS, text)
