"""A change of the number of partitions of a queue under way: which slots move, and what they still wait for.

A slot moves at once: from one moment on its messages go to another partition, the one that *gains* it. What its former
partition, the *source*, held of it at that moment has to be settled first. So each source names its *cut*, the first
sequence that came later; the gaining partitions hold messages of moved slots (messaging.partitions.state.rescale_holds)
until everything below the cut of their source is settled. Then the source is *drained*, and when all are the change is
complete.

The barrier is the whole source and not the slot: a message of a moved key waits for the messages that it would have
stood behind without the change, and nobody has to know the keys of a backlog on disk.

Invariants: one change at a time; a source gains no slot and a gaining partition is no source, so no two partitions
wait for each other. A source that retires gets nothing new at all: when it is drained it is empty, and goes.

Deliberately elsewhere: the choice of slots (messaging.queues.assignment.slots); who does all this (the queue directory
and its queues).
"""

from typing import Final, final

from sluicegate.messaging.queues.assignment.slots import partitions_in

CUT_UNKNOWN: Final = 0  # sequences start at 1

# States of the queue, by the names its management shows.
SCALE_READY: Final = "ready"
SCALING_UP: Final = "scaling-up"
SCALING_DOWN: Final = "scaling-down"


@final
class Rescale:
    """One change from `count_before` to `count` partitions, numbered from 0.

    The store has it before the first message goes by the new map. A cut that it has not (a crash came first) is taken
    anew from what was recovered: then more is waited for than needs be, never less.
    """

    def __init__(self, *, count_before: int, count: int, slots_before: bytes, slots: bytes) -> None:
        self.count_before = count_before
        self.count = count
        self.slots_before = slots_before
        self.slots = slots
        self.cuts: dict[int, int] = dict.fromkeys(_sources(slots_before, slots, count_before, count), CUT_UNKNOWN)
        self.drained: set[int] = set()

    @property
    def status(self) -> str:
        """SCALING_UP or SCALING_DOWN."""
        return SCALING_UP if self.count > self.count_before else SCALING_DOWN

    def take_cut(self, number: int, sequence: int) -> bool:
        """Note the cut of a source; return whether all are known now."""
        self.cuts[number] = sequence
        return CUT_UNKNOWN not in self.cuts.values()

    def drain(self, number: int) -> bool:
        """Note that everything below the cut of a source is settled; return whether that was the last source."""
        assert number in self.cuts, "only sources are waited for"
        self.drained.add(number)
        return len(self.drained) == len(self.cuts)

    def waits_for(self) -> list[int]:
        """Return the sources that are not drained, ascending."""
        return [number for number in sorted(self.cuts) if number not in self.drained]

    def __repr__(self) -> str:
        return f"Rescale({self.count_before} to {self.count}, waits for {self.waits_for()})"


def _sources(slots_before: bytes, slots: bytes, count_before: int, count: int) -> list[int]:
    """Return the partitions that lose slots, and those that go."""
    sources = set(range(count, count_before))
    for owner, heir in set(zip(partitions_in(slots_before), partitions_in(slots), strict=True)):
        if owner != heir:
            sources.add(owner)
    return sorted(sources)
