"""Which partition takes which key hash, and what moves when the number of partitions changes."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.messaging.message.keys import HASH_SLOTS
from sluicegate.messaging.queues.assignment.slots import modulo_slots, partition_in, resized_slots
from support.thorough import examples

COUNTS = st.one_of(st.integers(1, 12), st.integers(1, 1000))


def owners_in(slots: bytes) -> list[int]:
    return [partition_in(slots, key_hash) for key_hash in range(HASH_SLOTS)]


@pytest.mark.parametrize("count", [1, 2, 3, 6, 255, 256, 257, 1000])
def test_a_fresh_map_is_the_hash_modulo_the_count(count: int) -> None:
    assert owners_in(modulo_slots(count)) == [key_hash % count for key_hash in range(HASH_SLOTS)]


@settings(max_examples=examples(25), deadline=None)
@given(counts=st.lists(COUNTS, min_size=2, max_size=4))
def test_a_resized_map_is_even_and_moves_as_little_as_can_be(counts: list[int]) -> None:
    """Goal: no slot moves without need. Method: the least that must move is what is over the largest shares allowed."""
    slots = modulo_slots(counts[0])
    for count_before, count in itertools.pairwise(counts):
        before = owners_in(slots)
        slots = resized_slots(slots, count_before, count)
        after = owners_in(slots)

        sizes = Counter(after)
        smallest, larger_count = divmod(HASH_SLOTS, count)
        assert set(sizes) <= set(range(count))
        shares = sorted((sizes[number] for number in range(count)), reverse=True)
        assert shares == [smallest + 1] * larger_count + [smallest] * (count - larger_count)

        moved = [key_hash for key_hash in range(HASH_SLOTS) if before[key_hash] != after[key_hash]]
        sizes_before = Counter(before)
        keepers = sorted((sizes_before[number] for number in range(min(count_before, count))), reverse=True)
        kept_max = sum(min(size, share) for size, share in zip(keepers, shares, strict=False))
        assert len(moved) == HASH_SLOTS - kept_max
        losing, gaining = {before[each] for each in moved}, {after[each] for each in moved}
        assert not losing & gaining, "nobody waits for somebody who waits"


@pytest.mark.parametrize("counts", [[4, 8], [8, 4], [3, 6], [4, 6, 4], [2, 4, 8, 2], [1, 5], [7, 1]])
def test_a_doubled_or_halved_count_and_one_that_returns_end_at_the_modulo(counts: list[int]) -> None:
    slots = modulo_slots(counts[0])
    for count_before, count in itertools.pairwise(counts):
        slots = resized_slots(slots, count_before, count)

    assert slots == modulo_slots(counts[-1])
