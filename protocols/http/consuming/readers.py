"""Whoever takes the messages of an HTTP flow at this moment: a request that waits for some, or one that streams.

A reader says how much its flow may hold; without one a flow gets nothing. Writing what came is `consuming`, and
`browsing`. The connection of the request brings time, and the end that comes with its client's.
"""

from typing import TYPE_CHECKING, Any, final

from mypy_extensions import mypyc_attr

from sluicegate.actors.runtime.asks import LoopFuture

if TYPE_CHECKING:
    from sluicegate.protocols.http.consuming.flow import HttpFlow


@mypyc_attr(allow_interpreted_subclasses=True)
class FlowReader:
    """What a flow and a connection tell a reader; each is called on the loop, and does nothing that takes long."""

    def limit(self, held_count: int, waiting_count: int) -> int:
        """Return how many messages the flow may hold, of `held_count` of which `waiting_count` wait for the reader."""
        return held_count

    def arrived(self) -> None:
        """Messages wait."""

    def drained(self, number: int) -> None:
        """The queue has answered a drain of that number: everything it had was delivered before."""

    def state_changed(self) -> None:
        """The flow has other partitions than before."""

    def tick(self, now_ms: int) -> None:
        """Time has passed."""

    def ended(self, reason: str) -> None:
        """The reader gets nothing more: its flow is gone, somebody else reads it, or the client has left."""


@final
class Poll(FlowReader):
    """A request that wants some messages, and waits until there is at least one.

    To have all there is up to its maximum, from all partitions, it drains: once at the start, again when messages
    come after that, and a last time when its time is over. So a wait of 0 says truly that there is nothing. What came
    may be gone again before the request goes on, with its partition; then it waits for the rest of its time.
    """

    def __init__(self, flow: "HttpFlow", *, count_max: int) -> None:
        self.end_reason = ""  # empty: it may take what waits
        self._flow = flow
        self._count_max = count_max
        self._drain_number = 0  # of the drain that is under way; 0: none is
        self._is_late = False
        self._is_over = False  # nothing more will come
        self._woken: LoopFuture[None] | None = None

    async def wait(self, wait_ms: int) -> None:
        """Wait until messages wait, or the end. Without either there are none that came in time."""
        held = self._flow.held
        timer: Any = None
        if wait_ms > 0:
            timer = self._flow.cell.after(wait_ms, self._time_is_over)
        else:
            self._is_late = True
        while not self._is_over and held.waiting_count < self._count_max:
            woken: LoopFuture[None] = LoopFuture()
            self._woken = woken
            self._drain()
            await woken
            if held.waiting_count > 0:
                break
        if timer is not None:
            timer.cancel()

    def limit(self, held_count: int, waiting_count: int) -> int:
        """Return so that as many come as are wanted."""
        return held_count - waiting_count + self._count_max

    def arrived(self) -> None:
        """End with enough; else ask for the rest of what is there."""
        if self._flow.held.waiting_count >= self._count_max:
            self._wake()
        else:
            self._drain()

    def drained(self, number: int) -> None:
        """End with what there is, or wait on."""
        if number != self._drain_number:
            return
        self._drain_number = 0
        if self._is_late:
            self._is_over = True
        if self._is_over or self._flow.held.waiting_count > 0:
            self._wake()

    def ended(self, reason: str) -> None:
        """End with nothing: what waits is not for this reader."""
        self.end_reason = reason
        self._is_over = True
        self._wake()

    def _time_is_over(self) -> None:
        self._is_late = True
        self._drain()

    def _drain(self) -> None:
        if self._drain_number == 0:
            self._drain_number = self._flow.drain()

    def _wake(self) -> None:
        woken, self._woken = self._woken, None
        if woken is not None:
            woken.set()


@final
class Stream(FlowReader):
    """A request that gets messages for as long as it lasts."""

    def __init__(self, *, window: int, heartbeat_ms: int, now_ms: int) -> None:
        self.end_reason: str | None = None  # None: it goes on
        self.has_new_state = True
        self.is_silent = False  # nothing was written for so long that the client should see a sign of life
        self._window = window
        self._heartbeat_ms = heartbeat_ms
        self._wrote_at_ms = now_ms
        self._woken: LoopFuture[None] | None = None

    def limit(self, held_count: int, waiting_count: int) -> int:
        """Return the window."""
        return self._window

    async def news(self) -> None:
        """Wait until there is something to write, or the end. One task waits."""
        self._woken = LoopFuture()
        await self._woken

    def wrote(self, now_ms: int) -> None:
        """Note that something was written."""
        self._wrote_at_ms = now_ms
        self.is_silent = False

    def arrived(self) -> None:
        """Have the messages written."""
        self._wake()

    def state_changed(self) -> None:
        """Have the partitions written."""
        self.has_new_state = True
        self._wake()

    def tick(self, now_ms: int) -> None:
        """Have a sign of life written: to a client that has vanished it fails in the end, and proxies keep on."""
        if now_ms - self._wrote_at_ms >= self._heartbeat_ms:
            self.is_silent = True
            self._wake()

    def ended(self, reason: str) -> None:
        """Have the end written."""
        if self.end_reason is None:
            self.end_reason = reason
        self._wake()

    def _wake(self) -> None:
        woken, self._woken = self._woken, None
        if woken is not None:
            woken.set()
