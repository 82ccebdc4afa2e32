"""The time of the log where the clock of the machine is wrong."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.cluster.log.clock import NEW_MS, WALL_TRUSTED_MS, LogClock, LogTime

HOUR_MS = 3_600_000
WRITTEN_MS = 1_800_000_000_000


def read_live() -> LogTime:
    """What a replica knows that has read message 8 as soon as it was written."""
    time = LogTime()
    time.ends_with(7, 900)
    time.read(WRITTEN_MS, 8, 1_000)
    return time


def read_late() -> LogTime:
    """What a replica knows that was not there when message 7 was written."""
    time = LogTime()
    time.read(WRITTEN_MS, 7, 1_000)
    time.ends_with(7, 1_100)
    return time


def test_a_clock_that_agrees_with_the_log_is_believed() -> None:
    assert read_live().ahead_ms(WRITTEN_MS + HOUR_MS + 900, 1_000 + HOUR_MS) == 0


def test_a_clock_that_is_an_hour_ahead_of_a_log_that_is_read_live_is_not_believed() -> None:
    assert read_live().ahead_ms(WRITTEN_MS + HOUR_MS, 1_000) == HOUR_MS
    assert read_live().ahead_ms(WRITTEN_MS - HOUR_MS, 1_000) == -HOUR_MS


def test_under_load_what_is_behind_the_end_of_a_moment_ago_is_new() -> None:
    """A replica that always has something left to read knows what time it is, too."""
    time = LogTime()
    time.ends_with(500, 1_000)
    time.read(WRITTEN_MS, 400, 1_050)
    time.read(WRITTEN_MS + 900, 600, 2_000)
    assert time.ahead_ms(WRITTEN_MS + HOUR_MS + 900, 2_000) == HOUR_MS


def test_a_replica_that_is_seconds_behind_knows_what_time_it_is() -> None:
    time = LogTime()
    for second in range(1, 10):  # each second brings 100 messages, and it has read those of five seconds ago
        time.ends_with(100 * second, 1_000 * second)
        time.read(WRITTEN_MS + 1_000 * second, max(second, 100 * (second - 5)), 1_000 * second + 500)
    assert abs(time.ahead_ms(WRITTEN_MS + 9_000 + HOUR_MS, 9_500) - HOUR_MS) < WALL_TRUSTED_MS


def test_what_was_known_is_not_forgotten_while_a_replica_is_behind() -> None:
    time = read_live()
    time.read(WRITTEN_MS + 20_000, 900, 21_000 + NEW_MS)
    assert time.ahead_ms(WRITTEN_MS + HOUR_MS, 1_000) == HOUR_MS


def test_after_hours_without_a_replica_the_clock_is_believed_if_it_goes_on() -> None:
    assert read_late().ahead_ms(WRITTEN_MS + 24 * HOUR_MS, 1_500) == 0
    assert read_late().ahead_ms(WRITTEN_MS - HOUR_MS, 1_500) == -HOUR_MS, "time does not go back"


def test_a_log_without_a_time_says_nothing() -> None:
    assert LogTime().ahead_ms(WRITTEN_MS, 1_000) == 0


@given(st.integers(0, 10**13), st.integers(0, 10**10), st.integers(-(10**10), 10**10), st.booleans())
def test_the_time_of_an_owner_is_never_far_before_the_last_record(
    written_ms: int, read_ms: int, off_ms: int, is_new: bool
) -> None:
    time = LogTime()
    if is_new:
        time.ends_with(0, read_ms)
    time.read(written_ms, 1, read_ms)
    wall_ms = written_ms + off_ms
    assert wall_ms - time.ahead_ms(wall_ms, read_ms) >= written_ms - WALL_TRUSTED_MS


def test_the_clock_of_an_owner_is_put_right() -> None:
    clock, right = LogClock(HOUR_MS), LogClock(0)
    assert abs(right.wall_ms() - clock.wall_ms() - HOUR_MS) < WALL_TRUSTED_MS
    now_ms, wall_ms = clock.both_ms()
    assert now_ms <= clock.now_ms()
    assert wall_ms <= clock.wall_ms() <= wall_ms + WALL_TRUSTED_MS
    assert clock.now_ns() // 1_000_000 >= now_ms
