"""Maps from sequences to the packet ids they were sent under, stored as runs in which both ascend together.

Messages that are sent together get consecutive ids, so with a thousand in flight there is mostly one run. An
acknowledgement out of order splits a run.
"""

from bisect import bisect_right
from typing import Final, final

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE
from sluicegate.messaging.message.ranges import RangeSet

_NONE: Final[list[int]] = []  # what those have in common that hold nothing


@final
class IdRuns:
    """A map from sequences to packet ids.

    Invariants: the three lists are of one length, no count is 0, and each run begins behind the end of the one before.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = _NONE  # sequences
        self._packet_ids: list[int] = _NONE
        self._counts: list[int] = _NONE

    def __bool__(self) -> bool:
        return len(self._firsts) > 0

    def runs(self) -> list[tuple[int, int, int]]:
        """Return every run as `(first sequence, first packet id, count)`, by sequence."""
        return list(zip(self._firsts, self._packet_ids, self._counts, strict=True))

    def add(self, first: int, packet_id: int, count: int) -> None:
        """Map `count` sequences from `first` on to ids from `packet_id` on, whatever they were mapped to."""
        if self._firsts is _NONE:
            self._firsts, self._packet_ids, self._counts = [], [], []
        firsts, counts = self._firsts, self._counts
        if firsts and first < firsts[-1] + counts[-1]:
            self.discard(first, first + count)
            index = bisect_right(firsts, first)
        else:
            index = len(firsts)  # after all others: the usual case in a stream of deliveries
        before = index - 1
        shift = packet_id - first
        if index and first == firsts[before] + counts[before] and shift == self._packet_ids[before] - firsts[before]:
            counts[before] += count
        else:
            firsts.insert(index, first)
            self._packet_ids.insert(index, packet_id)
            counts.insert(index, count)

    def find(self, sequence: int) -> int:
        """Return the packet id of a sequence, 0 where there is none."""
        index = bisect_right(self._firsts, sequence) - 1
        if index < 0 or sequence >= self._firsts[index] + self._counts[index]:
            return 0
        return self._packet_ids[index] + sequence - self._firsts[index]

    def discard(self, first: int, end: int) -> None:
        """Forget those of the sequences `[first, end)` that are here."""
        firsts, packet_ids, counts = self._firsts, self._packet_ids, self._counts
        index = max(bisect_right(firsts, first) - 1, 0)
        while index < len(firsts) and firsts[index] < end:
            start, its_id, count = firsts[index], packet_ids[index], counts[index]
            left = max(first - start, 0)
            behind = max(start + count - end, 0)
            if left >= count:
                index += 1
                continue
            if behind:  # what answers in order leave
                firsts[index], packet_ids[index], counts[index] = end, its_id + count - behind, behind
            else:
                firsts.pop(index)
                packet_ids.pop(index)
                counts.pop(index)
            if left:
                firsts.insert(index, start)
                packet_ids.insert(index, its_id)
                counts.insert(index, left)
                index += 1
            if behind:
                return


# Packet ids that outlive their connection: of queue messages that the client has not acknowledged.


NOT_BOUND: Final = 0  # partition ids start at 1
RECEIVED_RANGES_MAX: Final = 1000  # some 16 kB of a session; the oldest range is forgotten first
RECEIVED_RANGES_STORED_MAX: Final = 100  # settled ones: mostly there is one range; older ones were written long ago


@final
class SentIds:
    """Sequences of one queue and the packet ids under which they were sent, and not answered.

    The queue is the session's own, or that of a shared subscription. After a reconnect messages are sent
    again under the same ids [4.4.0-1].
    """

    def __init__(self) -> None:
        self.partition_id = NOT_BOUND  # whose sequences these are: a queue of the same name may be another one
        # Messages sent on an earlier connection, and not again on this one.
        self.remembered_least_once = IdRuns()
        self.remembered_once = IdRuns()
        self.exactly_once = IdRuns()  # sent on this connection at QoS 2; must survive a restart
        # QoS 2 messages that the client has received. A rebuilt ledger may not know that, and deliver them again.
        self.received = RangeSet()
        self.unsettled = RangeSet()  # those of them that are settled once the store records their receipt
        # QoS 1 ids are not written while the client is there. After a crash, a message below may have been sent, under
        # an id that nobody knows.
        self.maybe_sent_below = 0

    @property
    def remembered(self) -> bool:
        """Whether messages of an earlier connection are unacknowledged."""
        return bool(self.remembered_least_once) or bool(self.remembered_once)

    def remembered_runs(self) -> list[tuple[int, int, int, int]]:
        """Return the remembered messages, in runs: `(first sequence, first packet id, count, QoS)`."""
        least_once = [(*run, AT_LEAST_ONCE) for run in self.remembered_least_once.runs()]
        return [*least_once, *[(*run, EXACTLY_ONCE) for run in self.remembered_once.runs()]]

    def sent_to_store(self) -> list[tuple[int, int, int, int]]:
        """Return the sent messages that have to be stored, in such runs."""
        return [*self.remembered_runs(), *[(*run, EXACTLY_ONCE) for run in self.exactly_once.runs()]]

    def remember(self, first: int, packet_id: int, count: int, qos: int) -> None:
        """Remember `count` unacknowledged messages, sent under ids from `packet_id` on."""
        remembered = self.remembered_once if qos == EXACTLY_ONCE else self.remembered_least_once
        remembered.add(first, packet_id, count)

    def recall(self, sequence: int) -> tuple[int, int]:
        """Forget a remembered sequence; return its packet id, 0 for none, and the QoS it was sent at."""
        for remembered, qos in ((self.remembered_once, EXACTLY_ONCE), (self.remembered_least_once, AT_LEAST_ONCE)):
            packet_id = remembered.find(sequence)
            if packet_id:
                remembered.discard(sequence, sequence + 1)
                return packet_id, qos
        return 0, AT_MOST_ONCE

    def answered(self, first: int, end: int) -> None:
        """Forget sequences `[first, end)`: the client has acknowledged them."""
        if self.exactly_once:
            self.exactly_once.discard(first, end)

    def add_received(self, first: int, end: int) -> None:
        """Note that the client has received the QoS 2 messages `[first, end)`."""
        received = self.received
        received.add(first, end)
        if received.ranges_count() > RECEIVED_RANGES_MAX:
            received.discard(received.lowest(), received.lowest_end())

    def received_to_store(self) -> list[tuple[int, int]]:
        """Return the ranges the client has received that a restart may find unsettled."""
        received = self.received.ranges()
        start = len(received) - RECEIVED_RANGES_STORED_MAX
        if self.unsettled:
            start = min(start, bisect_right([end for _, end in received], self.unsettled.lowest()))
        return received[max(start, 0) :]

    def set_partition(self, partition_id: int) -> None:
        """Set the partition of these sequences; receipts of another queue do not apply to it."""
        if partition_id != self.partition_id:
            self.received = RangeSet()
            self.unsettled = RangeSet()
        self.partition_id = partition_id

    def kept_ranges(self) -> list[tuple[int, int]]:
        """Return the remembered sequences as ranges."""
        kept = RangeSet()
        for first, _, count, _ in self.remembered_runs():
            kept.add(first, first + count)
        return kept.ranges()

    def awaited_ranges(self) -> list[tuple[int, int]]:
        """Return the ranges a queue keeps for a disconnected client: remembered, or received and unsettled."""
        return _united(self.kept_ranges(), self.unsettled.ranges())

    def restore_unsettled(self, ranges: list[tuple[int, int]]) -> None:
        """Note ranges that a restart found unsettled. Received ones are settled when they are delivered again."""
        for first, end in ranges:
            for start, stop in self.received.within(first, end):
                self.unsettled.add(start, stop)

    def ranges_of_client(self) -> list[tuple[int, int]]:
        """Return the ranges that no other client may get after a restart: remembered or received."""
        return _united(self.kept_ranges(), self.received.ranges())


def _united(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> list[tuple[int, int]]:
    united = RangeSet()
    for first, end in [*some, *others]:
        united.add(first, end)
    return united.ranges()
