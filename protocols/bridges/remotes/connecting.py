"""Connects to a foreign broker: its name is looked up, then each of its addresses tried, then TLS agreed upon.

All of that ends at one deadline, and at once when the bridge closes the line. The system's look-up of a name can be
neither bounded nor ended: it has a thread of its own, which is left behind, and not more than one for each bridge.
"""

import errno
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, final

from sluicegate.protocols.bridges.remote import RemoteFailed
from sluicegate.protocols.bridges.remotes.sockets import Waker, new_selector, why
from sluicegate.protocols.bridges.settings import CONNECT_S_MAX, RemoteSettings

_Address = tuple[Any, ...]  # an entry of `socket.getaddrinfo`


class LineClosed(Exception):
    """The bridge has closed the line: it wants no connection any more."""


@final
class _LookUp:
    """One look-up of a name, in a thread of its own."""

    def __init__(self, host: str, port: int) -> None:
        self.addresses: list[_Address] = []
        self.failure: Exception | None = None
        self.is_done = threading.Event()
        self.wake: Callable[[], None] = _nothing
        self._host = host
        self._port = port
        threading.Thread(target=self._run, name="bridge-look-up", daemon=True).start()

    def _run(self) -> None:
        try:
            self.addresses = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            self.failure = error
        self.is_done.set()
        self.wake()


@final
class Connector:
    """Connects to one foreign broker, again and again. For one thread."""

    def __init__(self, host: str, port: int, make_tls: Callable[[], ssl.SSLContext] | None) -> None:
        """`make_tls` is called for each connection, for its files may change; None: no TLS. It raises ValueError."""
        self._host = host
        self._port = port
        self._make_tls = make_tls
        self._look_up: _LookUp | None = None  # one that an earlier attempt has given up

    def connect(self, waker: Waker, is_closed: Callable[[], bool]) -> socket.socket:
        """Return a connected socket, which does not block. Raises RemoteFailed, and LineClosed.

        `is_closed` is asked whenever `waker` wakes: whether the bridge has closed the line.
        """
        try:
            tls = None if self._make_tls is None else self._make_tls()
        except (OSError, ValueError) as error:
            raise RemoteFailed(why(error)) from None
        wait = _Wait(waker, is_closed, time.monotonic() + CONNECT_S_MAX)
        addresses = self._addresses(wait)
        failure = ""
        for index, address in enumerate(addresses):
            try:
                sock = socket.socket(*address[:3])
            except OSError as error:  # without IPv6, for instance: the name may have addresses of both versions
                failure = failure or why(error)
                continue
            try:
                share_s = wait.left_s() / (len(addresses) - index)
                self._connect(sock, address, wait.within(share_s))
                return sock if tls is None else _with_tls(sock, tls, self._host, wait)
            except (OSError, ValueError) as error:  # TimeoutError and ssl.SSLError among them
                sock.close()
                failure = failure or why(error)
            except BaseException:
                sock.close()
                raise
        raise RemoteFailed(failure or f"the name {self._host!r} has no address")

    def _addresses(self, wait: "_Wait") -> list[_Address]:
        try:
            return socket.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )  # nothing to look up
        except (OSError, UnicodeError):
            pass
        found = self._look_up or _LookUp(self._host, self._port)
        self._look_up, found.wake = found, wait.waker.wake
        while not found.is_done.is_set():
            try:
                wait.wait(None, 0)
            except TimeoutError:
                raise RemoteFailed(f"the name {self._host!r} was not found within {CONNECT_S_MAX} s") from None
        self._look_up = None
        if found.failure is not None:
            raise RemoteFailed(f"the name {self._host!r}: {why(found.failure)}")
        return found.addresses

    def _connect(self, sock: socket.socket, address: _Address, wait: "_Wait") -> None:
        sock.setblocking(False)
        code = sock.connect_ex(address[4])
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, "")
        wait.wait(sock, selectors.EVENT_WRITE)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, "")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def connector_to(remote: RemoteSettings) -> Connector:
    """Return what connects to the foreign broker of a bridge."""
    return Connector(remote.host, remote.port, None if remote.tls is None else remote.tls.context)


def _with_tls(sock: socket.socket, context: ssl.SSLContext, host: str, wait: "_Wait") -> socket.socket:
    wrapped = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    try:
        while True:
            try:
                wrapped.do_handshake()
                return wrapped
            except ssl.SSLWantReadError:
                wait.wait(wrapped, selectors.EVENT_READ)
            except ssl.SSLWantWriteError:
                wait.wait(wrapped, selectors.EVENT_WRITE)
    except BaseException:
        wrapped.close()
        raise


@final
class _Wait:
    """Waits for a socket until a deadline, and no longer than the line is open."""

    def __init__(self, waker: Waker, is_closed: Callable[[], bool], deadline_s: float) -> None:
        self.waker = waker
        self._is_closed = is_closed
        self._deadline_s = deadline_s

    def left_s(self) -> float:
        """Return the time until the deadline."""
        return max(0.0, self._deadline_s - time.monotonic())

    def within(self, limit_s: float) -> "_Wait":
        """Return the same with a limit."""
        return _Wait(self.waker, self._is_closed, min(self._deadline_s, time.monotonic() + limit_s))

    def wait(self, sock: socket.socket | None, events: int) -> None:
        """Wait for a socket; without one, until `waker` wakes. Raises TimeoutError and LineClosed."""
        with new_selector() as selector:
            selector.register(self.waker.socket, selectors.EVENT_READ)
            if sock is not None:
                selector.register(sock, events)
            while True:
                left_s = self.left_s()
                ready = [key.fileobj for key, _ in selector.select(left_s)]
                if self.waker.socket in ready:
                    self.waker.clear()
                    if self._is_closed():
                        raise LineClosed
                    if sock is None:
                        return
                if sock is not None and sock in ready:
                    return
                if not left_s:
                    raise TimeoutError(f"no connection within {CONNECT_S_MAX} s")


def _nothing() -> None:
    pass
