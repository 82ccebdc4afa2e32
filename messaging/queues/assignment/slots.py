"""The slot map of a partitioned queue, and the change of its number of partitions.

The map says which partition takes the messages of each of the 65,536 key hashes. A queue starts with `hash modulo
count`, which needs no map. When its count changes, only as many slots move as the balance requires, and the map is
stored: two bytes for each slot, the lower one first. A doubled or halved count ends at the modulo again.

A change of the count is a rescale. A slot moves at once: from then on its messages go to another partition, the one
that *gains* it. What its former partition, the *source*, held at that moment has to be settled first. So each source
names its *cut*, the first sequence that came later; the gaining partitions hold messages of moved slots
(messaging.partitions.state.rescale_holds) until everything below the cut of their source is settled. Then the source is
*drained*, and when all sources are, the rescale is complete.

The barrier is the whole source and not the slot: a message of a moved key waits for the messages that it would have
waited for without the rescale, and the keys of a backlog on disk need not be known.

Invariants: one rescale at a time; a source gains no slot and a gaining partition is no source, so no two partitions
wait for each other. A source that retires gets no new messages: when it is drained it is empty, and is removed.

See also: the hash (messaging.message.keys), and the queue directory and its queues, which carry out a rescale.
"""

import struct
from typing import Final, final

from sluicegate.messaging.message.keys import HASH_SLOTS

SLOT_MAP_BYTES: Final = 2 * HASH_SLOTS
_NUMBERS: Final = struct.Struct(f"<{HASH_SLOTS}H")


def modulo_slots(count: int) -> bytes:
    """Return the map of `hash modulo count`."""
    pattern = b"".join([number.to_bytes(2, "little") for number in range(count)])
    return (pattern * (HASH_SLOTS // count + 1))[:SLOT_MAP_BYTES]


def partition_in(slots: bytes, key_hash: int) -> int:
    """Return the partition of a key hash."""
    place = key_hash << 1
    return slots[place] | slots[place + 1] << 8


def partitions_in(slots: bytes) -> list[int]:
    """Return the partition of every key hash."""
    return list(_NUMBERS.unpack(slots))


def resized_slots(slots: bytes, count_before: int, count: int) -> bytes:
    """Return the map for another number of partitions: even shares, with as few moves as possible.

    With more partitions, slots move to new ones only; with fewer, only the slots of retiring partitions move. A slot
    that has to move goes to `hash modulo count` where there is room.
    """
    owners = partitions_in(slots)
    room = _rooms(owners, count_before, count)
    surplus = [max(0, -each) for each in room]
    for key_hash, owner in enumerate(owners):
        home = key_hash % count
        if surplus[owner] > 0 and room[home] > 0:
            _move(owners, key_hash, home, surplus, room)
    heir = 0
    for key_hash, owner in enumerate(owners):
        if surplus[owner] > 0:
            while room[heir] <= 0:
                heir += 1
            _move(owners, key_hash, heir, surplus, room)
    return _NUMBERS.pack(*owners)


def _rooms(owners: list[int], count_before: int, count: int) -> list[int]:
    """Return how many slots each partition, old or new, is to gain; below 0: to lose."""
    sizes = [0] * max(count_before, count)
    for owner in owners:
        sizes[owner] += 1
    smallest, larger_count = divmod(HASH_SLOTS, count)
    rooms = [-size for size in sizes]
    # As far as there are larger shares, partitions that have one already keep it.
    ranked = sorted(range(count), key=lambda number: (sizes[number] <= smallest, number))
    for rank, number in enumerate(ranked):
        rooms[number] += smallest + (1 if rank < larger_count else 0)
    return rooms


def _move(owners: list[int], key_hash: int, heir: int, surplus: list[int], room: list[int]) -> None:
    surplus[owners[key_hash]] -= 1
    room[heir] -= 1
    owners[key_hash] = heir


CUT_UNKNOWN: Final = 0  # sequences start at 1

# States of the queue, by the names that management shows.
SCALE_READY: Final = "ready"
SCALING_UP: Final = "scaling-up"
SCALING_DOWN: Final = "scaling-down"


@final
class Rescale:
    """One change from `count_before` to `count` partitions, numbered from 0.

    The rescale is stored before the first message is routed by the new map. A cut that is not stored, because of a
    crash, is taken again from what was recovered: the wait may be longer than necessary, never shorter.
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
        """Record the cut of a source; return whether all are known now."""
        self.cuts[number] = sequence
        return CUT_UNKNOWN not in self.cuts.values()

    def drain(self, number: int) -> bool:
        """Record that everything below the cut of a source is settled; return whether it was the last source."""
        assert number in self.cuts, "only sources are waited for"
        self.drained.add(number)
        return len(self.drained) == len(self.cuts)

    def waits_for(self) -> list[int]:
        """Return the sources that are not drained, ascending."""
        return [number for number in sorted(self.cuts) if number not in self.drained]

    def __repr__(self) -> str:
        return f"Rescale({self.count_before} to {self.count}, waits for {self.waits_for()})"


def _sources(slots_before: bytes, slots: bytes, count_before: int, count: int) -> list[int]:
    """Return the partitions that lose slots, and those that retire."""
    sources = set(range(count, count_before))
    for owner, heir in set(zip(partitions_in(slots_before), partitions_in(slots), strict=True)):
        if owner != heir:
            sources.add(owner)
    return sorted(sources)
