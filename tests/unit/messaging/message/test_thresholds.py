"""Thresholds: raised at one level, cleared below a lower one, and each told once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.thresholds import Exceedance, Threshold, ThresholdInvalid, ThresholdPair

MB = 1 << 20


class Watched:
    """A quantity whose owner compares it as owners do, and what it told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, int]] = []
        self.threshold = Threshold(
            lambda raised, level, value: self.told.append(("high" if raised else "clear", level, value))
        )
        self.value = 0

    def becomes(self, value: int) -> None:
        rises = value > self.value
        self.value = value
        if (rises and value >= self.threshold.raise_at) or (not rises and value < self.threshold.clear_below):
            self.threshold.cross(value)


def test_an_endpoint_of_5000_mb_with_the_default_pair() -> None:
    """Solace 13.5: up to 1250 MB, to and fro between 900 and 1250, below 900."""
    usage = Watched()
    usage.threshold.watch(ThresholdPair("25/18%"), limit=5000 * MB, unit=MB, value=0)
    for megabytes in (1249, 1250, 1300, 900, 1250, 1100, 900, 899, 1249, 1250):
        usage.becomes(megabytes * MB)
    assert usage.told == [
        ("high", 1250 * MB, 1250 * MB),
        ("clear", 900 * MB, 899 * MB),
        ("high", 1250 * MB, 1250 * MB),
    ]


def test_values_are_multiples_of_the_unit_and_need_no_limit_to_refer_to() -> None:
    assert ThresholdPair("1250/900").levels(limit=7, unit=MB) == (1250 * MB, 900 * MB)


def test_without_a_limit_there_is_no_threshold() -> None:
    """Solace 4.2: a spool usage of 0 is no quota."""
    usage = Watched()
    usage.threshold.watch(ThresholdPair("25/18%"), limit=0, unit=MB, value=0)
    usage.becomes(1 << 50)
    assert usage.told == []


def test_a_limit_that_changes_is_looked_at_at_once() -> None:
    usage = Watched()
    usage.threshold.watch(ThresholdPair("80/60%"), limit=100, unit=1, value=0)
    usage.becomes(70)
    usage.threshold.watch(ThresholdPair("80/60%"), limit=50, unit=1, value=70)
    usage.threshold.watch(ThresholdPair("80/60%"), limit=100, unit=1, value=70)
    usage.threshold.watch(ThresholdPair("80/60%"), limit=200, unit=1, value=70)
    assert usage.told == [("high", 40, 70), ("clear", 120, 70)]


@pytest.mark.parametrize(
    "text", ["", "80", "80%", "80%/60%", "60/80%", "80/0%", "101/60%", "5000000000/1", "-1/-2", "8.0/6"]
)
def test_an_invalid_pair_is_refused_with_the_form_of_one(text: str) -> None:
    """Solace 4.2: percentages or values, never mixed."""
    with pytest.raises(ThresholdInvalid, match="allowed: SET/CLEAR%"):
        ThresholdPair(text)


@given(
    clear=st.integers(1, 100),
    over=st.integers(0, 99),
    limit=st.integers(1, 200),
    values=st.lists(st.integers(0, 250), max_size=60),
)
def test_the_state_is_that_of_the_plain_definition(clear: int, over: int, limit: int, values: list[int]) -> None:
    """Goal: raised when usage >= set, cleared when below clear, nothing between. Method: say just that, compare."""
    pair = ThresholdPair(f"{min(100, clear + over)}/{clear}%")
    set_level, clear_level = pair.levels(limit, 1)
    watched = Watched()
    watched.threshold.watch(pair, limit=limit, unit=1, value=0)
    raised = False
    changes = []
    for value in values:
        watched.becomes(value)
        if not raised and value >= set_level:
            raised = True
            changes.append("high")
        elif raised and value < clear_level:
            raised = False
            changes.append("clear")
        assert watched.threshold.is_raised == raised
    assert [what for what, _, _ in watched.told] == changes


def test_a_limit_that_refuses_is_news_once_until_a_tenth_of_it_came_in() -> None:
    told: list[int] = []
    exceedance = Exceedance(told.append)
    for taken in (1000, 1000, 1100, 1101, 1102):
        exceedance.refused(taken=taken, limit=1000)
    assert told == [1000, 1000]


def test_refusals_where_nothing_was_ever_accepted_are_reported_once() -> None:
    """A queue whose quota lets nothing in: its publishers try as often as the others."""
    told: list[int] = []
    exceedance = Exceedance(told.append)
    for _ in range(3):
        exceedance.refused(taken=0, limit=1000)
    assert told == [1000]
