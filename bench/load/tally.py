"""The check of mixed streams: of several publishers, of many topics or keys, or shared by consumers.

A `Tally` identifies each message by stream and sequence; a `TallyReceiver` splits the bytes of one subscriber into
messages, and acknowledges them, also at QoS 2. It reads a run of packets of one layout with one call, so that one core
reads some millions a second; `receiver` is faster, and handles one stream only.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import final

from bench.wire import mqtt as wire


@final
class Tally:
    """The received messages of some streams, at one consumer or at several competing ones.

    Invariant: `received` counts no message twice, so the other published messages were lost. Sequences are modulo the
    cycle, and less than half of it is ever in flight.
    """

    def __init__(self, *, streams: int, cycle: int, in_order: bool, first: int = 0) -> None:
        self.received = 0
        self.duplicated = 0
        self.disordered = 0  # came behind a later one of their stream, for the first time
        self.read_singly = 0
        self.cycle = cycle
        self._in_order = in_order  # False: consumers compete, and which of them is served first says nothing
        self._next = [first] * streams  # sequence that follows the highest one
        self._laps = [0] * streams  # how often that was the first of a cycle again
        self._missing: set[tuple[int, int, int]] = set()  # stream, lap and sequence of what was passed over

    def count(self, numbers: Iterable[tuple[int, int]]) -> None:
        """Count messages by stream and sequence, in the order of receipt. Raises WireError for messages of others."""
        following, cycle = self._next, self.cycle
        done = 0
        for stream, sequence in numbers:
            try:
                if sequence != following[stream]:
                    done += self._count_odd(stream, sequence)
                    continue
            except IndexError:
                raise wire.WireError(f"message {sequence} of stream {stream}: not a message of this run") from None
            done += 1
            following[stream] = sequence + 1
            if sequence + 1 == cycle:
                self._begin_lap(stream)
        self.received += done

    def place(self, stream: int, sequence: int) -> int:
        """Return how many messages of a stream were published before this one."""
        highest = self._laps[stream] * self.cycle + self._next[stream]
        ahead = (sequence - highest) % self.cycle
        return highest + (ahead if ahead < self.cycle // 2 else ahead - self.cycle)

    def _count_odd(self, stream: int, sequence: int) -> int:
        """Count a message that does not follow the highest one; return 1 for its first receipt."""
        if sequence >= self.cycle:
            raise wire.WireError(f"sequence {sequence} in a cycle of {self.cycle}: not a message of this run")
        following = self._next[stream]
        if (sequence - following) % self.cycle < self.cycle // 2:
            while self._next[stream] != sequence:
                self._missing.add((stream, self._laps[stream], self._next[stream]))
                self._step(stream)
            self._step(stream)
            return 1
        place = (stream, self._laps[stream] - (sequence > following), sequence)
        if place not in self._missing:
            self.duplicated += 1
            return 0
        self._missing.remove(place)
        self.disordered += self._in_order
        return 1

    def _step(self, stream: int) -> None:
        self._next[stream] += 1
        if self._next[stream] == self.cycle:
            self._begin_lap(stream)

    def _begin_lap(self, stream: int) -> None:
        self._next[stream] = 0
        self._laps[stream] += 1


@final
class TallyReceiver:
    """The messages that one subscriber gets, counted by a tally that may be shared."""

    def __init__(self, tally: Tally, *, version: int, own_order: int = 0) -> None:
        self.tally = tally
        self.rest = b""  # the start of a packet whose end has not come
        self._version = version
        self._last = [-1] * own_order  # place by stream, of a consumer among several that each get a part in order

    def feed(self, buffer: bytearray, end: int) -> bytes:
        """Read `buffer[:end]`, which starts with the former `rest`; return the acknowledgements to send."""
        answers: list[bytes] = []
        at = 0
        while True:
            body, stop = wire.packet_end(buffer, at, end)
            if stop == 0 or stop > end:
                break
            if buffer[at] == wire.PUBREL:
                count = run_length(buffer, at, end, wire.ACK_BYTES, (0, 1))
                stop = at + count * wire.ACK_BYTES
                answers.append(wire.acks(wire.PUBCOMP, buffer[at + 2 : stop : 4], buffer[at + 3 : stop : 4]))
                at = stop
            elif buffer[at] & wire.TYPE_MASK == wire.PUBLISH:
                at = self._take_run(buffer, at, body, stop, end, answers)
            else:
                raise wire.WireError(f"a subscriber got {bytes(buffer[at:stop])[:40].hex(' ')}")
        self.rest = bytes(buffer[at:end])
        return b"".join(answers)

    def _take_run(self, buffer: bytearray, at: int, body: int, stop: int, end: int, answers: list[bytes]) -> int:
        """Count the packets at the beginning with the layout of the first; return where they end."""
        shape = wire.publish_shape(buffer, at, body, stop, version=self._version)
        size = shape.packet_bytes
        if size - shape.payload_at < wire.NUMBER_BYTES:
            raise wire.WireError(f"a subscriber got {bytes(buffer[at:stop])[:40].hex(' ')}")
        # The same first byte, length and length of topic, and in MQTT 5 of properties: the same layout.
        columns = [*range(body + 2 - at)]
        if self._version == wire.MQTT_5:
            topic_end = body + 2 - at + int.from_bytes(buffer[body : body + 2], "big")
            columns.append(topic_end + (2 if shape.packet_id_at is not None else 0))
        count = run_length(buffer, at, end, size, columns)
        stop = at + count * size
        numbers = list(_numbers(shape.payload_at, size).iter_unpack(memoryview(buffer)[at:stop]))
        if self._last:
            self._check_own_order(numbers)
        self.tally.count(numbers)
        if count == 1:
            self.tally.read_singly += 1
        if shape.packet_id_at is not None:
            id_at = at + shape.packet_id_at
            kind = wire.PUBACK if buffer[at] >> 1 & 3 == 1 else wire.PUBREC
            answers.append(wire.acks(kind, buffer[id_at:stop:size], buffer[id_at + 1 : stop : size]))
        return stop

    def _check_own_order(self, numbers: list[tuple[int, int]]) -> None:
        last, tally = self._last, self.tally
        for stream, sequence in numbers:
            place = tally.place(stream, sequence)  # a sequence alone says nothing behind half a cycle for others
            if place < last[stream]:
                tally.disordered += 1
            last[stream] = place


def run_length(buffer: bytearray, at: int, end: int, size: int, columns: Iterable[int]) -> int:
    """Return how many whole packets of a size have the bytes of the first one in these columns."""
    count = (end - at) // size
    for column in columns:
        first = buffer[at + column]
        run = buffer[at + column : at + count * size : size]
        if run.count(first) != count:
            count -= len(run.lstrip(bytes((first,))))
    return count


@lru_cache(maxsize=4096)
def _numbers(payload_at: int, size: int) -> struct.Struct:
    return struct.Struct(f">{payload_at}xII{size - payload_at - wire.NUMBER_BYTES}x")
