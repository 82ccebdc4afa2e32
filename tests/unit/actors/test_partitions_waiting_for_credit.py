"""Partitions that wait for one consumer's credit: who is woken, in which order, and that nobody is forgotten."""

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.actors.partitions.triggers import wake_waiters, watch_for_room
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.credit import CreditPool, CreditWindow
from support.cores.lone_actors import ENDLESS, lone_runtime, spawned, turn


class Hungry(LoopActor):
    """A partition with messages for one consumer, as far as credit goes."""

    def __init__(self, cell: ActorCell, window: CreditWindow[Address], messages: int) -> None:
        super().__init__(cell)
        self.messages = messages
        self.woken_count = 0
        self.held_max = 1000  # what its flow may hold of its queue
        self._window = window
        window.wait(cell.inbox)

    def on_receive(self, message: object) -> None:
        self.woken_count += 1

    def on_turn_ended(self) -> None:
        taken = min(self.messages, self._window.room(), self.held_max)
        self._window.take(taken)
        self.messages -= taken
        if self.messages:
            self._window.wait(self.cell.inbox)


class Surrounding:
    """Windows on one pool, the first of them with partitions that wait for it."""

    def __init__(self, runtime: Runtime, waiting: list[int], pool_limit: int) -> None:
        self.pool: CreditPool[Address] = CreditPool(pool_limit)
        watch_for_room(self.pool, runtime.dispatcher)
        self._runtime = runtime
        self.window = CreditWindow(0, self.pool)
        self.partitions = [self.partition(self.window, messages) for messages in waiting]

    def settle(self, count: int) -> None:
        """Give so much credit, and let everybody have their turns."""
        self.window.limit += count
        wake_waiters(self.window, self._runtime.dispatcher)
        self.turns()

    def give_back(self, window: CreditWindow[Address], count: int) -> None:
        """Let a consumer settle what it holds, as far as it holds it, and everybody have their turns."""
        window.give(min(count, window.used))
        wake_waiters(window, self._runtime.dispatcher)
        self.turns()

    def turns(self) -> None:
        """Let everybody have their turns."""
        for _ in range(100):  # callbacks that ask for callbacks
            turn(self._runtime)

    def holder(self, count: int) -> CreditWindow[Address]:
        """Return the window of a consumer that holds so many messages, and for which nobody waits."""
        window = CreditWindow(count, self.pool)
        window.take(count)
        return window

    def partition(self, window: CreditWindow[Address], messages: int) -> Hungry:
        """Return a partition that waits for a window."""
        made: list[Hungry] = []

        def make(cell: ActorCell) -> Hungry:
            made.append(Hungry(cell, window, messages))
            return made[0]

        spawned(self._runtime, make)
        return made[0]


@contextmanager
def surrounding(*waiting: int, pool_limit: int = ENDLESS) -> Iterator[Surrounding]:
    with lone_runtime() as runtime:
        yield Surrounding(runtime, list(waiting), pool_limit)


def test_as_many_are_woken_as_there_is_credit_for_and_those_already_served_come_last() -> None:
    """Hundreds of partitions may wait for one consumer: a settlement that serves one does not wake them all."""
    with surrounding(5, 5, 5) as around:
        for _ in range(6):
            around.settle(1)

        assert [partition.messages for partition in around.partitions] == [3, 3, 3]
        assert [partition.woken_count for partition in around.partitions] == [2, 2, 2]


def test_partitions_take_turns_at_credit_that_comes_in_one_go() -> None:
    """One that has messages without end is not the first again as long as it has some."""
    with surrounding(9, 9, 9) as around:
        for _ in range(3):
            around.settle(3)

        assert [partition.messages for partition in around.partitions] == [6, 6, 6]


def test_credit_that_one_leaves_is_for_those_behind_it() -> None:
    """A partition whose messages were purged, or that is gone, holds up nobody."""
    with surrounding(0, 0, 5, 5) as around:
        around.partitions[1].cell.stop()

        around.settle(1)

        assert [partition.messages for partition in around.partitions] == [0, 0, 4, 5]


def test_who_waits_for_something_else_than_credit_is_asked_once() -> None:
    """A flow that holds the most it may of a queue leaves credit, and stands in line again: nobody goes round."""
    with surrounding(5) as around:
        around.partitions[0].held_max = 0

        around.settle(3)

        assert around.window.keeps_waiting()
        assert around.partitions[0].woken_count == 1


@given(waiting=st.lists(st.integers(0, 5), max_size=8), given_credit=st.lists(st.integers(0, 4), max_size=12))
def test_credit_is_never_left_while_a_partition_has_messages(waiting: list[int], given_credit: list[int]) -> None:
    """Whoever waits, and however credit comes: after the turns either it is used up, or everything has gone."""
    with surrounding(*waiting) as around:
        for count in given_credit:
            around.settle(count)
            left = sum([partition.messages for partition in around.partitions])
            assert around.window.available() == 0 or left == 0


def test_a_flow_that_waits_for_the_node_continues_whichever_flow_settles() -> None:
    """Solace 6.4: at the system-wide maximum nobody gets more. Who gives back need not know who waits for it."""
    with surrounding(5, pool_limit=3) as around:
        held = around.holder(2)
        left = around.holder(1)
        around.settle(10)
        assert around.partitions[0].messages == 5

        held.give(1)
        around.turns()
        assert around.partitions[0].messages == 4

        left.close()
        around.turns()
        assert around.partitions[0].messages == 3


def test_at_the_maximum_of_the_node_credit_wakes_no_partition() -> None:
    """As many are called as there is room for: hundreds may wait for one consumer."""
    with surrounding(5, 5, 5, pool_limit=1) as around:
        held = around.holder(1)
        around.settle(10)
        assert [partition.woken_count for partition in around.partitions] == [0, 0, 0]

        held.give(1)
        around.turns()
        assert [partition.messages for partition in around.partitions] == [4, 5, 5]
        assert [partition.woken_count for partition in around.partitions] == [1, 0, 0]


def test_consumers_take_turns_at_room_that_comes_back() -> None:
    """A consumer for which many partitions wait is one of those that wait for the node."""
    with surrounding(5, 5, 5, pool_limit=1) as around:
        other = CreditWindow(10, around.pool)
        held = around.holder(1)
        around.settle(10)
        waits = around.partition(other, 5)
        held.give(1)
        around.turns()

        around.give_back(around.window, 1)

        assert waits.messages == 4


@given(
    waiting=st.lists(st.lists(st.integers(0, 5), max_size=4), min_size=1, max_size=4),
    pool_limit=st.integers(1, 6),
    steps=st.lists(st.tuples(st.sampled_from(["credit", "settle", "close"]), st.integers(0, 3), st.integers(1, 4))),
)
def test_room_is_never_left_while_a_partition_has_messages(
    waiting: list[list[int]], pool_limit: int, steps: list[tuple[str, int, int]]
) -> None:
    """Goal: nobody is forgotten. Method: windows on one pool, any order of what their consumers do."""
    with surrounding(pool_limit=pool_limit) as around:
        windows = [CreditWindow(2, around.pool) for _ in waiting]
        behind = [[around.partition(w, messages) for messages in its] for w, its in zip(windows, waiting, strict=True)]
        held = around.holder(1)
        for window in windows:
            around.give_back(window, 0)
        for what, number, count in steps:
            window = windows[number % len(windows)]
            if what == "credit":
                window.limit += count
                around.give_back(window, 0)
            elif what == "settle":
                around.give_back(window, count)
            else:
                window.close()
                around.turns()
        held.close()
        around.turns()
        for window, its in zip(windows, behind, strict=True):
            assert window.room() == 0 or sum([partition.messages for partition in its]) == 0
