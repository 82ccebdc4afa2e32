"""Partitions that wait for one consumer's credit: who is woken, in which order, and that nobody is forgotten."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given
from hypothesis import strategies as st

from actors.cell import ActorCell
from actors.clock import SystemClock
from actors.loop_actor import LoopActor
from actors.runtime import Runtime
from actors.supervision import ONE_CONNECTION
from actors.waking import wake_waiters
from messaging.address import Address
from messaging.credit import CreditWindow


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

    def on_drained(self) -> None:
        taken = min(self.messages, self._window.available(), self.held_max)
        self._window.take(taken)
        self.messages -= taken
        if self.messages:
            self._window.wait(self.cell.inbox)


class Surrounding:
    """One window, and partitions that wait for it."""

    def __init__(self, runtime: Runtime, waiting: list[int]) -> None:
        self.window: CreditWindow[Address] = CreditWindow(0)
        self.partitions = [self._partition(runtime, messages) for messages in waiting]
        self._runtime = runtime

    def settle(self, count: int) -> None:
        """Give so much credit, and let everybody have their turns."""
        self.window.limit += count
        wake_waiters(self.window, self._runtime.dispatcher)
        for _ in range(100):  # callbacks that ask for callbacks
            self._runtime.loop.call_soon(self._runtime.loop.stop)  # type: ignore[attr-defined]  # of a real loop
            self._runtime.loop.run_forever()  # type: ignore[attr-defined]

    def _partition(self, runtime: Runtime, messages: int) -> Hungry:
        made: list[Hungry] = []

        def make(cell: ActorCell) -> Hungry:
            made.append(Hungry(cell, self.window, messages))
            return made[0]

        runtime.spawn(make, kind="test", name="partition", policy=ONE_CONNECTION)
        return made[0]


@contextmanager
def surrounding(*waiting: int) -> Iterator[Surrounding]:
    loop = asyncio.new_event_loop()
    yield Surrounding(
        Runtime(loop=loop, clock=SystemClock(), rng=random.Random(1), on_fatal=lambda _: None), list(waiting)
    )
    loop.close()


def test_as_many_are_woken_as_there_is_credit_for_and_who_has_had_some_comes_last() -> None:
    """Hundreds of partitions may wait for one consumer: a settlement that serves one does not wake them all."""
    with surrounding(5, 5, 5) as around:
        for _ in range(6):
            around.settle(1)

        assert [partition.messages for partition in around.partitions] == [3, 3, 3]
        assert [partition.woken_count for partition in around.partitions] == [2, 2, 2]


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
def test_credit_is_never_left_while_somebody_has_messages(waiting: list[int], given_credit: list[int]) -> None:
    """Whoever waits, and however credit comes: after the turns either it is used up, or everything has gone."""
    with surrounding(*waiting) as around:
        for count in given_credit:
            around.settle(count)
            left = sum([partition.messages for partition in around.partitions])
            assert around.window.available() == 0 or left == 0
