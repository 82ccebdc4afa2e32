"""How long the store of a broker waits for the answers of a neighbor."""

from sluicegate.protocols.network.guaranteed.link_queue import ANSWER_MS_MAX, AnswerTime


def answers_after(*times_ms: int) -> AnswerTime:
    """Return what is known after messages were answered one by one, each after such a time."""
    found = AnswerTime()
    now_ms = 1_000
    for first, time_ms in enumerate(times_ms, 1):
        found.sent(first + 1, now_ms)
        now_ms += time_ms
        assert found.answered(first, first + 1, now_ms)
    return found


def test_nothing_is_waited_for_before_the_first_answer() -> None:
    assert answers_after().patience_ms == 0


def test_a_commit_waits_twice_as_long_as_answers_take() -> None:
    assert 2 * 6 <= answers_after(*[6] * 50).patience_ms <= 2 * 6 + 2


def test_a_neighbor_that_takes_too_long_is_not_waited_for_until_it_is_quick_again() -> None:
    assert answers_after(*[ANSWER_MS_MAX + 5] * 50).patience_ms == 0
    assert answers_after(*[ANSWER_MS_MAX + 5] * 50, *[2] * 50).patience_ms > 0


def test_a_single_late_answer_changes_little() -> None:
    assert 0 < answers_after(*[2] * 50, 20).patience_ms <= 2 * (2 + 20 // 4 + 1)


def test_only_the_answer_to_the_message_that_is_timed_counts() -> None:
    found = AnswerTime()
    found.sent(11, 1_000)  # up to 10
    found.sent(21, 1_003)  # of which nothing is timed
    assert not found.answered(1, 10, 1_004)
    assert not found.answered(11, 21, 1_005)
    assert found.answered(10, 11, 1_008)
    assert found.patience_ms == 2 * (8 // 4 + 1)


def test_what_was_on_its_way_when_a_connection_broke_is_not_timed() -> None:
    found = AnswerTime()
    found.sent(11, 1_000)
    found.forget()
    assert not found.answered(1, 11, 9_000)
    found.sent(11, 9_000)
    assert found.answered(1, 11, 9_001)
    assert found.patience_ms == 2
