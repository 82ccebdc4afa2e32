"""Answers that a client goes on asking for and does not read: nothing else bounds what then waits for its socket.

What a client is sent unasked has bounds of its own: windows, credit, and that direct messages are dropped
(`writing_watch`).
"""

from typing import Final, final

from sluicegate.protocols.transport.interface import ByteTransport

UNREAD_ANSWERS_BYTES_MAX: Final = 1024 * 1024  # 260,000 PUBACKs; who has a window never has more than a few KiB unread


@final
class UnreadAnswers:
    """Those of one client, while its socket is full.

    A client may be behind for hours and read on. So what counts is whether anything was taken of what was written since
    the last look, or since the socket was full: bytes are taken in their order. At most twice the maximum is unread.
    """

    def __init__(self) -> None:
        self._answered_from = 0  # what it had been answered at the last look
        self._written_bytes = 0  # since then

    def begin(self, answered_bytes: int) -> None:
        """The socket is full, or was looked at; `answered_bytes` is all that the client was ever answered."""
        self._answered_from = answered_bytes
        self._written_bytes = 0

    def are_too_many(self, answered_bytes: int, written_bytes: int, transport: ByteTransport) -> bool:
        """Note what was written just now, answers or not; return whether the client asks and takes nothing."""
        self._written_bytes += written_bytes
        if answered_bytes - self._answered_from < UNREAD_ANSWERS_BYTES_MAX:
            return False
        if transport.buffered_bytes() >= self._written_bytes:
            return True
        self.begin(answered_bytes)
        return False
