"""Figures by time in bounded memory: what readings become, what long steps keep, and which objects have a history."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.observability.history import (
    COARSE,
    COARSE_STEPS_MAX,
    IDLE_STEPS,
    LOOK_STEPS,
    NOTHING,
    STEPS_MAX,
    Figure,
    Histories,
    History,
    Kind,
    Ring,
    folded,
    values_of,
)
from sluicegate.gateway.operations.history import history_view, merged_history
from sluicegate.gateway.views.node.history import HistoryQuery, HistoryView

FIGURES = (Figure("in", Kind.RATE), Figure("messages", Kind.LEVEL), Figure("commit_ms", Kind.TIME))
VALUES = st.one_of(st.just(NOTHING), st.integers(0, 1000).map(float))
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=COARSE)
PUTS = st.lists(st.tuples(st.integers(-3, 12), st.integers(0, 99)), max_size=60)


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def test_two_readings_make_a_rate_a_level_and_the_mean_of_a_time() -> None:
    assert values_of(FIGURES, (100, 5, 30, 10), (140, 7, 42, 13), 2.0) == [20.0, 7, 4.0]


@pytest.mark.parametrize(
    ("before", "passed_s"),
    [(None, 2.0), ((900, 5, 900, 90), 2.0), ((100, 5, 30, 10), 0.0)],
    ids=["the first reading", "totals that fell", "no time between"],
)
def test_readings_that_cannot_be_compared_make_a_level_only(before: Sequence[float] | None, passed_s: float) -> None:
    rate, level, time = values_of(FIGURES, before, (140, 7, 42, 13), passed_s)
    assert math.isnan(rate)
    assert level == 7
    assert math.isnan(time)


def test_a_time_of_which_there_was_none_in_the_step_has_no_value() -> None:
    assert math.isnan(values_of(FIGURES, (1, 1, 30, 10), (1, 1, 30, 10), 2.0)[2])


@given(ROWS)
def test_a_long_step_keeps_the_mean_rate_the_last_level_and_the_highest_time(rows: list[tuple[float, ...]]) -> None:
    rates, levels, times = ([each for each in column if not math.isnan(each)] for column in zip(*rows, strict=True))
    rate, level, time = folded(FIGURES, rows)
    assert same(rate, sum(rates) / len(rates) if rates else NOTHING)
    assert same(level, levels[-1] if levels else NOTHING)
    assert same(time, max(times, default=NOTHING))


@given(PUTS, st.integers(1, 8))
def test_a_ring_has_what_was_put_last_and_nothing_for_steps_between(puts: list[tuple[int, int]], most: int) -> None:
    ring, kept, end = Ring(1, most), dict[int, float](), 0
    step = 1000
    for ahead, value in puts:
        step = max(1, step + ahead)
        if not end or step < end - 1 or step >= end + most:
            kept = {}  # the clock was set, or nothing was read for long
        kept[step], end = float(value), step + 1
        ring.put(step, [float(value)])
        first, rows = ring.after(0)
        assert len(rows) <= most
        assert first + len(rows) == end
        assert first == max(min(kept), end - most)
        for at, row in enumerate(rows):
            assert same(row[0], kept.get(first + at, NOTHING))


def test_a_history_is_bounded_by_five_minutes_of_steps_and_an_hour_of_long_ones() -> None:
    history = History(FIGURES)
    for step in range(1, 3 * COARSE * COARSE_STEPS_MAX):
        history.read(step, step * 2.0, (step * 10, step, 0, 0))
    assert len(history.fine.after(0)[1]) == STEPS_MAX
    assert len(history.coarse.after(0)[1]) == COARSE_STEPS_MAX


@given(st.lists(st.integers(0, 500), min_size=12, max_size=60))
def test_long_steps_carry_as_many_messages_as_the_short_ones(counts: list[int]) -> None:
    history, total = History((Figure("in", Kind.RATE),)), 0
    history.read(0, 0.0, (0,))
    for step, count in enumerate(counts, 1):
        total += count
        history.read(step, step * 2.0, (total,))
    _, rows = history.coarse.after(0)
    whole = len(counts) // COARSE * COARSE
    assert len(rows) == whole // COARSE
    assert sum(row[0] for row in rows) * 2 * COARSE == pytest.approx(sum(counts[:whole]), rel=1e-5)


OBJECTS = st.integers(0, 12)
ACTS = st.one_of(
    st.tuples(st.just("look"), OBJECTS),
    st.tuples(st.just("offer"), st.lists(OBJECTS, max_size=6)),
    st.tuples(st.just("pass"), st.integers(1, LOOK_STEPS)),
)


@given(st.lists(ACTS, max_size=40))
def test_histories_are_bounded_and_one_that_is_looked_at_gives_way_to_looks_only(
    acts: list[tuple[str, int | list[int]]],
) -> None:
    histories, step = Histories[int](FIGURES, 4), 1
    looked = dict[int, int]()
    for act, what in acts:
        before = {key for key in looked if key in histories and step - looked[key] < LOOK_STEPS}
        if act == "pass":
            assert isinstance(what, int)
            step += what
        elif act == "look":
            assert isinstance(what, int)
            histories.look(what, step)
            looked[what] = step
            assert what in histories
        else:
            assert isinstance(what, list)
            histories.offer(what, step)
            assert before <= set(histories)
        assert len(histories) <= 4


def test_one_at_rest_makes_room_for_one_that_works_and_one_that_works_does_not() -> None:
    histories = Histories[str](FIGURES, 2)
    histories.offer(["a", "b"], 1)
    for step in range(1, IDLE_STEPS + 2):
        histories.read("a", step, step * 2.0, (0, 0, 0, 0))
        histories.read("b", step, step * 2.0, (step, 0, 0, 0))
    histories.offer(["c", "d"], IDLE_STEPS + 1)
    assert sorted(histories) == ["b", "c"]


def test_what_nobody_has_looked_at_for_an_hour_is_forgotten() -> None:
    histories = Histories[str](FIGURES, 4)
    histories.look("a", 1)
    histories.look("b", 1)
    histories.look("b", 10)
    histories.forget_unseen(1 + LOOK_STEPS)
    assert list(histories) == ["b"]


def test_a_view_has_the_steps_of_its_span_after_those_that_are_known() -> None:
    history = History(FIGURES)
    for step in range(1, 11):
        history.read(step, step * 2.0, (step * 10, step, 0, 0))
    fine = history_view(history, HistoryQuery(span_s=300, after_ms=12_000), wall_ms=21_000)
    assert (fine.step_ms, list(fine.times_ms)) == (2000, [14_000, 16_000, 18_000, 20_000])
    assert list(fine.values["in"]) == [5.0] * 4
    assert list(fine.values["commit_ms"]) == [None] * 4
    assert list(history_view(history, HistoryQuery(span_s=4), wall_ms=21_000).times_ms) == [18_000, 20_000]
    long = history_view(history, HistoryQuery(span_s=3600), wall_ms=21_000)
    assert (long.step_ms, list(long.times_ms), list(long.values["messages"])) == (10_000, [10_000, 20_000], [5, 10])


def view(values: dict[int, tuple[float | None, float | None]]) -> HistoryView:
    return HistoryView(
        step_ms=2000,
        times_ms=list(values),
        values={
            "messages_in": [each[0] for each in values.values()],
            "commit_ms": [each[1] for each in values.values()],
        },
    )


def test_brokers_of_a_machine_add_up_and_its_time_is_that_of_the_slowest() -> None:
    merged = merged_history([view({2000: (1, 4), 4000: (2, None)}), view({2000: (10, 3), 4000: (None, None)})])
    assert merged.times_ms == [2000, 4000]
    assert merged.values == {"messages_in": [11, 2], "commit_ms": [4, None]}


def test_brokers_are_shown_up_to_the_last_step_that_all_have() -> None:
    ahead, behind = view({2000: (1, 1), 4000: (1, 1), 6000: (1, 1)}), view({4000: (1, 1)})
    merged = merged_history([ahead, behind, view({})])
    assert (merged.times_ms, merged.values["messages_in"]) == ([2000, 4000], [1, 2])


def test_whoever_follows_waits_for_the_broker_that_has_nothing_new() -> None:
    """Its figures would be missing in the sum for good, as nobody asks for a step again."""
    ahead, behind = view({2000: (1, 1)}), view({})
    assert not merged_history([ahead, behind], goes_on=True).times_ms
    assert not merged_history([behind, ahead], goes_on=True).times_ms
    assert merged_history([ahead, ahead], goes_on=True).values["messages_in"] == [2]
    assert merged_history([behind, ahead]).values["messages_in"] == [1]
