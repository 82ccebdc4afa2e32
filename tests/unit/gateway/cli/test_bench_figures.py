"""What `sluicegate bench` counts: it has to see what it is there to find."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.cli.bench.figures import PAYLOAD_BYTES_MIN, Latencies, Stamp, Tally, stamp_of

RUN = 7


def payload(key: int, number: int, run: int = RUN) -> bytes:
    return Stamp(run, key, number, 0).payload(100)


@given(st.integers(0, (1 << 63) - 1), st.integers(0, 10_000), st.integers(0, 1 << 40), st.integers(0, 1 << 62))
def test_a_message_says_what_it_was_stamped_with(run: int, key: int, number: int, due_ns: int) -> None:
    stamp = Stamp(run, key, number, due_ns)
    assert stamp_of(stamp.payload(PAYLOAD_BYTES_MIN)) == stamp
    assert stamp_of(stamp.payload(1000)) == stamp
    assert len(stamp.payload(1000)) == 1000


def test_repetitions_disorder_and_foreign_messages_are_distinguished() -> None:
    tally = Tally(RUN)
    order = [(0, 0), (1, 0), (0, 2), (0, 1), (0, 2), (1, 1)]
    first_times = [tally.note(payload(key, number)) is not None for key, number in order]
    assert first_times == [True, True, True, True, False, True]
    assert tally.note(payload(0, 3, run=8)) is None
    assert tally.note(b"short") is None
    assert (tally.received_count, tally.duplicate_count, tally.out_of_order_count) == (5, 1, 1)


@given(st.permutations(range(20)), st.lists(st.integers(0, 19), max_size=10))
def test_every_message_counts_once_in_any_order(order: list[int], again: list[int]) -> None:
    tally = Tally(RUN)
    highest = -1
    late = 0
    for number in order:
        late += number < highest
        highest = max(highest, number)
        tally.note(payload(0, number))
    for number in again:
        tally.note(payload(0, number))
    assert (tally.received_count, tally.duplicate_count, tally.out_of_order_count) == (20, len(again), late)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200), st.sampled_from([50.0, 90.0, 99.0, 100.0]))
def test_a_percentile_is_right_to_one_part_in_32(durations: list[int], percent: float) -> None:
    latencies = Latencies()
    for duration in durations:
        latencies.add(duration)
    wanted = len(durations) * percent / 100
    exact = next(each for place, each in enumerate(sorted(durations), start=1) if place >= wanted)
    assert exact / 1e6 <= latencies.percentile_ms(percent) <= (exact + exact / 32 + 1) / 1e6
    assert latencies.max_ns == max(durations)


def test_nothing_has_no_latency_and_no_clock_makes_one_negative() -> None:
    latencies = Latencies()
    assert latencies.percentile_ms(99) == 0
    latencies.add(-5)
    assert latencies.percentile_ms(99) == pytest.approx(0)
