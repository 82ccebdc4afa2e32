"""A packet that has not arrived completely."""

from typing import Final, final

from sluicegate.protocols.mqtt.codec.fixed_header import PUBLISH
from sluicegate.protocols.mqtt.codec.reason_codes import PeerViolation
from sluicegate.protocols.mqtt.codec.wire import read_length
from sluicegate.protocols.mqtt.engine.publish_reader import WIRE_FIRST_BYTE
from sluicegate.protocols.transport.interface import READ_INTO_BYTES_MIN
from sluicegate.protocols.transport.loop.uninitialised_bytes import UninitialisedBytes

_SMALL_BYTES: Final = 1024  # a read this short is put to the one before it: objects for single bytes would add up


@final
class PartialPacket:
    """Bytes that wait for more. A packet in many reads is copied once, not once for each of them; or not at all.

    A large one has memory where the rest is read to, if the transport can: for the payload of a PUBLISH that goes on as
    it is, and for the whole packet else.

    Invariant: while something is kept, `missing_bytes` is positive; with less, another look would tell nothing new.
    """

    def __init__(self, data: bytes, pos: int) -> None:
        """Keep what stands behind `pos`, one byte at least."""
        end = len(data)
        length, body = read_length(data, pos + 1, end)
        self.missing_bytes = 1 if length < 0 else body + length - end  # of one whose length has not come yet, 1
        self._reads = [data[pos:]]
        self.held_bytes = end - pos  # that have come
        self._uninitialised: UninitialisedBytes | None = None  # what follows `_reads`, then one piece

    def join(self, data: bytes) -> bytes:
        """Return all bytes from the packet's first one on, and this has had its time; none while more is missing.

        `data` is empty behind what was placed.
        """
        reads = self._reads
        self.missing_bytes -= len(data)
        self.held_bytes += len(data)
        if len(reads[-1]) < _SMALL_BYTES:
            reads[-1] += data
        elif data:
            reads.append(data)
        return b"" if self.missing_bytes > 0 else b"".join(reads)

    def buffer(self, level: int) -> memoryview | None:
        """Return where the next bytes of the packet belong, if so much of it is missing that it pays."""
        memory = self._uninitialised
        if memory is None:
            if self.missing_bytes < READ_INTO_BYTES_MIN:
                return None
            begun = b"".join(self._reads)
            at = _payload_apart_at(begun, level)
            memory = self._uninitialised = UninitialisedBytes(memoryview(begun)[at:], self.missing_bytes)
            self._reads = [begun[:at]]
        return memory.room

    def filled(self, count: int) -> bytes | None:
        """Note that so many bytes have come to `room`. None while more is missing.

        Of a packet that is whole, return the payload that lies apart, or none; `join` returns the rest.
        """
        memory = self._uninitialised
        assert memory is not None, "who places bytes has asked for room"
        memory.filled(count)
        self.missing_bytes -= count
        self.held_bytes += count
        if self.missing_bytes > 0:
            return None
        self._uninitialised = None
        if self._reads[0]:
            return memory.whole()
        self._reads = [memory.whole()]
        return b""


def misses_much(partial: PartialPacket | None) -> bool:
    """Return whether so much of a packet is missing that it pays to read the rest to where it stays."""
    return partial is not None and partial.missing_bytes >= READ_INTO_BYTES_MIN


def _payload_apart_at(begun: bytes, level: int) -> int:
    """Return where the payload begins of a packet that has begun, if it is a PUBLISH whose payload goes on by itself.

    Else 0: so it is when the head is not whole, or wrong, which is told when all is there; and with what is sent on as
    it came, head and payload in one piece.
    """
    if begun[0] >> 4 != PUBLISH:
        return 0
    as_it_came = begun[0] == WIRE_FIRST_BYTE
    end = len(begun)
    length, body = read_length(begun, 1, end)
    if length < 0 or body + 2 > end:
        return 0
    at = body + 2 + (begun[body] << 8 | begun[body + 1]) + (2 if begun[0] & 0x06 else 0)
    if level == 5:
        try:
            properties_bytes, at = read_length(begun, at, end)
        except PeerViolation:
            return 0
        if properties_bytes < 0:
            return 0
        at += properties_bytes
        as_it_came = as_it_came and properties_bytes == 0
    return at if at <= end and not as_it_came else 0
