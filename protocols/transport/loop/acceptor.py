"""A listening socket: it accepts waiting clients, a limited number in each poll."""

import errno
import logging
import os
import socket
from asyncio import get_running_loop
from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

from sluicegate.protocols.transport.loop.selector import READABLE, SocketSelector, Watcher, report
from sluicegate.protocols.transport.loop.tcp import TcpTransport

BACKLOG: Final = 4096  # streams the kernel holds for us; a fleet that reconnects at once must not see refusals
ACCEPTS_PER_POLL: Final = 64  # then those who are there already have their turn
REST_S: Final = 1.0  # how long accepting pauses when there is no file descriptor or memory for one more

_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

MakeTransport: TypeAlias = Callable[[SocketSelector, int], TcpTransport]
OnAccept: TypeAlias = Callable[[TcpTransport, Any], None]  # is given a stream, and its peer's address

log = logging.getLogger("sluicegate.listeners")


@final
class Acceptor(Watcher):
    """One address at which streams are accepted. Each reads when `on_accept` has returned."""

    __slots__ = ("_events", "_fd", "_listening", "_make", "_name", "_on_accept", "_sockets")

    def __init__(
        self,
        sockets: SocketSelector,
        listening: socket.socket,
        *,
        name: str,
        on_accept: OnAccept,
        make: MakeTransport = TcpTransport,
    ) -> None:
        """Listen at a bound socket that never blocks; `make` is the kind of streams. Raises OSError."""
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # of all that is accepted
        listening.listen(BACKLOG)
        self._sockets = sockets
        self._listening = listening
        self._fd = listening.fileno()
        self._name = name
        self._on_accept = on_accept
        self._make = make
        self._events = 0
        sockets.add(self._fd, self)
        self._watch_for(READABLE)

    def close(self) -> None:
        """Stop accepting. Idempotent."""
        if self._fd >= 0:
            self._watch_for(0)
            self._sockets.remove(self._fd)
            self._fd = -1
            self._listening.close()

    def ready(self, events: int) -> None:
        """Clients wait to be accepted."""
        for _ in range(ACCEPTS_PER_POLL):
            try:
                accepted, address = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._rest(error)
                    return
                continue  # a stream that failed before it was accepted: see accept(2)
            fd = accepted.detach()
            os.set_blocking(fd, False)
            stream = self._make(self._sockets, fd)
            try:
                self._on_accept(stream, address)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                report("a connection could not be made", error, transport=stream)
                stream.abort()
            stream.resume_reading()
            if self._fd < 0:  # closed by who has come
                return

    def _rest(self, error: OSError) -> None:
        """Let clients wait: else each poll would report them, in vain."""
        log.warning("%s: not accepting for %g s: %s", self._name, REST_S, error.strerror)
        self._watch_for(0)
        get_running_loop().call_later(REST_S, self._go_on)

    def _go_on(self) -> None:
        if self._fd >= 0:
            try:
                self._watch_for(READABLE)
            except OSError as error:
                self._rest(error)

    def _watch_for(self, events: int) -> None:
        if events != self._events:
            self._sockets.watch(self._fd, self._events, events)
            self._events = events
