"""A set of integers as ranges, held against Python's set."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.messaging.message.ranges import RangeSet
from support.thorough import examples

LIMIT = 60
SPANS = st.tuples(st.integers(0, LIMIT), st.integers(0, LIMIT)).map(lambda span: (min(span), max(span)))
STEPS = st.lists(st.tuples(st.sampled_from(["add", "add", "remove", "discard", "take lowest"]), SPANS), max_size=40)


def members(ranges: list[tuple[int, int]]) -> list[int]:
    return [member for first, end in ranges for member in range(first, end)]


@settings(max_examples=examples(400))
@given(steps=STEPS, asked=SPANS)
def test_ranges_agree_with_a_set(steps: list[tuple[str, tuple[int, int]]], asked: tuple[int, int]) -> None:
    """Goal: no order of changes loses or invents a member. Method: same steps to a set, compare everything it tells."""
    ranges, model = RangeSet(), set[int]()
    for step, (first, end) in steps:
        span = set(range(first, end))
        if step == "add":
            assert ranges.add(first, end) == len(span - model)
            model |= span
        elif step == "discard":
            ranges.discard(first, end)
            model -= span
        elif step == "take lowest":
            begins = bool(span) and span <= model and first == min(model)
            assert ranges.take_lowest(first, end) == begins
            model -= span if begins else set()
        else:
            removed = ranges.remove(first, end)
            assert members(removed) == sorted(span & model)
            assert all(start < stop for start, stop in removed)
            model -= span
        ranges.check()
        assert members(ranges.ranges()) == sorted(model)
        assert ranges.total == len(model)
        assert bool(ranges) == bool(model)
        held = ranges.ranges()
        assert ranges.ranges_count() == len(held)
        if held:
            assert (ranges.lowest(), ranges.lowest_end(), ranges.end()) == (*held[0], held[-1][1])
    first, end = asked
    span = set(range(first, end))
    assert ranges.count_within(first, end) == len(span & model)
    assert members(ranges.within(first, end)) == sorted(span & model)
    assert members(ranges.outside(first, end)) == sorted(span - model)
    missing = ranges.outside(first, end)
    assert ranges.first_outside(first, end) == (missing[0] if missing else (end, end))
    following = [(max(start, first), stop) for start, stop in ranges.ranges() if stop > first]
    assert ranges.next_range(first) == (following[0] if following else (0, 0))
    assert {member for member in range(LIMIT + 1) if member in ranges} == model


def test_an_empty_range_changes_nothing() -> None:
    ranges = RangeSet()
    ranges.add(3, 5)

    assert ranges.add(9, 9) == 0
    assert ranges.add(5, 5) == 0
    assert ranges.remove(3, 3) == []
    assert ranges.ranges() == [(3, 5)]
    assert repr(ranges) == "RangeSet(3..4)"
