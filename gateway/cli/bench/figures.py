"""The measurements of `sluicegate bench`: latencies, and whether every message arrived once and in order."""

import struct
from dataclasses import dataclass
from typing import Final

from sluicegate.messaging.message.ranges import RangeSet

MANTISSA_BITS: Final = 5  # the precision of a latency is 1/32
HEAD: Final = struct.Struct(">QIQQ")  # run, key, number within the key, moment it was due in nanoseconds
PAYLOAD_BYTES_MIN: Final = HEAD.size


class Latencies:
    """A histogram of durations. Bucket widths grow with the durations, and memory does not grow with their number."""

    def __init__(self) -> None:
        self.count = 0
        self.max_ns = 0
        self._buckets: dict[tuple[int, int], int] = {}  # (shift, mantissa) -> durations

    def add(self, duration_ns: int) -> None:
        """Count a duration; a negative one counts as 0."""
        duration_ns = max(0, duration_ns)
        shift = max(0, duration_ns.bit_length() - MANTISSA_BITS - 1)
        bucket = (shift, duration_ns >> shift)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        self.max_ns = max(self.max_ns, duration_ns)

    def percentile_ms(self, percent: float) -> float:
        """Return a percentile in milliseconds; 0 without durations."""
        wanted = self.count * percent / 100
        seen = 0
        for (shift, mantissa), count in sorted(self._buckets.items()):
            seen += count
            if seen >= wanted:
                return min(((mantissa + 1) << shift) - 1, self.max_ns) / 1e6
        return 0.0


@dataclass(frozen=True, slots=True)
class Stamp:
    """The header in the payload of a message: its run, key and number, and when it was due."""

    run: int
    key: int
    number: int  # from 0, consecutive within its key
    due_ns: int  # when it was to be sent, by the monotonic clock

    def payload(self, size_bytes: int) -> bytes:
        """Return a payload of this size that starts with the stamp."""
        return HEAD.pack(self.run, self.key, self.number, self.due_ns).ljust(size_bytes, b"\0")


def stamp_of(payload: bytes) -> Stamp | None:
    """Return the stamp of a payload, None where it is too short for one."""
    return Stamp(*HEAD.unpack_from(payload)) if len(payload) >= HEAD.size else None


class Tally:
    """Counts the messages of one run that have arrived."""

    def __init__(self, run: int) -> None:
        self.received_count = 0  # without duplicates
        self.duplicate_count = 0
        self.out_of_order_count = 0  # first received after a later message of the same key
        self._run = run
        self._by_key: dict[int, RangeSet] = {}

    def note(self, payload: bytes) -> Stamp | None:
        """Count a message; return its stamp if it is the first copy of a message of this run."""
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
