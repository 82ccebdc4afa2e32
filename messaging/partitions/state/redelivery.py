"""What a partition keeps of returned messages until their redelivery: delays, and annotations of consumers.

Failed messages are delayed, and messages that must not overtake them are blocked. Where a queue keeps an order, no
message may overtake the failed one: its successors with the same key are blocked until it is ready again, and a failed
message without key on an exclusive queue blocks everything after it. Keys are compared by their 16-bit hashes: a
collision makes an unrelated key wait, which is allowed, and saves the text.

A consumer may annotate a message that it releases, for the next consumer (AMQP 3.4.5). An annotation is bytes in the
format of the protocol it came in, and only that protocol reads it. Several annotations on one message are concatenated.
They live in memory, as long as their messages and no longer than the ledger.
"""

from heapq import heappop, heappush
from typing import Final, final

from sluicegate.messaging.message.ranges import RangeSet

NO_KEY: Final = -1  # blocks no message
EVERYTHING: Final = -2  # blocks all messages after it

# Successors are blocked one by one. Beyond this limit on memory the partition waits as a whole.
BLOCKED_COUNT_MAX: Final = 100_000

ANNOTATION_BYTES_MAX: Final = 4_096  # on one message
ANNOTATIONS_BYTES_MAX: Final = 1 << 20  # of one partition


@final
class RedeliveryDelays:
    """The failed messages of one partition and those blocked behind them.

    Invariants: `failed` and `blocked` are disjoint; a key has blocked messages only while a failed one of it waits.
    """

    def __init__(self) -> None:
        self.failed = RangeSet()
        self.blocked = RangeSet()
        self._key_of: dict[int, int] = {}  # failed sequence -> key hash, NO_KEY or EVERYTHING
        self._unscheduled: list[tuple[int, int]] = []  # (sequence, delay in ms): failed since the clock was last read
        self._due: list[tuple[int, int]] = []  # heap of (time, sequence)
        self._due_of: dict[int, int] = {}
        self._failed_of_key: dict[int, RangeSet] = {}
        self._blocked_of_key: dict[int, RangeSet] = {}

    def total(self) -> int:
        """Return how many messages wait here."""
        return self.failed.total + self.blocked.total

    def fail(self, sequence: int, delay_ms: int, key: int) -> None:
        """Have a failed message wait from the next `start` on; `key` says which messages it blocks."""
        self.failed.add(sequence, sequence + 1)
        self._key_of[sequence] = key
        self._unscheduled.append((sequence, delay_ms))
        if key != NO_KEY:
            waiting = self._failed_of_key.get(key)
            if waiting is None:
                waiting = self._failed_of_key[key] = RangeSet()
            waiting.add(sequence, sequence + 1)

    def start(self, now_ms: int) -> None:
        """Start the delays of recently failed messages."""
        for sequence, delay_ms in self._unscheduled:
            if sequence in self._key_of:
                self._due_of[sequence] = now_ms + delay_ms
                heappush(self._due, (now_ms + delay_ms, sequence))
        self._unscheduled.clear()

    def waiting(self, now_ms: int) -> list[tuple[int, int, int]]:
        """Return every failed message with the end of its delay and the key it blocks, for `resume`."""
        self.start(now_ms)
        return [(sequence, self._due_of[sequence], self._key_of[sequence]) for sequence in sorted(self._key_of)]

    def resume(self, sequence: int, due_ms: int, key: int) -> None:
        """Continue the delay of a message that failed before the last stop."""
        self.fail(sequence, 0, key)
        self._unscheduled.pop()
        self._due_of[sequence] = due_ms
        heappush(self._due, (due_ms, sequence))

    def next_ms(self) -> int:
        """Return when the next failed message becomes ready; 0 when none waits."""
        while self._due and self._due_of.get(self._due[0][1]) != self._due[0][0]:
            heappop(self._due)  # dropped meanwhile
        return self._due[0][0] if self._due else 0

    def take_due(self, now_ms: int) -> list[tuple[int, int]]:
        """Return what is ready now: failed messages whose delay is over, and the messages they blocked."""
        ready: list[tuple[int, int]] = []
        while 0 < self.next_ms() <= now_ms:
            sequence = heappop(self._due)[1]
            self.failed.discard(sequence, sequence + 1)
            ready.append((sequence, sequence + 1))
            ready += self._forget(sequence)
        return ready

    def remove(self, first: int, end: int) -> list[tuple[int, int]]:
        """Remove what waits here of `[first, end)`, and return what becomes ready because of it."""
        for key in list(self._blocked_of_key) if self.blocked.total else []:
            self._blocked_of_key[key].discard(first, end)
        self.blocked.discard(first, end)
        ready: list[tuple[int, int]] = []
        for start, stop in self.failed.remove(first, end):
            for sequence in range(start, stop):
                ready += self._forget(sequence)
        return ready

    def holds_up(self, sequence: int, key: int) -> bool:
        """Return whether a failed message of this key waits before `sequence`."""
        waiting = self._failed_of_key.get(key)
        return waiting is not None and waiting.lowest() < sequence

    def stop_at(self) -> int:
        """Return the sequence after which nothing may be delivered; 0 when all may."""
        waiting = self._failed_of_key.get(EVERYTHING)
        if waiting is not None:
            return waiting.lowest()
        return self.failed.lowest() if self.blocked.total >= BLOCKED_COUNT_MAX else 0

    def block(self, sequence: int, key: int) -> None:
        """Block a message until no failed one of its key waits."""
        self.blocked.add(sequence, sequence + 1)
        held = self._blocked_of_key.get(key)
        if held is None:
            held = self._blocked_of_key[key] = RangeSet()
        held.add(sequence, sequence + 1)

    def check(self) -> None:
        """Assert the invariants."""
        self.failed.check()
        self.blocked.check()
        assert self.failed.total == len(self._key_of)
        assert sum([held.total for held in self._blocked_of_key.values()]) == self.blocked.total
        for key, held in self._blocked_of_key.items():
            for first, end in held.ranges():
                assert self.blocked.count_within(first, end) == end - first
                assert self.failed.count_within(first, end) == 0
            assert key in self._failed_of_key, "a blocked message waits for a failed one"
        for key, waiting in self._failed_of_key.items():
            assert waiting.total > 0
            for first, end in waiting.ranges():
                assert all(self._key_of[sequence] == key for sequence in range(first, end))

    def _forget(self, sequence: int) -> list[tuple[int, int]]:
        """Forget a failed message; return what its key had blocked, which another failed one may block again."""
        self._due_of.pop(sequence, None)
        key = self._key_of.pop(sequence)
        waiting = self._failed_of_key.get(key)
        if waiting is None:
            return []
        waiting.discard(sequence, sequence + 1)
        if waiting.total == 0:
            del self._failed_of_key[key]
        held = self._blocked_of_key.pop(key, None)
        if held is None:
            return []
        ranges = held.ranges()
        for first, end in ranges:
            self.blocked.discard(first, end)
        return ranges


@final
class DeliveryAnnotations:
    """The annotations on the messages of one partition."""

    def __init__(self) -> None:
        self.by_sequence: dict[int, bytes] = {}
        self.lost_count = 0  # annotations that were discarded: too many, or too long
        self._bytes = 0

    def cleared(self) -> "DeliveryAnnotations":
        """Return an object without annotations; the counter stays."""
        annotations = DeliveryAnnotations()
        annotations.lost_count = self.lost_count
        return annotations

    def add(self, first: int, end: int, annotation: bytes) -> None:
        """Add an annotation to the messages `[first, end)`, after existing ones."""
        size = len(annotation)
        for sequence in range(first, end):
            before = self.by_sequence.get(sequence, b"")
            if len(before) + size > ANNOTATION_BYTES_MAX or self._bytes + size > ANNOTATIONS_BYTES_MAX:
                self.lost_count += 1
                continue
            self.by_sequence[sequence] = before + annotation
            self._bytes += size

    def alike_until(self, first: int, end: int) -> int:
        """Return the end of the part of `[first, end)` without annotations; an annotated message is alone."""
        if first in self.by_sequence:
            return first + 1
        stop = first + 1
        while stop < end and stop not in self.by_sequence:
            stop += 1
        return stop

    def forget(self, first: int, end: int) -> None:
        """Discard the annotations of the messages `[first, end)`."""
        for sequence in range(first, end):
            self._bytes -= len(self.by_sequence.pop(sequence, b""))
