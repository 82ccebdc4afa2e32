"""Packet ids that outlive their connection: those of what a queue sent and the client has not answered for."""

from bisect import bisect_right
from typing import Final, final

from messaging.batch import EXACTLY_ONCE
from messaging.ranges import RangeSet

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
        self.remembered: dict[int, int] = {}  # sent on an earlier connection, and not again on this one
        self.remembered_once: set[int] = set()  # the packet ids of the QoS 2 ones among them
        self.exactly_once: dict[int, int] = {}  # the QoS 2 ones of this connection; a restart must know them
        # The QoS 2 ones that the client has. A ledger that is made anew may not know it, and deliver them again.
        self.taken = RangeSet()
        self.unsettled = RangeSet()  # those of them that are settled once a restart would know that they are taken
        # QoS 1 ids are not written while the client is there. After a crash, a message below may have been sent, under
        # an id that nobody knows.
        self.maybe_sent_below = 0

    def pairs(self) -> list[tuple[int, int]]:
        """Return what is to be stored, oldest connection first."""
        return [*self.remembered.items(), *self.exactly_once.items()]

    def ids_once(self) -> list[int]:
        """Return which of the packet ids to be stored are of QoS 2."""
        return [*self.remembered_once, *self.exactly_once.values()]

    def remember(self, sequence: int, packet_id: int, *, exactly_once: bool) -> None:
        """Note what was sent and not answered."""
        self.remembered[sequence] = packet_id
        if exactly_once:
            self.remembered_once.add(packet_id)

    def qos_of_again(self, sequence: int, granted_qos: int) -> int:
        """Return what a remembered message is sent at again: its packet id stands for one of QoS 2 until PUBREL."""
        return EXACTLY_ONCE if self.remembered.get(sequence, 0) in self.remembered_once else granted_qos

    def recall(self, sequence: int) -> int:
        """Forget what was remembered of a sequence; return its packet id, 0 for none."""
        packet_id = self.remembered.pop(sequence, 0)
        self.remembered_once.discard(packet_id)
        return packet_id

    def answered(self, first: int, end: int) -> None:
        """Forget sequences `[first, end)`: the client has answered for them."""
        if self.exactly_once:
            for sequence in range(first, end):
                self.exactly_once.pop(sequence, None)

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
        for sequence in self.remembered:
            kept.add(sequence, sequence + 1)
        return kept.ranges()

    def ranges_of_the_client(self) -> list[tuple[int, int]]:
        """Return what after a restart nobody else may have: it is remembered, or the client has taken it."""
        ranges = RangeSet()
        for first, end in [*self.kept_ranges(), *self.taken.ranges()]:
            ranges.add(first, end)
        return ranges.ranges()
