"""The machine's clock: both times of one moment, for the price of one."""

from sluicegate.actors.runtime.clock import SystemClock


def test_both_times_are_those_of_one_moment() -> None:
    clock = SystemClock()
    for _ in range(3):
        before = clock.now_ms(), clock.wall_ms()
        now_ms, wall_ms = clock.both_ms()
        after = clock.now_ms(), clock.wall_ms()
        assert before[0] <= now_ms <= after[0]
        assert before[1] - 1 <= wall_ms <= after[1] + 1  # the wall clock may be slewed
