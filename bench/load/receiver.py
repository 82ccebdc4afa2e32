"""The check of one subscriber's stream: received, missing and repeated messages, and the PUBACKs to send.

One publisher's, with QoS 0 or 1; streams of several, or with QoS 2, or shared by consumers, are for `tally`. Every
message is checked, at a cost that lets one core take in tens of millions of them a second: the first packet tells the
layout, the whole cycle is then written out as bytes, and what arrives is compared with it by memcmp, the packet ids
blanked out first. Only what differs is read packet by packet. No socket here.
"""

from functools import lru_cache
from typing import Final, final

from bench.wire import mqtt as wire

_ZEROS: Final = bytes(wire.CYCLE_MAX)


@final
class Receiver:
    """The messages of one publisher, as one subscriber sees them.

    A late message counts once as missing and once as repeated. Invariant: `received` counts no message twice, so the
    other published messages were lost.
    """

    def __init__(self, *, cycle: int, payload_bytes: int, version: int) -> None:
        self.received = 0
        self.duplicated = 0
        self.disordered = 0  # never: what comes late is missing and repeated
        self.read_singly = 0  # packets that did not match the pattern: the generator worked hard for them
        self.rest = b""  # the start of a packet whose end has not come
        self._cycle = cycle
        self._payload_bytes = payload_bytes
        self._version = version
        self._next = 0  # sequence expected, modulo the cycle
        self._packet_bytes = 0  # 0: no packet has come
        self._packet_id_at: int | None = None
        self._pattern = b""

    def feed(self, buffer: bytearray, end: int) -> bytes:
        """Read `buffer[:end]`, which starts with the former `rest`; return PUBACKs to send. Overwrites the buffer."""
        size = self._packet_bytes
        if size == 0:
            return self._read_each(buffer, end)
        count = end // size
        if count == 0:
            self.rest = bytes(buffer[:end])
            return b""
        whole = count * size
        id_at = self._packet_id_at
        if id_at is None:
            if not self._matches(buffer, count):
                return self._read_each(buffer, end)
            acks = b""
        else:
            high = buffer[id_at:whole:size]
            low = buffer[id_at + 1 : whole : size]
            buffer[id_at:whole:size] = buffer[id_at + 1 : whole : size] = _ZEROS[:count]
            if not self._matches(buffer, count):
                buffer[id_at:whole:size] = high
                buffer[id_at + 1 : whole : size] = low
                return self._read_each(buffer, end)
            acks = wire.acks(wire.PUBACK, high, low)
        self.received += count
        self._next = (self._next + count) % self._cycle
        self.rest = bytes(buffer[whole:end]) if whole < end else b""
        return acks

    def _matches(self, buffer: bytearray, count: int) -> bool:
        size = self._packet_bytes
        first = self._next
        done = 0
        while done < count:
            run = min(count - done, self._cycle - first)
            if not self._pattern.startswith(buffer[done * size : (done + run) * size], first * size):
                return False
            done += run
            first = 0
        return True

    def _read_each(self, buffer: bytearray, end: int) -> bytes:
        acks: list[bytes] = []
        start = 0
        while True:
            body, stop = wire.packet_end(buffer, start, end)
            if stop == 0 or stop > end:
                break
            if buffer[start] & wire.TYPE_MASK != wire.PUBLISH:
                raise wire.WireError(f"a subscriber got {bytes(buffer[start:stop])[:40].hex(' ')}")
            acks.append(self._read_one(buffer, start, body, stop))
            start = stop
        self.rest = bytes(buffer[start:end])
        return b"".join(acks)

    def _read_one(self, buffer: bytearray, start: int, body: int, stop: int) -> bytes:
        shape = wire.publish_shape(buffer, start, body, stop, version=self._version)
        payload_at = start + shape.payload_at
        if stop - payload_at != self._payload_bytes:
            raise wire.WireError(f"payload of {stop - payload_at} bytes, {self._payload_bytes} were published")
        self.read_singly += 1
        self._count(int.from_bytes(buffer[payload_at : payload_at + wire.NUMBER_BYTES], "big"))
        if self._packet_bytes == 0:
            self._learn(buffer[start:payload_at], shape)
        if shape.packet_id_at is None:
            return b""
        id_at = start + shape.packet_id_at
        return wire.acks(wire.PUBACK, buffer[id_at : id_at + 1], buffer[id_at + 1 : id_at + 2])

    def _count(self, sequence: int) -> None:
        if sequence >= self._cycle:
            raise wire.WireError(f"sequence {sequence} in a cycle of {self._cycle}: not a message of this run")
        ahead = (sequence - self._next) % self._cycle
        if ahead < self._cycle // 2:
            self.received += 1
            self._next = (sequence + 1) % self._cycle
        else:
            self.duplicated += 1

    def _learn(self, header: bytearray, shape: wire.PublishShape) -> None:
        header[0] &= ~wire.DUP
        if shape.packet_id_at is not None:
            header[shape.packet_id_at : shape.packet_id_at + 2] = b"\x00\x00"
        self._packet_bytes = shape.packet_bytes
        self._packet_id_at = shape.packet_id_at
        self._pattern = _pattern(bytes(header), self._cycle, self._payload_bytes)


@lru_cache(maxsize=64)  # shared: fifty subscribers of one topic must not have fifty copies in the processor's cache
def _pattern(header: bytes, cycle: int, payload_bytes: int) -> bytes:
    return wire.publish_stream([wire.PublishHeader(header, None, payload_bytes)], cycle=cycle)[0]
