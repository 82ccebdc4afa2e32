"""Answers to settlements that wait for the store, when some messages cannot reach their dead message queue."""

from collections.abc import Callable, Iterator

import pytest

from sluicegate.actors.messages.data import Confirmed, Settle, SettleDurably
from sluicegate.actors.partitions.consumer_requests import ConsumerRequests
from sluicegate.actors.runtime.inbox import Inbox
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.messaging.message.outcomes import ACCEPTED, REJECTED
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.rules.moves import abort_move, commit_move, drop_moving
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from support.cores.lone_actors import Idle, lone_runtime, spawned
from support.cores.messages import flow_of, numbered

FLOW, EPOCH = 1, 1


class Scenario:
    """A partition's part in settling: a consumer holds nine messages, of a queue that is never written."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.ledger = Ledger(durable=False, rules=DeliveryRules(dead_msg_queue="dmq"))
        self.ledger.attach(flow_of(FLOW), EPOCH)
        self.ledger.append(numbered(9), None)
        self.ledger.deliver(0)
        self.requests = ConsumerRequests()

    def settles(self, *ranges: tuple[int, int], outcome: int) -> Inbox:
        """Settle half-open ranges, in a turn of its own."""
        answers = spawned(self._runtime, Idle).inbox
        first, end = ranges[0]
        settle = Settle(FLOW, EPOCH, first, end, outcome, further=list(ranges[1:]))
        assert self.requests.takes(self.ledger, SettleDurably(settle, answers))
        for start, stop in ranges:
            self.ledger.settle(FLOW, start, stop, outcome)
        self.turn_ends()
        return answers

    def turn_ends(self) -> None:
        if self.requests.is_awaited:
            self.requests.reply(self.ledger, None)
        self.ledger.check()


@pytest.fixture
def scenario() -> Iterator[Scenario]:
    with lone_runtime() as runtime:
        yield Scenario(runtime)


def confirmed(*answers: Inbox) -> list[bool]:
    return [[type(each) for each in one.items] == [Confirmed] for one in answers]


def test_a_rejection_that_waits_holds_up_no_other_settlement(scenario: Scenario) -> None:
    stuck = scenario.settles((1, 3), outcome=REJECTED)
    later = scenario.settles((3, 4), outcome=REJECTED)
    accepted = scenario.settles((4, 6), outcome=ACCEPTED)
    assert confirmed(stuck, later, accepted) == [False, False, True]

    commit_move(scenario.ledger, 3, 4)
    scenario.turn_ends()
    assert confirmed(stuck, later) == [False, True]

    commit_move(scenario.ledger, 1, 3)
    scenario.turn_ends()
    assert confirmed(stuck, later) == [True, True]
    assert not scenario.requests.is_awaited


def test_a_rejection_is_answered_when_the_last_of_its_messages_has_left(scenario: Scenario) -> None:
    """Whatever became of each: it arrived, the dead message queue refused it, or it could not be read."""
    answers = scenario.settles((1, 3), (5, 7), outcome=REJECTED)
    ends: list[Callable[[], None]] = [
        lambda: commit_move(scenario.ledger, 5, 6),
        lambda: drop_moving(scenario.ledger, 6, 7, "rejected", by_refusal=True),
        lambda: commit_move(scenario.ledger, 2, 3),
    ]
    for end_move in ends:
        end_move()
        scenario.turn_ends()
        assert answers.items == []

    abort_move(scenario.ledger, 1, 2)
    scenario.turn_ends()
    assert confirmed(answers) == [True]


def test_moves_that_nobody_waits_for_answer_nothing_later(scenario: Scenario) -> None:
    scenario.ledger.settle(FLOW, 1, 2, REJECTED)
    commit_move(scenario.ledger, 1, 2)
    scenario.turn_ends()
    answers = scenario.settles((2, 3), outcome=REJECTED)
    assert answers.items == []

    commit_move(scenario.ledger, 2, 3)
    scenario.turn_ends()
    assert confirmed(answers) == [True]


def test_a_settlement_waits_for_no_message_that_its_flow_did_not_hold(scenario: Scenario) -> None:
    """Another rejection of the same range has it."""
    rejected = scenario.settles((2, 3), outcome=REJECTED)
    around = scenario.settles((1, 4), outcome=ACCEPTED)
    assert confirmed(rejected, around) == [False, True]


def test_rejections_that_wait_are_answered_when_a_reloaded_ledger_has_none_of_them(scenario: Scenario) -> None:
    """The store had them in the dead message queue."""
    first, second = scenario.settles((1, 3), outcome=REJECTED), scenario.settles((3, 4), outcome=REJECTED)
    commit_move(scenario.ledger, 1, 4)
    scenario.ledger.effects.ended_moves = []  # that ledger failed before its turn ended
    scenario.requests.use_ledger(scenario.ledger)
    scenario.turn_ends()
    assert confirmed(first, second) == [True, True]
