"""What remotes with a loop of their own need of sockets: to be woken by the other thread, and to say what failed."""

import asyncio
import os
import selectors
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any, Final, final

from sluicegate.protocols.bridges.remote import RemoteFailed

READ_BYTES: Final = 65_536
TURN_BYTES_MAX: Final = 262_144  # read, or written, before anything else has its turn
CLOSE_S_MAX: Final = 1.0  # for what is to be written when a connection is closed
_DRAIN_BYTES: Final = 65_536


@final
class Waker:
    """Ends a wait of the remote's thread: `socket` becomes readable when another thread calls `wake`."""

    def __init__(self) -> None:
        """Raises RemoteFailed: the system has no more sockets."""
        try:
            self.socket, self._theirs = socket.socketpair()
        except OSError as error:
            raise RemoteFailed(why(error)) from None
        self.socket.setblocking(False)
        self._theirs.setblocking(False)

    def wake(self) -> None:
        """Have `socket` become readable. For any thread; after `close` it does nothing."""
        with suppress(OSError):  # it is woken already, or gone
            self._theirs.send(b"\0")

    def clear(self) -> None:
        """Take what `wake` has sent."""
        with suppress(BlockingIOError):
            while len(self.socket.recv(_DRAIN_BYTES)) == _DRAIN_BYTES:
                pass

    def close(self) -> None:
        """Close both ends."""
        self.socket.close()
        self._theirs.close()


@final
class ResolvingLoop(asyncio.SelectorEventLoop):
    """A loop that resolves names in threads which end with the program.

    asyncio resolves in threads that the program waits for at its end, and a resolver may take half a minute.
    """

    async def getaddrinfo(
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        """Return the addresses of a host, as `socket.getaddrinfo` does. Raises OSError and UnicodeError."""
        found: asyncio.Future[list[Any]] = self.create_future()

        def tell(result: list[Any] | OSError | UnicodeError) -> None:
            if found.done():  # nobody waits any more
                return
            if isinstance(result, list):
                found.set_result(result)
            else:
                found.set_exception(result)

        def resolve() -> None:
            result: list[Any] | OSError | UnicodeError
            try:
                result = socket.getaddrinfo(host, port, family, type, proto, flags)
            except (OSError, UnicodeError) as error:
                result = error
            with suppress(RuntimeError):  # the loop is closed
                self.call_soon_threadsafe(tell, result)

        threading.Thread(target=resolve, name="resolver", daemon=True).start()
        return await found


def new_selector() -> selectors.BaseSelector:
    """Return a selector. Raises RemoteFailed: the system has no more descriptors."""
    try:
        return selectors.DefaultSelector()
    except OSError as error:
        raise RemoteFailed(why(error)) from None


def close_when_written(sock: socket.socket, output: bytearray) -> int:
    """Write `output`, end this direction, wait until the peer has ended the other, and close; return the bytes written.

    All of that in CLOSE_S_MAX. What comes meanwhile is dropped: left unread, the system would reset the connection, and
    the peer might lose what was written last.
    """
    until_s = time.monotonic() + CLOSE_S_MAX
    size = len(output)
    with suppress(OSError), sock, selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
        is_ended = False
        while selector.select(max(0.0, until_s - time.monotonic())) and time.monotonic() < until_s:
            with suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                while output:
                    del output[: sock.send(output)]
                if not is_ended:
                    is_ended = True
                    sock.shutdown(socket.SHUT_WR)
                    selector.modify(sock, selectors.EVENT_READ)
            with suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if not sock.recv(_DRAIN_BYTES):
                    break
    return size - len(output)


def why(error: Exception) -> str:
    """Return what the system says of a failed connection, without its number."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}" if not isinstance(error, ssl.SSLCertVerificationError) else str(error)
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
