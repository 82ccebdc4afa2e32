"""Partitions that wait for one consumer's credit: who is woken, in which order, and that nobody is forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from actors.clock import SystemClock
from actors.inbox import Dispatcher, Inbox, Scheduled
from actors.waking import wake_waiters
from messaging.address import Address
from messaging.credit import CreditWindow


class Hungry(Scheduled):
    """A partition with messages for one consumer, as far as credit goes."""

    def __init__(self, window: CreditWindow[Address], dispatcher: Dispatcher, messages: int) -> None:
        self.inbox = Inbox(dispatcher, self)
        self.messages = messages
        self.woken_count = 0
        self.held_max = 1000  # what its flow may hold of its queue
        self._window = window

    def drain(self, started_ns: int) -> int:
        self.woken_count += len(self.inbox.swap())
        taken = min(self.messages, self._window.available(), self.held_max)
        self._window.take(taken)
        self.messages -= taken
        if self.messages:
            self._window.wait(self.inbox)
        return started_ns


class Surrounding:
    """One window, and partitions that wait for it."""

    def __init__(self, *waiting: int) -> None:
        self.turns: list[object] = []
        self.dispatcher = Dispatcher(call_soon=self.turns.append, clock=SystemClock())
        self.window: CreditWindow[Address] = CreditWindow(0)
        self.partitions = [Hungry(self.window, self.dispatcher, messages) for messages in waiting]
        for partition in self.partitions:
            self.window.wait(partition.inbox)

    def settle(self, count: int) -> None:
        """Give so much credit, and let everybody have their turns."""
        self.window.limit += count
        wake_waiters(self.window, self.dispatcher)
        while self.turns:
            self.turns.clear()
            self.dispatcher._turn()


def test_as_many_are_woken_as_there_is_credit_for_and_who_has_had_some_comes_last() -> None:
    """Hundreds of partitions may wait for one consumer: a settlement that serves one does not wake them all."""
    around = Surrounding(5, 5, 5)

    for _ in range(6):
        around.settle(1)

    assert [partition.messages for partition in around.partitions] == [3, 3, 3]
    assert [partition.woken_count for partition in around.partitions] == [2, 2, 2]


def test_credit_that_one_leaves_is_for_those_behind_it() -> None:
    """A partition whose messages were purged, or that is gone, holds up nobody."""
    around = Surrounding(0, 0, 5, 5)
    around.partitions[1].inbox.closed = True

    around.settle(1)

    assert [partition.messages for partition in around.partitions] == [0, 0, 4, 5]


def test_who_waits_for_something_else_than_credit_is_asked_once() -> None:
    """A flow that holds the most it may of a queue leaves credit, and stands in line again: nobody goes round."""
    around = Surrounding(5)
    around.partitions[0].held_max = 0

    around.settle(3)

    assert around.window.keeps_waiting()
    assert around.partitions[0].woken_count == 1


@given(waiting=st.lists(st.integers(0, 5), max_size=8), given_credit=st.lists(st.integers(0, 4), max_size=12))
def test_credit_is_never_left_while_somebody_has_messages(waiting: list[int], given_credit: list[int]) -> None:
    """Whoever waits, and however credit comes: after the turns either it is used up, or everything has gone."""
    around = Surrounding(*waiting)
    for count in given_credit:
        around.settle(count)
        left = sum([partition.messages for partition in around.partitions])
        assert around.window.available() == 0 or left == 0
