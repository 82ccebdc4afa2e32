"""Looks at the sockets of one event loop: those that are ready read and write, and the turn ends with the look.

This is the selector of asyncio's own loop (`protocols.transport.loop.event_loop`). What asyncio watches itself, its
timers' alarm and the sockets of others, stands in a selector of the standard library, which is one more thing that may
be ready here. Sockets of clients are never told to asyncio: a look calls whoever watches them, and then those who asked
to be called when it is over. So a message that comes, the actors' turn over it and what is written for it take one call
of the kernel for readiness, whatever the number of sockets, and no callback of asyncio's.

Nothing here is thread-safe; other threads use the loop's `call_soon_threadsafe`.
"""

import asyncio
import select
import selectors
from collections.abc import Callable, Sequence
from typing import Any, Final

from sluicegate.actors.runtime.clock import Clock, SystemClock

READABLE: Final = 1  # POLLIN and EPOLLIN; a peer's end and failures come with it, asked for or not
WRITABLE: Final = 4  # POLLOUT and EPOLLOUT
SOCKETS_PER_LOOK: Final = 512  # then the loop's timers get their chance

_NOBODY: Final[list[Any]] = []


class Watcher:
    """Who is called when a socket is ready."""

    __slots__ = ()

    def ready(self, events: int) -> None:
        """Read or write: `events` has `READABLE`, `WRITABLE`, or a failure, which both of them meet. Raises nothing."""


class Sockets:
    """The sockets that are watched. It has what asyncio asks of a selector: see `selectors.BaseSelector`."""

    __slots__ = (
        "_due",
        "_others",
        "_others_fd",
        "_poll",
        "_watchers",
        "clock",
        "get_key",
        "get_map",
        "modify",
        "register",
        "unregister",
    )

    def __init__(self, *, has_epoll: bool = hasattr(select, "epoll"), clock: Clock | None = None) -> None:
        """Without `epoll`, which is Linux's, each look costs by the number of sockets."""
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

    def __repr__(self) -> str:
        return f"Sockets({sum([watcher is not None for watcher in self._watchers])} watched)"

    def add(self, fd: int, watcher: Watcher) -> None:
        """Know whom to call for a socket, and hold it; nobody is called before `watch`."""
        while len(self._watchers) <= fd:
            self._watchers.append(None)
        self._watchers[fd] = watcher

    def watch(self, fd: int, before: int, events: int) -> None:
        """Call its watcher from the next look on whenever a socket is ready for `events`; before it was for others.

        A socket that is watched for nothing may fail without anybody being told. Raises OSError when the kernel has no
        room for one more that is watched.
        """
        if before == 0:
            self._poll.register(fd, events)
        elif events == 0:
            self._poll.unregister(fd)
        else:
            self._poll.modify(fd, events)

    def remove(self, fd: int) -> None:
        """Forget a socket that is watched for nothing. Nobody is called for it, not even within this look."""
        self._watchers[fd] = None

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back at the end of this look, or of the next, which then does not wait for anything."""
        self._due.append(callback)

    def select(self, timeout: float | None = None) -> Sequence[Any]:
        """Look, and wait for something to be ready for `timeout` seconds at most, None: for any time.

        Returns what is ready of asyncio's own, which has yet to be called.
        """
        are_others_ready = False
        ready: list[tuple[int, int]] = self._poll.poll(0 if self._due else timeout, SOCKETS_PER_LOOK)
        for fd, events in ready:
            if fd == self._others_fd:
                are_others_ready = True
                continue
            watcher = self._watchers[fd]
            if watcher is not None:  # else it was removed in this look
                watcher.ready(events)
        if self._due:
            self._call_due()
        return self._others.select(0) if are_others_ready else _NOBODY

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
    """Let the loop's exception handler tell of a failure."""
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error, **context})
