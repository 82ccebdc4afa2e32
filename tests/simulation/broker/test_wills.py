"""Wills when the node crashes at a bad moment, and the rules of the judge for wills."""

from collections.abc import Iterator

import pytest

from simulation.actions import play
from simulation.checks.node_checks import is_being_read_back, queues_of
from simulation.clients.client import ONLINE
from simulation.faults import FAILURES_MAX
from simulation.judge.targets import EXCLUSIVE, Rules, Violation
from simulation.judge.truth import Truth
from simulation.judge.wills import CALLED_OFF, Will
from simulation.run import drain
from simulation.scenario import PLAIN
from simulation.steps import Step
from simulation.world import World

A_WHILE_US, A_MOMENT_US = 2_000_000, 5_000
DELAY_S = 5


@pytest.fixture
def world() -> Iterator[World]:
    """A client whose session is kept has left a will that an exclusive queue wants."""
    made = World(1, PLAIN)
    will = Will(made.truth, "s0", 1, "work/a/x", "k", qos=1, delay_s=0, is_kept=True)
    made.wills.append(will)
    made.clients["s0"].connect(clean_start=False, will=will)
    made.advance(A_WHILE_US)
    yield made
    made.close()


@pytest.mark.parametrize("microseconds", [0, 300])
def test_who_is_let_in_has_a_will_that_no_crash_loses(microseconds: int) -> None:
    """[3.1.2-7]: however long the store takes, CONNACK comes behind it."""
    world = World(1, PLAIN)
    will = Will(world.truth, "s0", 1, "work/a/x", "k", qos=1, delay_s=0, is_kept=True)
    world.wills.append(will)
    world.pace.slow_left = 3
    client = world.clients["s0"]
    client.connect(clean_start=False, will=will)
    while client.state != ONLINE:
        world.advance(100)
    world.advance(microseconds)

    world.power_fails()

    drain(world)  # and the will has come
    world.close()


def test_who_is_taken_over_before_connack_leaves_no_will(world: World) -> None:
    """[3.1.2-8]: only the will of a CONNECT that is accepted is kept."""
    world.pace.slow_left = 1
    will = Will(world.truth, "s0", 2, "work/a/x", "k", qos=1, delay_s=0, is_kept=True)
    world.wills.append(will)
    client = world.clients["s0"]
    client.connect(clean_start=False, will=will)
    world.advance(A_MOMENT_US)
    assert client.state != ONLINE
    client.connect(clean_start=False)

    drain(world)  # and that will has not come
    assert will.state == CALLED_OFF


@pytest.mark.parametrize("microseconds", [300, 600])
def test_a_will_is_there_after_a_crash_though_its_queue_could_not_take_it_at_once(
    world: World, microseconds: int
) -> None:
    """One of its queue's partitions is being read back when the connection ends, and the store writes that."""
    names = [queue.name for queue in queues_of(world.node)]
    play(world, Step("break", who=names.index("first"), what=0, amount=FAILURES_MAX - 1, salt=0, then_us=0))
    world.advance(microseconds)
    world.pace.slow_left = 1
    world.clients["s0"].cut()
    world.advance(A_MOMENT_US)
    assert is_being_read_back(queues_of(world.node)[names.index("first")])

    world.power_fails()

    drain(world)  # and the will has come


def test_a_goodbye_that_the_store_refused_to_note_calls_the_will_off_all_the_same(world: World) -> None:
    """Else a restart, however much later, publishes the will of a client that had said goodbye."""
    world.truth.course.store_faults += 1
    world.faults.failures_left = 1
    world.clients["s0"].close()
    world.advance(A_WHILE_US)
    assert world.faults.failures_left == 0

    world.restart()

    drain(world)  # and no will has come


class Scene:
    """A queue, and a will that it wants."""

    def __init__(self, *, qos: int = 1, delay_s: int = 0, is_kept: bool = True) -> None:
        self.now_us = A_WHILE_US
        self.truth = Truth(lambda: self.now_us)
        self.queue = self.truth.begins("orders", EXCLUSIVE, ("in/",), Rules())
        self.truth.limits("orders", 0)
        self.will = Will(self.truth, "c", 1, "in/x", "k", qos=qos, delay_s=delay_s, is_kept=is_kept)
        self.will.begun()

    def comes(self) -> None:
        number = self.will.message.number
        self.truth.delivered(self.queue, number, self, held_us=self.now_us, flagged=False, count=1, again=False)

    has_let_go = False


def test_a_will_does_not_come_while_its_client_is_there_nor_after_its_goodbye() -> None:
    scene = Scene()
    with pytest.raises(Violation, match="nobody is to have"):
        scene.comes()
    scene.will.goodbye()
    scene.will.lost()
    with pytest.raises(Violation, match="nobody is to have"):
        scene.comes()


def test_a_will_whose_connection_was_lost_has_to_come() -> None:
    scene = Scene()
    scene.will.lost()
    with pytest.raises(Violation, match="never came into orders"):
        scene.will.check()
    scene.comes()
    scene.will.check()


def test_a_will_of_qos_0_may_be_lost_and_may_come_once() -> None:
    lost, scene = Scene(qos=0), Scene(qos=0)
    for each in (lost, scene):
        each.will.lost()
    lost.will.check()
    scene.comes()
    scene.has_let_go = True
    with pytest.raises(Violation, match="not flagged as redelivered"):
        scene.comes()


def test_a_delayed_will_does_not_come_before_its_delay_is_over_unless_the_session_ends() -> None:
    scene = Scene(delay_s=DELAY_S)
    scene.will.lost()
    with pytest.raises(Violation, match="before its delay was over"):
        scene.comes()
    scene.will.returns(clean_start=True)
    scene.comes()


def test_who_is_back_in_time_calls_its_will_off() -> None:
    scene = Scene(delay_s=DELAY_S)
    scene.will.lost()
    scene.will.returns(clean_start=False)
    scene.will.returned()
    scene.will.check()
    scene.now_us += 2 * DELAY_S * 1_000_000
    with pytest.raises(Violation, match="nobody is to have"):
        scene.comes()


def test_a_crash_publishes_the_will_of_a_session_that_is_kept_and_loses_that_of_one_that_is_not() -> None:
    kept, fleeting = Scene(), Scene(is_kept=False)
    for scene in (kept, fleeting):
        scene.will.crashed()
    with pytest.raises(Violation, match="never came"):
        kept.will.check()
    fleeting.will.check()
    with pytest.raises(Violation, match="nobody is to have"):
        fleeting.comes()


def test_a_crash_may_bring_back_a_will_of_which_the_store_refused_to_hear_that_it_was_called_off() -> None:
    scene = Scene(delay_s=DELAY_S)
    scene.will.begun()
    scene.will.lost()
    scene.will.returns(clean_start=False)
    scene.will.returned()
    assert scene.will.message.withheld
    scene.truth.course.store_faults += 1
    scene.will.crashed()
    assert not scene.will.message.withheld
