"""The line of partitions at a consumer's window: whoever is called with others and takes everything is not the next."""

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.queues.credit import WaitingLine


@given(waiters_count=st.integers(1, 6), called_counts=st.lists(st.integers(1, 6), max_size=30))
def test_each_is_the_first_once_before_anybody_is_again(waiters_count: int, called_counts: list[int]) -> None:
    """Goal: turns, however many are called at a time. Method: the first takes all, and everybody has more to take."""
    line: WaitingLine[int] = WaitingLine()
    for waiter in range(waiters_count):
        line.stand(waiter, has_taken=False)
    firsts = []
    for count in called_counts:
        called = line.call(min(count, waiters_count))
        firsts.append(called[0])
        for waiter in called:
            line.stand(waiter, has_taken=waiter == called[0])
        line.end_round()
        assert line.count == waiters_count
    assert firsts == [number % waiters_count for number in range(len(firsts))]
