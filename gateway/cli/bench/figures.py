"""What `sluicegate bench` counts: how late messages are, and whether all of them came, once and in order."""

import struct
from dataclasses import dataclass
from typing import Final

from sluicegate.messaging.message.ranges import RangeSet

MANTISSA_BITS: Final = 5  # a latency is known to 1 part in 32
HEAD: Final = struct.Struct(">QIQQ")  # run, key, number within the key, moment it was due in nanoseconds
PAYLOAD_BYTES_MIN: Final = HEAD.size


class Latencies:
    """Durations in nanoseconds, in buckets that grow with them: memory does not grow with their number."""

    def __init__(self) -> None:
        self.count = 0
        self.max_ns = 0
        self._buckets: dict[tuple[int, int], int] = {}  # (shift, mantissa) -> durations

    def add(self, duration_ns: int) -> None:
        """Count one; a clock that stands still makes it 0, never less."""
        duration_ns = max(0, duration_ns)
        shift = max(0, duration_ns.bit_length() - MANTISSA_BITS - 1)
        bucket = (shift, duration_ns >> shift)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        self.max_ns = max(self.max_ns, duration_ns)

    def percentile_ms(self, percent: float) -> float:
        """Return the duration that so many percent are not above, in milliseconds; 0 when there are none."""
        wanted = self.count * percent / 100
        seen = 0
        for (shift, mantissa), count in sorted(self._buckets.items()):
            seen += count
            if seen >= wanted:
                return min(((mantissa + 1) << shift) - 1, self.max_ns) / 1e6
        return 0.0


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a message of a run says of itself."""

    run: int
    key: int
    number: int  # from 0, ascending by one within its key
    due_ns: int  # of the clock of the process, when it was to be sent

    def payload(self, size_bytes: int) -> bytes:
        """Return a payload of this size."""
        return HEAD.pack(self.run, self.key, self.number, self.due_ns).ljust(size_bytes, b"\0")


def stamp_of(payload: bytes) -> Stamp | None:
    """Return what a payload says, None for one that no run made."""
    return Stamp(*HEAD.unpack_from(payload)) if len(payload) >= HEAD.size else None


class Tally:
    """What of one run has arrived."""

    def __init__(self, run: int) -> None:
        self.received_count = 0  # each message once
        self.duplicate_count = 0
        self.out_of_order_count = 0  # behind a later one of their key, when they came for the first time
        self._run = run
        self._by_key: dict[int, RangeSet] = {}

    def note(self, payload: bytes) -> Stamp | None:
        """Count a message; return its stamp if it is one of this run that came for the first time."""
        stamp = stamp_of(payload)
        if stamp is None or stamp.run != self._run:
            return None
        seen = self._by_key.setdefault(stamp.key, RangeSet())
        if stamp.number in seen:
            self.duplicate_count += 1
            return None
        if seen and stamp.number < seen.end():
            self.out_of_order_count += 1
        seen.add(stamp.number, stamp.number + 1)
        self.received_count += 1
        return stamp
