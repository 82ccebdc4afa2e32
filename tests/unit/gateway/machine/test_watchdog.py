"""The heartbeats of a broker: when it counts as unresponsive, when it is killed, and when it is neither."""

import pytest

from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.sections.watchdog import Watchdog
from sluicegate.gateway.machine.watchdog import Heartbeats, Step

SETTINGS = Watchdog(unresponsive_s=3, kill_s=6)


def steps_of(heartbeats: Heartbeats, answers: str, settings: Watchdog = SETTINGS) -> list[Step | None]:
    """Take heartbeats, one for each character: `+` was answered."""
    return [heartbeats.beat(answered=answer == "+", settings=settings) for answer in answers]


def test_a_silent_broker_is_unresponsive_and_then_killed_once() -> None:
    expected = [None, None, Step.UNRESPONSIVE, None, None, Step.DUMP, Step.KILL, None, None]
    assert steps_of(Heartbeats(), "-" * 9) == expected


def test_one_that_answers_again_is_cleared_and_counted_from_the_beginning() -> None:
    heartbeats = Heartbeats()
    assert steps_of(heartbeats, "---+") == [None, None, Step.UNRESPONSIVE, Step.CLEAR]
    assert not heartbeats.is_unresponsive
    assert steps_of(heartbeats, "--+--+") == [None] * 6


def test_without_a_limit_nobody_is_killed() -> None:
    assert steps_of(Heartbeats(), "-" * 100, Watchdog(unresponsive_s=3, kill_s=0)).count(Step.UNRESPONSIVE) == 1
    assert not {Step.DUMP, Step.KILL} & set(steps_of(Heartbeats(), "-" * 100, Watchdog(unresponsive_s=3, kill_s=0)))


def test_a_lower_limit_holds_for_one_that_is_silent_already() -> None:
    heartbeats = Heartbeats()
    steps_of(heartbeats, "-" * 50, Watchdog(unresponsive_s=3, kill_s=0))
    assert steps_of(heartbeats, "--") == [Step.KILL, None]


def test_a_broker_is_not_killed_before_it_is_unresponsive() -> None:
    with pytest.raises(ConfigError, match="kill_s is 5; allowed: 0, or more than unresponsive_s, which is 5"):
        load(None, environment={}, settings=["watchdog.kill_s=5"])
