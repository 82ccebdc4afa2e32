"""The beginning of a packet whose rest has not arrived."""

from typing import Final, final

from protocols.mqtt.wire import read_length

_SMALL_BYTES: Final = 1024  # a read this short is put to the one before it: objects for single bytes would add up
_NONE: Final[list[bytes]] = []  # what waits at most moments, at all connections


@final
class PartialPacket:
    """Bytes that wait for more. A packet in many reads is copied once, not once for each of them.

    Invariant: what waits is less than the `_needed_bytes` of its packet, so another look would tell nothing new.
    """

    def __init__(self) -> None:
        self._reads: list[bytes] = _NONE
        self._waiting_bytes = 0
        self._needed_bytes = 0

    def keep(self, data: bytes, pos: int) -> None:
        """Keep what stands behind `pos`. It is empty so far: the engine has joined and read what there was."""
        end = len(data)
        if pos < end:
            length, body = read_length(data, pos + 1, end)
            self._needed_bytes = end - pos + 1 if length < 0 else body - pos + length
            self._waiting_bytes = end - pos
            self._reads = [data[pos:]]

    def join(self, data: bytes) -> bytes:
        """Return all bytes from the packet's first one on; none while they cannot be whole, and then keep them."""
        reads = self._reads
        if not reads:
            return data
        self._waiting_bytes += len(data)
        if len(reads[-1]) < _SMALL_BYTES:
            reads[-1] += data
        else:
            reads.append(data)
        if self._waiting_bytes < self._needed_bytes:
            return b""
        self._reads = _NONE
        return b"".join(reads)

    def drop(self) -> None:
        """Give the memory back."""
        self._reads = _NONE
