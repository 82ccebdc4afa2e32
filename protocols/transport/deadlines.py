"""The time that peers have for what they do first: TLS handshakes, and requests for a WebSocket.

All of one kind have the same time, and one ticker looks after them while there are any. The time for which the event
loop has stood still does not count (`actors.runtime.ticker`).
"""

import asyncio
from collections.abc import Callable
from itertools import takewhile
from typing import Final, final

from sluicegate.actors.runtime.ticker import Ticker

TICKS: Final = 20  # in the time of one peer, which ends so much late at most


@final
class Deadline:
    """The end of one peer's time."""

    __slots__ = ("_deadlines", "callback", "due_ms")

    def __init__(self, deadlines: "Deadlines", due_ms: int, callback: Callable[[], object]) -> None:
        self._deadlines = deadlines
        self.due_ms: Final = due_ms
        self.callback: Callable[[], object] | None = callback  # None: the time is over, or the peer is done

    def cancel(self) -> None:
        """The peer has done what it had to. Harmless when the time is over."""
        self._deadlines.cancel(self)


@final
class Deadlines:
    """The peers that wait, the first one first: each has `limit_s` seconds."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s: Final = limit_s
        self._waiting: dict[Deadline, None] = {}
        self._stalled_ms = 0  # for which the loop stood still, since there was nobody
        self._ticker: Ticker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # the running one, while the ticker runs

    def begin(self, callback: Callable[[], object]) -> Deadline:
        """Call back when the time of a peer is over, on the running loop."""
        loop = self._loop or self._begin_ticks()
        due_ms = int((loop.time() + self.limit_s) * 1000) - self._stalled_ms
        deadline = Deadline(self, due_ms, callback)
        self._waiting[deadline] = None
        return deadline

    def _begin_ticks(self) -> asyncio.AbstractEventLoop:
        """Look after peers from now on; return the running loop, which Python asks the kernel for each time."""
        loop = self._loop = asyncio.get_running_loop()
        self._stalled_ms = 0
        interval_ms = max(1, int(self.limit_s * 1000) // TICKS)
        self._ticker = Ticker(
            lambda: int(loop.time() * 1e9),
            lambda ms, tick: loop.call_later(ms / 1000, tick),
            interval_ms,
            self._tick,
        )
        self._ticker.start()
        return loop

    def cancel(self, deadline: Deadline) -> None:
        """Forget a peer. The ticker ends by itself."""
        self._waiting.pop(deadline, None)
        deadline.callback = None  # the peer holds the deadline: it is free at once without a cycle

    def _tick(self, stall_ms: int) -> None:
        self._stalled_ms += stall_ms
        now_ms = int(asyncio.get_running_loop().time() * 1000) - self._stalled_ms
        over = list(takewhile(lambda each: each.due_ms <= now_ms, self._waiting))
        for deadline in over:
            callback = deadline.callback
            self.cancel(deadline)
            if callback is not None:  # else the end of another has cancelled it
                callback()
        if not self._waiting and self._ticker is not None:
            self._ticker.stop()
            self._ticker = self._loop = None
