"""The rules of the judge where two subscriptions of a session match a message."""

from collections.abc import Callable

import pytest

from simulation.clients.client import SESSION_FILTER_ID
from simulation.judge.overlapping_subscriptions import OVERLAP_ID, Overlap
from simulation.judge.targets import Message, Violation
from simulation.judge.truth import Truth

FIRST, BOTH = [SESSION_FILTER_ID], [SESSION_FILTER_ID, OVERLAP_ID]


class Scene:
    """A session that has subscribed to all topics below `work/`, and may subscribe to some of them once more."""

    def __init__(self) -> None:
        self.truth = Truth(lambda: 0)
        self.overlap = Overlap(self.truth)

    def subscribes(self) -> Callable[[int], None]:
        return self.overlap.asks("work/")

    def published(self) -> Message:
        return self.truth.sent("p", "k", "work/a/x", 1)

    def may_come(self, message: Message, identifiers: list[int], topic: str = "work/a/x") -> bool:
        try:
            self.overlap.check(message, topic, identifiers)
        except Violation:
            return False
        return True


def test_messages_published_after_the_second_suback_come_for_both_subscriptions() -> None:
    scene = Scene()
    early = scene.published()
    answered = scene.subscribes()
    assert scene.may_come(early, FIRST)
    assert scene.may_come(early, BOTH)
    answered(1)
    late = scene.published()

    assert scene.may_come(early, FIRST)
    assert scene.may_come(late, BOTH)
    assert not scene.may_come(late, FIRST)
    assert not scene.may_come(late, [*BOTH, OVERLAP_ID])


def test_messages_published_after_the_second_subscription_ended_come_for_the_first_only() -> None:
    scene = Scene()
    scene.subscribes()(1)
    early = scene.published()
    scene.overlap.leaves()(0)
    late = scene.published()

    assert scene.may_come(early, BOTH)
    assert not scene.may_come(late, BOTH)


@pytest.mark.parametrize("identifiers", [FIRST, BOTH])
def test_nothing_is_held_against_an_answer_behind_which_something_else_was_asked_for(identifiers: list[int]) -> None:
    scene = Scene()
    answered = scene.subscribes()
    scene.overlap.leaves()
    answered(1)

    assert scene.may_come(scene.published(), identifiers)


def test_messages_the_second_subscription_does_not_match_come_for_the_first_only() -> None:
    scene = Scene()
    scene.subscribes()(1)

    assert scene.may_come(scene.published(), FIRST, topic="work/a/y")
    assert not scene.may_come(scene.published(), BOTH, topic="work/a/y")
