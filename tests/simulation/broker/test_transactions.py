"""The rules of the judge for the end of transactions: all of a transaction takes effect, or nothing."""

import pytest

from simulation.clients.transacting_client import Line
from simulation.judge.targets import EXCLUSIVE, Message, Rules, Target, Violation
from simulation.judge.transaction import Transaction
from simulation.judge.truth import Truth


class Scene:
    """Two queues, and a message that a client has and settles in a transaction, which publishes one into both."""

    def __init__(self) -> None:
        self.truth = Truth(lambda: 0)
        self.line = Line(self.truth, "t", 1, "orders")
        self.orders = self._queue("orders", "in/", "out/")
        self.audit = self._queue("audit", "out/")
        self.settled = self.truth.sent("p", "k", "in/x", 1)
        self.truth.promised(self.settled, 0)
        self.delivers(self.orders, self.settled)
        self.transaction = Transaction(self.truth, self.line, commits=True)
        self.published = self.transaction.publishes("t", "k", "out/x")
        self.transaction.settles(self.orders, self.settled.number)
        self.transaction.discharged()

    def _queue(self, name: str, *prefixes: str) -> Target:
        target = self.truth.begins(name, EXCLUSIVE, prefixes, Rules())
        self.truth.limits(name, 0)
        return target

    def delivers(self, target: Target, message: Message, *, count: int = 1) -> None:
        self.truth.delivered(target, message.number, self.line, held_us=0, flagged=count > 1, count=count, again=False)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_messages_settled_by_a_commit_may_not_come_again_after_a_crash(scene: Scene) -> None:
    scene.transaction.answered(is_accepted=True)
    scene.truth.course.crashes += 1
    with pytest.raises(Violation, match="after a commit had settled it"):
        scene.delivers(scene.orders, scene.settled, count=2)


def test_messages_that_a_commit_settles_may_be_with_no_other_consumer(scene: Scene) -> None:
    scene.orders.seen[scene.settled.number].holder = Line(scene.truth, "another", 1, "orders")
    with pytest.raises(Violation, match="another consumer had by then"):
        scene.transaction.answered(is_accepted=True)


def test_messages_of_a_refused_commit_are_still_owed(scene: Scene) -> None:
    scene.transaction.answered(is_accepted=False)
    assert scene.orders.seen[scene.settled.number].settled_tick == 0
    assert scene.orders.lines["p"] == [scene.settled], "nothing may overtake it"


def test_a_transaction_with_an_unknown_outcome_may_not_be_partial(scene: Scene) -> None:
    scene.transaction.unheard()
    scene.delivers(scene.orders, scene.published)
    with pytest.raises(Violation, match=r"came, and .* not into audit"):
        scene.transaction.reckon()


def test_a_transaction_of_which_nothing_came_has_settled_nothing(scene: Scene) -> None:
    scene.transaction.unheard()
    scene.transaction.reckon()
    assert scene.orders.seen[scene.settled.number].settled_tick == 0


def test_messages_settled_in_a_transaction_may_not_come_again_when_its_publishes_came(scene: Scene) -> None:
    scene.transaction.unheard()
    for target in (scene.orders, scene.audit):
        scene.delivers(target, scene.published)
    scene.delivers(scene.orders, scene.settled, count=2)
    with pytest.raises(Violation, match="a commit had settled it"):
        scene.transaction.reckon()


def test_a_crash_may_undo_a_transaction_of_which_something_was_seen(scene: Scene) -> None:
    """A message is delivered before the disk has it."""
    scene.transaction.unheard()
    scene.delivers(scene.orders, scene.published)
    scene.truth.course.crashes += 1
    scene.delivers(scene.orders, scene.settled, count=2)
    scene.transaction.reckon()


def test_messages_settled_by_another_consumer_before_the_refused_commit_are_not_owed(scene: Scene) -> None:
    """Its partition changed hands while the transaction was open."""
    scene.transaction.answered(is_accepted=False)
    other = Line(scene.truth, "another", 1, "orders")
    transaction = Transaction(scene.truth, scene.line, commits=True)
    transaction.settles(scene.orders, scene.settled.number)
    scene.truth.settled(scene.orders, scene.settled.number, other, for_good=False, rejected=False)
    transaction.discharged()
    transaction.answered(is_accepted=False)
    assert scene.orders.seen[scene.settled.number].settled_tick > 0
