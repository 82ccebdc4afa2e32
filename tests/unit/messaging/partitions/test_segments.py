"""The list of a partition's segments, beyond what stands in one chunk of it, against a plain list."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.messaging.partitions.state.segments import CHUNK_SEGMENTS_MAX, Segment, SegmentList
from support.cores.messages import numbered
from support.thorough import examples

CHUNKS = 3


def filled() -> tuple[SegmentList, list[Segment]]:
    """Return a list of several chunks, with a settled sequence between any two segments, and its segments."""
    segments, plain = SegmentList(), list[Segment]()
    for number in range(CHUNKS * CHUNK_SEGMENTS_MAX):
        first = 1 + 2 * number
        plain.append(Segment(first, first + 1, 1, 1, numbered(1), None, None))
        segments.append(plain[-1])
    return segments, plain


def agrees(segments: SegmentList, plain: list[Segment]) -> None:
    """Assert that both hold the same, and find the same at every sequence."""
    segments.check()
    assert segments.all() == plain
    expected: Segment | None = None
    waiting = plain.copy()
    for sequence in range(2 * CHUNKS * CHUNK_SEGMENTS_MAX + 2, 0, -1):
        if waiting and sequence <= waiting[-1].end - 1:
            expected = waiting.pop()
        assert segments.at_or_after(sequence) is expected, sequence


@pytest.mark.parametrize("number", range(CHUNKS))
@pytest.mark.parametrize("step", [1, -1])
def test_a_chunk_that_is_settled_in_the_middle_leaves_no_gap_in_what_is_found(number: int, step: int) -> None:
    segments, plain = filled()
    start = number * CHUNK_SEGMENTS_MAX
    chunk = plain[start : start + CHUNK_SEGMENTS_MAX]
    for segment in chunk[::step]:
        segments.remove(segment)
    del plain[start : start + CHUNK_SEGMENTS_MAX]
    agrees(segments, plain)
    assert segments.overlapping(1, 1 << 20) == plain


@settings(max_examples=examples(30), deadline=None)
@given(removed=st.lists(st.integers(0, CHUNKS * CHUNK_SEGMENTS_MAX - 1), unique=True))
def test_remaining_segments_are_found_after_removals_in_any_order(removed: list[int]) -> None:
    """Goal: removal anywhere keeps the list whole. Method: the same removals from a plain list, then every look-up."""
    segments, plain = filled()
    gone = [plain[number] for number in removed]
    for segment in gone:
        segments.remove(segment)
        plain.remove(segment)
    agrees(segments, plain)
