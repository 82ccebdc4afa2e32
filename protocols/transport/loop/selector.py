"""The selector of one event loop: it polls the sockets, lets the ready ones read and write, and ends the turn.

This is the selector of asyncio's own loop (`protocols.transport.loop.event_loop`). Everything that asyncio watches
itself, its wake-up and the sockets of others, is in a selector of the standard library, which is one more thing that
may be ready here. asyncio never learns of the sockets of clients: a poll calls their watchers, the actors' timers, and
then those who asked to be called at its end. So an incoming message, the actors' turn over it and the writes that
follow take one system call for readiness, whatever the number of sockets, and no callback of asyncio's.

`select` returns to asyncio only when asyncio has something to do: one of its own is ready, a callback or a timer was
added, its time is up, or it is to stop. A round of asyncio's loop is interpreted, and for a message that comes alone
costs as much as reading it.

Nothing here is thread-safe but `call_from_thread`. It is what the loop's `call_soon_threadsafe` does, without a second
poll, a second look into the pipe and a handle of asyncio's: a commit costs two calls, there and back.
"""

import asyncio
import os
import select
import selectors
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, final

from sluicegate.actors.runtime.clock import Clock, SystemClock
from sluicegate.protocols.transport.loop.guarded_poll import GuardedPoll
from sluicegate.protocols.transport.loop.timers import NO_TIMER, Timers

READABLE: Final = 1  # POLLIN and EPOLLIN; a peer's end and failures come with it, asked for or not
WRITABLE: Final = 4  # POLLOUT and EPOLLOUT
SOCKETS_PER_POLL: Final = 512  # then the loop's timers get their chance
# While there are no more than these. Python allocates room for as many as are asked for: for few it has it at hand.
SOCKETS_FEW: Final = 32

_NONE_READY: Final[list[Any]] = []


class Watcher:
    """Who is called when a socket is ready."""

    __slots__ = ()

    def ready(self, events: int) -> None:
        """Read or write: `events` has `READABLE`, `WRITABLE`, or a failure, which both of them meet. Raises nothing."""


@final
class CallbackWatcher(Watcher):
    """Calls back with the events of a socket: for interpreted classes, which cannot inherit from a compiled one."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[int], object]) -> None:
        self._callback = callback

    def ready(self, events: int) -> None:
        """Call back. A failure is reported."""
        try:
            self._callback(events)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            report("a callback of a socket failed", error)


@final
class ThreadCalls(Watcher):
    """The calls that other threads ask for. A byte in a pipe makes the next poll do them."""

    __slots__ = ("_calls", "_closed", "_is_due", "_lock", "_write_fd", "read_fd")

    def __init__(self) -> None:
        self._calls: deque[tuple[Callable[[Any], object], object]] = deque()
        self._is_due = False  # the pipe has a byte, or soon has
        self._closed = False
        self._lock = threading.Lock()  # no byte is written to what the descriptor may have become
        self.read_fd, self._write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        os.set_blocking(self._write_fd, False)

    def add(self, callback: Callable[[Any], object], argument: object) -> None:
        """Call back with the argument in the next poll; from any thread. When the loop has ended, nothing happens."""
        self._calls.append((callback, argument))
        if self._is_due:
            return
        self._is_due = True
        with self._lock:
            if not self._closed:
                os.write(self._write_fd, b"\0")

    def ready(self, events: int) -> None:
        """Do the calls that came by now."""
        with suppress(BlockingIOError):
            os.read(self.read_fd, 1)
        self._is_due = False  # first: a call that is added from here on writes a byte of its own
        for _ in range(len(self._calls)):
            callback, argument = self._calls.popleft()
            try:
                callback(argument)
            except Exception as error:
                report("a call from a thread failed", error)

    def close(self) -> None:
        """Drop the calls, and take no more."""
        with self._lock:
            self._closed = True
            os.close(self.read_fd)
            os.close(self._write_fd)
        self._calls.clear()


class SocketSelector:
    """The sockets that are watched. It has what asyncio asks of a selector: see `selectors.BaseSelector`."""

    __slots__ = (
        "_due",
        "_loop_calls",
        "_loop_has_news",
        "_others",
        "_others_fd",
        "_poll",
        "_thread_calls",
        "_timers",
        "_watchers",
        "call_from_thread",
        "call_later",
        "clock",
        "get_key",
        "get_map",
        "modify",
        "ready_count",
        "register",
        "unregister",
    )

    def __init__(self, *, has_epoll: bool = hasattr(select, "epoll"), clock: Clock | None = None) -> None:
        """Without `epoll`, which is Linux's, the cost of a poll grows with the number of sockets."""
        self.clock: Clock = SystemClock() if clock is None else clock  # by which those that are read take turns
        self._others = selectors.DefaultSelector()
        # What asyncio watches: these are calls of asyncio's.
        self.register = self._others.register
        self.unregister = self._others.unregister
        self.modify = self._others.modify
        self.get_key = self._others.get_key
        self.get_map = self._others.get_map
        self._others_fd: int = self._others.fileno()  # epoll's, or whatever this system has
        self._poll: Any = select.epoll() if has_epoll else Poll()
        self._poll.register(self._others_fd, READABLE)
        self._watchers: list[Watcher | None] = []  # by file descriptor: the kernel gives small ones
        self._due: list[Callable[[], None]] = []
        self._timers = Timers(self.clock)
        self.call_later = self._timers.add
        self._loop_calls: Any = None  # asyncio's callbacks of the next round; None: unknown
        self._loop_has_news = False  # a timer was added to asyncio's, or it is to stop
        self.ready_count = 0  # sockets, and what else is watched, that were ready in this poll
        self._thread_calls = ThreadCalls()
        self.call_from_thread = self._thread_calls.add
        self.add(self._thread_calls.read_fd, self._thread_calls)
        self.watch(self._thread_calls.read_fd, 0, READABLE)

    def __repr__(self) -> str:
        return f"SocketSelector({sum([watcher is not None for watcher in self._watchers])} watched)"

    def add(self, fd: int, watcher: Watcher) -> None:
        """Set the watcher of a socket, and hold it; it is not called before `watch`."""
        while len(self._watchers) <= fd:
            self._watchers.append(None)
        self._watchers[fd] = watcher

    def watch(self, fd: int, before: int, events: int) -> None:
        """Call the watcher from the next poll on when the socket is ready for `events`; `before` are the earlier ones.

        The failure of a socket that is watched for nothing may go unnoticed. Raises OSError when the kernel has no
        room for one more that is watched.
        """
        if before == 0:
            self._poll.register(fd, events)
        elif events == 0:
            self._poll.unregister(fd)
        else:
            self._poll.modify(fd, events)

    def remove(self, fd: int) -> None:
        """Forget a socket that is watched for nothing. Its watcher is not called any more, not even in this poll."""
        self._watchers[fd] = None

    def guard(self, may_serve: Callable[[], bool]) -> None:
        """Ask from now on, after each poll, whether what is ready may be served. What asyncio watches always is."""
        self._poll = GuardedPoll(self._poll, may_serve, self._others_fd)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back at the end of this poll, or of the next, which then does not wait."""
        self._due.append(callback)

    def is_quiet(self) -> bool:
        """Return whether this poll found no more than one to be ready: nobody else waits for the loop, it seems."""
        return self.ready_count <= 1

    def stay_unless(self, loop_calls: Any) -> None:
        """Return from `select` to asyncio only when it has something to do; these are its callbacks that wait."""
        self._loop_calls = loop_calls

    def tell_loop(self) -> None:
        """Return to asyncio after this poll."""
        self._loop_has_news = True

    def select(self, timeout: float | None = None) -> Sequence[Any]:
        """Poll, and wait for a socket to be ready for `timeout` seconds at most, None: without limit.

        Go on polling while asyncio has nothing to do. Returns what is ready of asyncio's own, which has yet to be
        called.
        """
        self._loop_has_news = False
        ends_ns = NO_TIMER
        if timeout is not None and timeout > 0:
            ends_ns = self.clock.now_ns() + int(timeout * 1e9)
        wait = timeout
        while True:
            is_cut_short = False
            is_timer_due = True  # as far as is known without a look at the clock
            if self._due:
                wait = 0
            elif len(self._timers) > 0:
                next_ns = self._timers.next_ns()
                if next_ns != NO_TIMER:
                    left_s = max(0.0, (next_ns - self.clock.now_ns()) / 1e9)
                    is_timer_due = left_s == 0.0
                    if wait is None or left_s < wait:
                        wait = left_s
                        is_cut_short = True
            are_others_ready, is_any_ready = self._look(wait)
            # A timer that became due while sockets were served is called by the next poll, which does not wait.
            if (is_timer_due or not is_any_ready) and len(self._timers) > 0:
                self._call_timers()
            if self._due:
                self._call_due()
            if are_others_ready:
                return self._others.select(0)
            if self._loop_calls is None or self._loop_calls or self._loop_has_news:
                return _NONE_READY
            if timeout is None:
                wait = None
                continue
            if ends_ns == NO_TIMER or not (is_any_ready or is_cut_short or self._due):
                return _NONE_READY  # it has waited for so long
            left_ns = ends_ns - self.clock.now_ns()
            if left_ns <= 0:
                return _NONE_READY
            wait = left_ns / 1e9

    def _look(self, wait_s: float | None) -> tuple[bool, bool]:
        """Poll once, and call who is ready; return whether any of asyncio's own is, and whether anything is."""
        are_others_ready = False
        limit = SOCKETS_FEW if self.ready_count < SOCKETS_FEW else SOCKETS_PER_POLL
        ready: list[tuple[int, int]] = self._poll.poll(wait_s, limit)
        self.ready_count = len(ready)
        for fd, events in ready:
            if fd == self._others_fd:
                are_others_ready = True
                continue
            watcher = self._watchers[fd]
            if watcher is not None:  # else it was removed in this look
                watcher.ready(events)
        return are_others_ready, self.ready_count > 0

    def _call_timers(self) -> None:
        """Call the timers whose time has come. Those that are set meanwhile have a later time."""
        now_ns = self.clock.now_ns()
        while True:
            callback = self._timers.take(now_ns)
            if callback is None:
                return
            try:
                callback()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                report("a timer failed", error)

    def _call_due(self) -> None:
        due = self._due
        self._due = []
        for index, callback in enumerate(due):
            try:
                callback()
            except (SystemExit, KeyboardInterrupt):  # the loop ends with this look; who runs it again has the others
                self._due = due[index + 1 :] + self._due
                raise
            except BaseException as error:  # as the loop does for its own callbacks: the others have theirs
                report("a callback failed", error)

    def close(self) -> None:
        """Watch nothing any more. What is open stays open."""
        self._watchers.clear()
        self._due.clear()
        self._timers.clear()
        self._thread_calls.close()
        self._others.close()
        self._poll.close()


class Poll:
    """What `select.epoll` does, by `select.poll`, which other systems have."""

    __slots__ = ("_poll", "modify", "register", "unregister")

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register = self._poll.register
        self.modify = self._poll.modify
        self.unregister = self._poll.unregister

    def poll(self, timeout: float | None, _: int) -> list[tuple[int, int]]:
        """Return what is ready, after `timeout` seconds at most."""
        return self._poll.poll(None if timeout is None else timeout * 1000)

    def close(self) -> None:
        """There is nothing to close."""


def report(message: str, error: BaseException, **context: object) -> None:
    """Report a failure to the loop's exception handler."""
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error, **context})
