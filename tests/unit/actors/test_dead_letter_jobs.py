"""Dead messages on their way to the dead message queue, when that fails over a mistake of the gateway."""

import asyncio
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, tuples

from sluicegate.actors.messages.data import Append, Confirmed
from sluicegate.actors.partitions.jobs.dead_lettering import DeadLetterRetry, dead_letter, halves
from sluicegate.actors.partitions.jobs.job import JobContext, StuckDeadLetters
from sluicegate.actors.runtime.clock import Clock
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.messaging.message.outcomes import REJECTED
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.destinations import PartitionTarget, QueueTarget
from sluicegate.messaging.routing.queue_ways import QueueWays
from sluicegate.messaging.routing.routes import TopicSpace
from support.cores.lone_actors import Idle, spawned
from support.cores.messages import flow_of, numbered

ENDLESS = 1 << 40
DMQ = "dmq"


class FailingClock(Clock):
    """Nobody can have the time, once it was told to fail, the next so many times."""

    def __init__(self) -> None:
        self.failures_left = 0
        self.moment_ms = 0

    def now_ms(self) -> int:
        return self.moment_ms

    def wall_ms(self) -> int:
        if self.failures_left:
            self.failures_left -= 1
            raise ValueError("a mistake")
        return 1


def endless_gate() -> QueueGate:
    return QueueGate(None, usage_bytes_max=ENDLESS, message_bytes_max=ENDLESS)


class Graveyard:
    """A partition of which a consumer has six messages, and its dead message queue."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = FailingClock()
        runtime = Runtime(loop=loop, clock=self.clock, rng=random.Random(1), on_fatal=lambda _: None)
        self.events = Events(self.clock)
        self.arrived = spawned(runtime, Idle).inbox
        self.ledger = Ledger(durable=True, rules=DeliveryRules(dead_msg_queue=DMQ))
        self.ledger.attach(flow_of(1), 1)
        self.ledger.append(numbered(6), None)
        self.ledger.deliver(0)
        target = QueueTarget(DMQ, endless_gate(), Pressure(high_bytes=ENDLESS, low_bytes=0), durable=True)
        target.partitions.append(PartitionTarget(2, self.arrived))
        self.place = JobContext(
            runtime,
            spawned(runtime, Idle).inbox,
            ledger=self.ledger,
            queue_name="q",
            number=0,
            partition_id=1,
            gate=endless_gate(),
            reader=None,
            ways=QueueWays({DMQ: target}, TopicSpace(), frozenset),
            trace=None,
            events=self.events,
        )

    def bury(self) -> list[bytes]:
        """Do what a partition does at the end of its turn; return what has come to the dead message queue by then."""
        dead_letter(self.place)
        appends = [each for each in self.arrived.items if isinstance(each, Append)]
        return sorted([payload for each in appends for payload in each.batch.payloads()])

    def try_again(self) -> None:
        """The time of those that are to be tried again has come."""
        for errand in list(self.place.jobs.values()):
            if isinstance(errand, DeadLetterRetry):
                errand.take_reply(None)

    def told(self) -> dict[str, int]:
        """Return how often which event was told."""
        return self.events.record.counts


@pytest.fixture
def graveyard() -> Iterator[Graveyard]:
    """Return one on a loop that does not run."""
    loop = asyncio.new_event_loop()
    yield Graveyard(loop)
    loop.close()


def test_dead_messages_whose_move_fails_hold_up_no_others_and_are_moved_later(graveyard: Graveyard) -> None:
    graveyard.ledger.settle(1, 1, 3, REJECTED)
    graveyard.ledger.settle(1, 5, 7, REJECTED)
    graveyard.clock.failures_left = 1
    assert graveyard.bury() == [b"5", b"6"]
    assert graveyard.place.dead_lettering_count == 4, "those that failed are tried again"

    graveyard.try_again()
    assert graveyard.bury() == [b"1", b"2", b"5", b"6"]
    graveyard.ledger.check()


def test_dead_messages_that_fail_again_and_again_are_reported_once(
    graveyard: Graveyard, caplog: pytest.LogCaptureFixture
) -> None:
    """To operators, and to the log with its traceback; then that they are on their way."""
    graveyard.ledger.settle(1, 1, 2, REJECTED)
    for _ in range(3):
        graveyard.clock.failures_left = 1
        assert graveyard.bury() == []
        graveyard.try_again()
    assert graveyard.told() == {"VPN_AD_DEAD_MSG_MOVE_FAILED": 1}
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False]

    assert graveyard.bury() == [b"1"]
    (moving,) = graveyard.place.jobs.values()
    moving.take_reply(Confirmed(1))
    assert graveyard.told() == {"VPN_AD_DEAD_MSG_MOVE_FAILED": 1, "VPN_AD_DEAD_MSG_MOVE_FAILED_CLEAR": 1}
    graveyard.ledger.check()


def test_a_dead_message_that_cannot_be_moved_stops_no_other_of_its_rejection(graveyard: Graveyard) -> None:
    """Its neighbours are in the same move at first. A half that fails is halved again."""
    graveyard.ledger.settle(1, 1, 7, REJECTED)
    arrived: list[list[bytes]] = []
    for _ in range(4):
        graveyard.clock.failures_left = 1
        arrived.append(graveyard.bury())
        graveyard.try_again()
    assert arrived == [[], [b"4", b"5", b"6"], [b"2", b"3", b"4", b"5", b"6"], [b"2", b"3", b"4", b"5", b"6"]]
    assert graveyard.place.dead_waiting_count() == 6, "none of the moves is confirmed"
    graveyard.ledger.check()


@given(lists(tuples(integers(1, 20), integers(1, 20)), min_size=1, max_size=5))
def test_halves_are_all_of_it_and_about_as_large(steps: list[tuple[int, int]]) -> None:
    ranges: list[tuple[int, int]] = []
    for gap, size in steps:
        first = gap + (ranges[-1][1] if ranges else 0)
        ranges.append((first, first + size))
    parts = halves(ranges)
    members = [[each for first, end in part for each in range(first, end)] for part in parts]
    assert [each for part in members for each in part] == [each for first, end in ranges for each in range(first, end)]
    assert len(parts) == (1 if sum(size for _, size in steps) == 1 else 2)
    assert max(map(len, members)) - min(map(len, members)) <= 1


def no_queue_is_there_any_more(graveyard: Graveyard) -> None:
    del graveyard.place.ways.targets[DMQ]


def publishers_are_heeded_now(graveyard: Graveyard) -> None:
    graveyard.ledger.rules.respects_eligibility = True


def the_queue_takes_nothing(graveyard: Graveyard) -> None:
    graveyard.place.ways.targets[DMQ].gate.ingress_enabled = False


@pytest.mark.parametrize(
    "what_changes", [no_queue_is_there_any_more, publishers_are_heeded_now, the_queue_takes_nothing]
)
def test_operators_hear_when_dead_messages_that_were_stuck_are_dropped(
    graveyard: Graveyard, what_changes: Callable[[Graveyard], None]
) -> None:
    graveyard.ledger.settle(1, 1, 3, REJECTED)
    graveyard.clock.failures_left = 1
    graveyard.bury()

    what_changes(graveyard)
    graveyard.try_again()
    assert graveyard.bury() == []
    told = {"VPN_AD_DEAD_MSG_MOVE_FAILED": 1, "VPN_AD_DEAD_MSG_MOVE_FAILED_CLEAR": 1}
    if what_changes is not publishers_are_heeded_now:
        told["VPN_AD_DEAD_MSG_LOST"] = 1
    assert graveyard.told() == told
    assert graveyard.ledger.waiting_count == 4
    assert graveyard.place.dead_lettering_count == 0
    graveyard.ledger.check()


def test_repeated_failures_are_retried_at_growing_intervals() -> None:
    clock = FailingClock()
    unburied = StuckDeadLetters(clock, Events(clock), "q", 0)
    pauses: list[int] = []
    for _ in range(9):
        pauses.append(unburied.failed([(1, 3)], ValueError("a mistake")))
        clock.moment_ms += pauses[-1]
    assert pauses == [1000, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]

    unburied.over(1, 3)
    assert unburied.failed([(1, 3)], ValueError("another mistake")) == 1000


def test_a_store_that_refuses_dead_messages_is_reported_once_it_lasts(graveyard: Graveyard) -> None:
    """For some seconds the event of the spool says enough."""
    stuck = graveyard.place.stuck
    for moment_ms, reported_count in ((0, 0), (9_000, 0), (10_000, 1), (11_000, 1)):
        graveyard.clock.moment_ms = moment_ms
        stuck.not_stored([(1, 3)], "no space left on device")
        assert graveyard.told().get("VPN_AD_DEAD_MSG_MOVE_FAILED", 0) == reported_count

    stuck.over(1, 2)
    assert "VPN_AD_DEAD_MSG_MOVE_FAILED_CLEAR" not in graveyard.told()
    stuck.over(2, 3)
    assert graveyard.told()["VPN_AD_DEAD_MSG_MOVE_FAILED_CLEAR"] == 1


def test_a_store_that_refused_dead_messages_for_a_moment_is_no_event(graveyard: Graveyard) -> None:
    graveyard.place.stuck.not_stored([(1, 3)], "no space left on device")
    graveyard.place.stuck.over(1, 3)
    assert graveyard.told() == {}


def test_refused_dead_messages_are_reported_once_until_some_arrive(graveyard: Graveyard) -> None:
    """And at most once a minute, where the dead message queue is full most of the time."""
    gate = graveyard.place.ways.targets[DMQ].gate
    for takes, moment_ms, reported_count in (
        (False, 1_000, 1), (False, 2_000, 1), (True, 3_000, 1), (False, 4_000, 1), (False, 62_000, 2)
    ):  # fmt: skip
        graveyard.clock.moment_ms = moment_ms
        gate.ingress_enabled = takes
        lowest = graveyard.ledger.flows[1].in_flight.lowest()
        graveyard.ledger.settle(1, lowest, lowest + 1, REJECTED)
        graveyard.bury()
        for moving in list(graveyard.place.jobs.values()):
            moving.take_reply(Confirmed(1))
        assert graveyard.told().get("VPN_AD_DEAD_MSG_LOST", 0) == reported_count


def test_dead_messages_that_wait_are_counted(graveyard: Graveyard) -> None:
    graveyard.ledger.settle(1, 1, 3, REJECTED)
    assert graveyard.place.dead_waiting_count() == 2
    graveyard.clock.failures_left = 1
    graveyard.bury()
    assert graveyard.place.dead_waiting_count() == 2

    graveyard.try_again()
    graveyard.bury()
    for moving in list(graveyard.place.jobs.values()):
        moving.take_reply(Confirmed(1))
    assert graveyard.place.dead_waiting_count() == 0


def test_a_ledger_made_anew_has_no_dead_messages_that_are_stuck(graveyard: Graveyard) -> None:
    """They wait for a consumer again."""
    graveyard.ledger.settle(1, 1, 3, REJECTED)
    graveyard.clock.failures_left = 1
    graveyard.bury()
    graveyard.place.use_ledger(graveyard.ledger)
    assert graveyard.told() == {"VPN_AD_DEAD_MSG_MOVE_FAILED": 1, "VPN_AD_DEAD_MSG_MOVE_FAILED_CLEAR": 1}
