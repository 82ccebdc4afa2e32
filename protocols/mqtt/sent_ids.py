"""Packet ids that outlive their connection: those of what a queue sent and the client has not answered for."""

from typing import Final, final

from messaging.ranges import RangeSet

NOT_BOUND: Final = 0  # partition ids start at 1
TAKEN_RANGES_MAX: Final = 1000  # some 16 kB of a session; what was taken longest ago is forgotten first
TAKEN_RANGES_STORED_MAX: Final = 100  # mostly there is one; what was taken before those has been settled long since


@final
class SentIds:
    """Sequences of one queue and the packet ids under which they were sent, and not answered.

    The queue is the session's own, or that of a shared subscription. What was sent is sent again under the same id when
    the client is back [4.4.0-1].
    """

    def __init__(self) -> None:
        self.partition_id = NOT_BOUND  # whose sequences these are: a queue of the same name may be another one
        self.remembered: dict[int, int] = {}  # sent on an earlier connection, and not again on this one
        self.exactly_once: dict[int, int] = {}  # the QoS 2 ones of this connection; a restart must know them
        # The QoS 2 ones that the client has. A ledger that is made anew may not know it, and deliver them again.
        self.taken = RangeSet()
        # QoS 1 ids are not written while the client is there. After a crash, a message below may have been sent, under
        # an id that nobody knows.
        self.maybe_sent_below = 0

    def pairs(self) -> list[tuple[int, int]]:
        """Return what is to be stored, oldest connection first."""
        return [*self.remembered.items(), *self.exactly_once.items()]

    def answered(self, first: int, end: int) -> None:
        """Forget sequences `[first, end)`: the client has answered for them."""
        if self.exactly_once:
            for sequence in range(first, end):
                self.exactly_once.pop(sequence, None)

    def takes(self, first: int, end: int) -> None:
        """Note that the client has the QoS 2 messages `[first, end)`."""
        taken = self.taken
        taken.add(first, end)
        if len(taken.starts) > TAKEN_RANGES_MAX:
            taken.remove(taken.starts[0], taken.ends[0])

    def taken_to_store(self) -> list[tuple[int, int]]:
        """Return what the client has and a restart may find unsettled, in ranges."""
        return self.taken.ranges()[-TAKEN_RANGES_STORED_MAX:]

    def are_of(self, partition_id: int) -> None:
        """Note whose sequences these are; what was taken of another queue says nothing of this one."""
        if partition_id != self.partition_id:
            self.taken = RangeSet()
        self.partition_id = partition_id

    def kept_ranges(self) -> list[tuple[int, int]]:
        """Return what is remembered as ranges of sequences."""
        kept = RangeSet()
        for sequence in self.remembered:
            kept.add(sequence, sequence + 1)
        return kept.ranges()
