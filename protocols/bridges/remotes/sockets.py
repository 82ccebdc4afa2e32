"""What remotes with a loop of their own need of sockets: to be woken by the other thread, and to say what failed."""

import os
import socket
import ssl
from contextlib import suppress
from typing import Final, final

_DRAIN_BYTES: Final = 4096


@final
class Waker:
    """Ends a wait of the remote's thread: `socket` becomes readable when another thread calls `wake`."""

    def __init__(self) -> None:
        self.socket, self._theirs = socket.socketpair()
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


def why(error: Exception) -> str:
    """Return what the system says of a failed connection, without its number."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}" if not isinstance(error, ssl.SSLCertVerificationError) else str(error)
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
