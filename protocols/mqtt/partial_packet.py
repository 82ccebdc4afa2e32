"""The beginning of a packet whose rest has not arrived."""

from typing import final

from protocols.mqtt.wire import read_length


@final
class PartialPacket:
    """Bytes that wait for more. A packet in many small reads is copied twice, not once for each read.

    Invariant: not empty means that less than `_needed_bytes` have come, so another look would tell nothing new.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._needed_bytes = 0

    def keep(self, data: bytes, pos: int) -> None:
        """Keep what stands behind `pos`. It is empty so far: the engine has joined and read what there was."""
        end = len(data)
        if pos < end:
            length, body = read_length(data, pos + 1, end)
            self._needed_bytes = end - pos + 1 if length < 0 else body - pos + length
            self._bytes = bytearray(data[pos:])

    def join(self, data: bytes) -> bytes:
        """Return all bytes from the packet's first one on; none while they cannot be whole, and then keep them."""
        if not self._bytes:
            return data
        if len(self._bytes) + len(data) < self._needed_bytes:
            self._bytes += data
            return b""
        whole = bytes(self._bytes) + data
        self._bytes = bytearray()
        return whole

    def drop(self) -> None:
        """Give the memory back."""
        self._bytes = bytearray()
