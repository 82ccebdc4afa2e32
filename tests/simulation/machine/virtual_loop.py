"""An event loop on virtual time, and its clock.

Nothing waits: time jumps to the next timer. Callbacks run in the order in which they were requested, and so do timers
of the same moment, so a program runs the same way each time. There are no threads, and the sockets of connections that
a program opens are names: what is behind them says `outside`.
"""

import asyncio
import heapq
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from typing import Any, Protocol, TypeVarTuple

from sluicegate.actors.runtime.clock import Clock

CALLBACKS_PER_ADVANCE_MAX = 2_000_000  # more without coming to rest is a loop that goes round for ever
WALL_START_MS = 1_700_000_000_000
MONOTONIC_START_US = 3_600_000_000
NEVER_US = 1 << 62


Args = TypeVarTuple("Args")


class EndlessLoop(Exception):
    """The node kept itself busy without time going on."""


class Call(asyncio.TimerHandle):
    """A callback that waits for its turn or its time. It has no context of its own: nothing in the node looks at one,
    and asyncio's handles spend a tenth of a run on it."""

    __slots__ = ("args", "callback", "is_cancelled")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback = callback
        self.args = args
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Outside(Protocol):
    """What a program can connect to."""

    async def reach(self, port: int) -> None:
        """Return when a connection is made. Raises OSError where it is refused."""

    def open(self, port: int, protocol: Any) -> asyncio.Transport:
        """Return the program's end of a connection that was made."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """Callbacks and timers under a time that only `advance` moves."""

    def __init__(self, now_us: int) -> None:
        self.now_us = now_us
        self.outside: Outside | None = None  # None: nothing can be reached
        self._ports: dict[socket.socket, int] = {}  # of connections that were made, and have no transport yet
        self.errors: list[dict[str, Any]] = []  # what the exception handler was told
        self._ready: deque[Call] = deque()
        self._timers: list[tuple[int, int, Call]] = []
        self._order = 0
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._closed = False

    # --- what runs on it asks for ---

    def time(self) -> float:
        return self.now_us / 1_000_000

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        call = Call(callback, args)
        self._ready.append(call)
        return call

    def call_soon_threadsafe(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)  # there is one thread

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._call_at_us(self.now_us + max(0, round(delay * 1_000_000)), callback, args)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._call_at_us(max(self.now_us, round(when * 1_000_000)), callback, args)

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # without the name and context that nobody here gives
        self, coro: Coroutine[Any, Any, Any]
    ) -> "asyncio.Task[Any]":
        task = asyncio.Task(coro, loop=self)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        if self.outside is None:
            raise ConnectionRefusedError(f"nothing listens at {address}")
        await self.outside.reach(address[1])
        self._ports[sock] = address[1]

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, sock: Any = None, **_: Any
    ) -> Any:
        assert self.outside is not None
        if sock is None:
            await self.outside.reach(port)
        else:
            port = self._ports.pop(sock)
            sock.close()
        protocol = protocol_factory()
        transport = self.outside.open(port, protocol)
        protocol.connection_made(transport)
        return transport, protocol

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._closed:
            self.errors.append(context)

    # --- what the simulation does with it ---

    def advance(self, duration_us: int) -> None:
        """Run everything that is due within the duration; the time is its end afterwards."""
        end_us = self.now_us + duration_us
        asyncio._set_running_loop(self)
        try:
            budget = CALLBACKS_PER_ADVANCE_MAX
            while True:
                budget = self.run_ready(budget)
                if self.next_timer_us() > end_us:
                    break
                self.run_timer()
        finally:
            asyncio._set_running_loop(None)
        self.now_us = max(self.now_us, end_us)

    def complete(self, coro: Coroutine[Any, Any, Any], *, within_us: int) -> Any:
        """Run a coroutine to its end on virtual time. Raises TimeoutError when it is not done in time."""
        task = self.create_task(coro)
        end_us = self.now_us + within_us
        while not task.done() and self.now_us < end_us:
            self.advance(1_000)
        if not task.done():
            raise TimeoutError(f"not done in {within_us / 1_000_000} s of virtual time")
        return task.result()

    def close(self) -> None:
        """Drop everything that waits, as a process that dies does. Nothing of it runs any more."""
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        for task in list(self._tasks):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own switch for this
            with suppress(RuntimeError):  # it would go on: a library awaits the end of what it has begun
                task.get_coro().close()
        self._tasks.clear()
        self._ready.clear()
        self._timers.clear()

    def run_ready(self, budget: int) -> int:
        """Run what need not wait, and what comes of that; return how many callbacks of the budget are left."""
        ready = self._ready
        while ready:
            budget -= 1
            if budget == 0:
                raise EndlessLoop(f"{CALLBACKS_PER_ADVANCE_MAX} callbacks and no rest")
            call = ready.popleft()
            if call.is_cancelled:
                continue
            try:
                call.callback(*call.args)
            except Exception as error:
                self.call_exception_handler({"message": f"{call.callback} failed", "exception": error})
        return budget

    def has_ready(self) -> bool:
        """Return whether something need not wait."""
        return bool(self._ready)

    def next_timer_us(self) -> int:
        """Return when the next timer is due."""
        return self._timers[0][0] if self._timers else NEVER_US

    def run_timer(self) -> None:
        """Move the time to the next timer, which is due then."""
        when_us, _, timer = heapq.heappop(self._timers)
        self.now_us = max(self.now_us, when_us)
        if not timer.is_cancelled:
            self._ready.append(timer)

    def _call_at_us(self, when_us: int, callback: Callable[..., object], args: tuple[Any, ...]) -> asyncio.TimerHandle:
        timer = Call(callback, args)
        self._order += 1
        heapq.heappush(self._timers, (when_us, self._order, timer))
        return timer

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)


def virtual_loop(now_us: int = MONOTONIC_START_US) -> VirtualLoop:
    """Return a loop whose time begins there."""
    return VirtualLoop(now_us)  # type: ignore[abstract]  # of a loop, the node asks only for what is here


class VirtualClock(Clock):
    """The time of the virtual loop. Each look at `now_ns` costs, so that long turns of the dispatcher are cut."""

    def __init__(self, loop: VirtualLoop, *, look_ns: int, ahead_ms: int = 0) -> None:
        """`ahead_ms`: the time of day that it shows is wrong by so much."""
        self._loop = loop
        self._ahead_ms = ahead_ms
        self._look_ns = look_ns
        self._looks_ns = 0

    def now_ms(self) -> int:
        return self._loop.now_us // 1000

    def wall_ms(self) -> int:
        return WALL_START_MS + self._ahead_ms + (self._loop.now_us - MONOTONIC_START_US) // 1000

    def now_ns(self) -> int:
        self._looks_ns += self._look_ns
        return self._loop.now_us * 1000 + self._looks_ns
