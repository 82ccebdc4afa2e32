"""The slot map of a partitioned queue: which partition takes the messages of each of the 65,536 key hashes.

A queue starts with `hash modulo count`, which needs no map. When its count changes, only as many slots move as the
balance asks for, and the map is kept: two bytes for each slot, the lower one first. A doubled or halved count ends at
the modulo again.

Deliberately elsewhere: the hash (messaging.message.partitioning); what becomes of messages when slots move
(messaging.queues.assignment.rescale).
"""

import struct
from typing import Final

from sluicegate.messaging.message.partitioning import HASH_SLOTS

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
    """Return the map for another number of partitions: even shares, and no slot moves that need not.

    With more partitions slots move to new ones only; with fewer, only those of the partitions that go. A slot that has
    to move goes to `hash modulo count` where there is room.
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
    # Who has a larger share already keeps it, as far as there are such shares.
    ranked = sorted(range(count), key=lambda number: (sizes[number] <= smallest, number))
    for rank, number in enumerate(ranked):
        rooms[number] += smallest + (1 if rank < larger_count else 0)
    return rooms


def _move(owners: list[int], key_hash: int, heir: int, surplus: list[int], room: list[int]) -> None:
    surplus[owners[key_hash]] -= 1
    room[heir] -= 1
    owners[key_hash] = heir
