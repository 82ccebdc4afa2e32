"""Packet ids that outlive their connection: those of what a queue sent and the client has not answered for."""

from bisect import bisect_right
from typing import Final, final

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.protocols.mqtt.session.packet_ids import IdRuns

NOT_BOUND: Final = 0  # partition ids start at 1
TAKEN_RANGES_MAX: Final = 1000  # some 16 kB of a session; what was taken longest ago is forgotten first
TAKEN_RANGES_STORED_MAX: Final = 100  # of what is settled: mostly there is one, and older ones are written long since


@final
class SentIds:
    """Sequences of one queue and the packet ids under which they were sent, and not answered.

    The queue is the session's own, or that of a shared subscription. What was sent is sent again under the same id when
    the client is back [4.4.0-1].
    """

    def __init__(self) -> None:
        self.partition_id = NOT_BOUND  # whose sequences these are: a queue of the same name may be another one
        # What was sent on an earlier connection, and not again on this one.
        self.remembered_least_once = IdRuns()
        self.remembered_once = IdRuns()
        self.exactly_once = IdRuns()  # what this connection sent at QoS 2; a restart must know it
        # The QoS 2 ones that the client has. A ledger that is made anew may not know it, and deliver them again.
        self.taken = RangeSet()
        self.unsettled = RangeSet()  # those of them that are settled once a restart would know that they are taken
        # QoS 1 ids are not written while the client is there. After a crash, a message below may have been sent, under
        # an id that nobody knows.
        self.maybe_sent_below = 0

    @property
    def remembered(self) -> bool:
        """Whether anything is remembered of an earlier connection."""
        return bool(self.remembered_least_once) or bool(self.remembered_once)

    def remembered_runs(self) -> list[tuple[int, int, int, int]]:
        """Return what is remembered, in runs: `(first sequence, first packet id, count, QoS)`."""
        least_once = [(*run, AT_LEAST_ONCE) for run in self.remembered_least_once.runs()]
        return [*least_once, *[(*run, EXACTLY_ONCE) for run in self.remembered_once.runs()]]

    def sent_to_store(self) -> list[tuple[int, int, int, int]]:
        """Return what is to be stored of what was sent, in such runs."""
        return [*self.remembered_runs(), *[(*run, EXACTLY_ONCE) for run in self.exactly_once.runs()]]

    def remember(self, first: int, packet_id: int, count: int, qos: int) -> None:
        """Note what was sent and not answered: `count` messages, under ids from `packet_id` on."""
        remembered = self.remembered_once if qos == EXACTLY_ONCE else self.remembered_least_once
        remembered.add(first, packet_id, count)

    def recall(self, sequence: int) -> tuple[int, int]:
        """Forget what was remembered of a sequence; return its packet id, 0 for none, and the QoS it was sent at."""
        for remembered, qos in ((self.remembered_once, EXACTLY_ONCE), (self.remembered_least_once, AT_LEAST_ONCE)):
            packet_id = remembered.find(sequence)
            if packet_id:
                remembered.discard(sequence, sequence + 1)
                return packet_id, qos
        return 0, AT_MOST_ONCE

    def answered(self, first: int, end: int) -> None:
        """Forget sequences `[first, end)`: the client has answered for them."""
        if self.exactly_once:
            self.exactly_once.discard(first, end)

    def takes(self, first: int, end: int) -> None:
        """Note that the client has the QoS 2 messages `[first, end)`."""
        taken = self.taken
        taken.add(first, end)
        if taken.ranges_count() > TAKEN_RANGES_MAX:
            taken.discard(taken.lowest(), taken.lowest_end())

    def taken_to_store(self) -> list[tuple[int, int]]:
        """Return what the client has and a restart may find unsettled, in ranges."""
        taken = self.taken.ranges()
        place = len(taken) - TAKEN_RANGES_STORED_MAX
        if self.unsettled:
            place = min(place, bisect_right([end for _, end in taken], self.unsettled.lowest()))
        return taken[max(place, 0) :]

    def are_of(self, partition_id: int) -> None:
        """Note whose sequences these are; what was taken of another queue says nothing of this one."""
        if partition_id != self.partition_id:
            self.taken = RangeSet()
            self.unsettled = RangeSet()
        self.partition_id = partition_id

    def kept_ranges(self) -> list[tuple[int, int]]:
        """Return what is remembered as ranges of sequences."""
        kept = RangeSet()
        for first, _, count, _ in self.remembered_runs():
            kept.add(first, first + count)
        return kept.ranges()

    def awaited_ranges(self) -> list[tuple[int, int]]:
        """Return what a queue keeps for the client while it is away: what is remembered, and what it has unsettled."""
        return _united(self.kept_ranges(), self.unsettled.ranges())

    def found_unsettled(self, ranges: list[tuple[int, int]]) -> None:
        """Note what a restart found unsettled. What the client has of it is settled when it is delivered once more."""
        for first, end in ranges:
            for start, stop in self.taken.within(first, end):
                self.unsettled.add(start, stop)

    def ranges_of_the_client(self) -> list[tuple[int, int]]:
        """Return what after a restart nobody else may have: it is remembered, or the client has taken it."""
        return _united(self.kept_ranges(), self.taken.ranges())


def _united(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> list[tuple[int, int]]:
    united = RangeSet()
    for first, end in [*some, *others]:
        united.add(first, end)
    return united.ranges()
