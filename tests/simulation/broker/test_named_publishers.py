"""The rules of the judge for publishers of the flow protocol that return, and consumers that release deliveries."""

from contextlib import nullcontext

import pytest

from simulation.judge.sequences import SequenceBook
from simulation.judge.targets import EXCLUSIVE, Message, Rules, Violation
from simulation.judge.truth import Truth
from simulation.scenario import PLAIN
from simulation.wires.flow_tap import FlowHolder, FlowTap
from simulation.world import World
from sluicegate.protocols.flow.codec.frame import PREFACE
from sluicegate.protocols.flow.codec.frames.flow import Bind, PubOpened
from sluicegate.protocols.flow.codec.frames.publish import PubAck, Refusal
from sluicegate.protocols.flow.codec.frames.settle import OUTCOME_EXTEND, OUTCOME_FAILED, OUTCOME_RELEASED, Settle
from sluicegate.protocols.flow.publishers.directory import SWEEP_MS, PublisherDirectory
from sluicegate.protocols.flow.publishers.publisher import ROW_PREFIX
from sluicegate.storage.interface import Table

A_WHILE_US = 2_000_000
PUBLISHER, CONSUMER = 1, 2  # flow ids
LOCK_MS, BACK_OFF_MS = 3_000, 1_500


class Scene:
    """A queue, and a connection that publishes to it and consumes it, seen at the node's end."""

    def __init__(self) -> None:
        self.now_us = A_WHILE_US
        self.truth = Truth(lambda: self.now_us)
        self.queue = self.truth.begins("orders", EXCLUSIVE, ("in/",), Rules(lock_ms=LOCK_MS, back_off_ms=BACK_OFF_MS))
        self.truth.limits("orders", 0)
        self.out: dict[int, Message] = {}
        self.tap = FlowTap(self.truth, self.out)
        self.tap.written(PREFACE)
        self.tap.read(PREFACE + Bind(CONSUMER, 1, "orders", 0, 10).encode())
        self.holder = self.tap._flows[CONSUMER]

    def sends(self, sequence: int) -> Message:
        message = self.truth.sent("f", "k", "in/x", 1)
        message.is_known = True
        self.out[sequence] = message
        return message

    def answers(self, through: int, *refusals: Refusal) -> None:
        self.tap.written(PubAck(PUBLISHER, through, through + 10, list(refusals)).encode())

    def delivers(self, message: Message, *, to: FlowHolder | None = None, count: int = 1) -> None:
        holder = to or self.holder
        self.truth.delivered(
            self.queue, message.number, holder, held_us=self.now_us, flagged=count > 1, count=count, again=False
        )
        holder.written[count] = self.tap.noted(self.queue, message.number)

    def settles(self, delivery_id: int, outcome: int) -> None:
        self.tap.read(Settle(CONSUMER, 0, ((delivery_id, delivery_id, outcome),)).encode())


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_confirmed_messages_are_promised_and_refused_ones_are_not(scene: Scene) -> None:
    stored, refused, open_still = scene.sends(1), scene.sends(2), scene.sends(3)
    scene.answers(2, Refusal(2, 2, 0x0502, "full"))
    assert stored.promised_tick
    assert refused.refused
    assert not refused.promised_tick
    assert not open_still.promised_tick


def test_messages_the_node_reports_to_a_returning_publisher_are_promised(scene: Scene) -> None:
    message = scene.sends(1)
    scene.tap.written(PubOpened(PUBLISHER, 1, 2, 1, 1, 11, 7).encode())
    assert message.promised_tick


def test_what_was_refused_may_be_taken_when_its_publisher_returns_without_having_heard_of_that(scene: Scene) -> None:
    """Such as for a quota: there may be room meanwhile."""
    message = scene.sends(1)
    scene.answers(1, Refusal(1, 1, 0x0503, "full"))
    scene.truth.sent_again(message)
    scene.delivers(message)
    scene.answers(1)
    with pytest.raises(Violation, match="not flagged as redelivered"):
        scene.delivers(message)


def test_repeated_publishes_may_not_come_again_as_new(scene: Scene) -> None:
    message = scene.sends(1)
    scene.delivers(message)
    scene.truth.sent_again(message)
    scene.holder.has_let_go = True
    scene.now_us += A_WHILE_US
    with pytest.raises(Violation, match="not flagged as redelivered"):
        scene.truth.delivered(scene.queue, 1, scene.holder, held_us=0, flagged=False, count=1, again=False)


def test_repeated_publishes_may_come_again_as_new_where_the_store_refused_them(scene: Scene) -> None:
    """By a commit that was under way when the publisher came back."""
    message = scene.sends(1)
    scene.delivers(message)
    scene.truth.sent_again(message)
    scene.truth.store_refuses()
    scene.holder.has_let_go = True
    scene.truth.delivered(scene.queue, 1, scene.holder, held_us=0, flagged=False, count=1, again=False)


@pytest.mark.parametrize("stops_in_order", [False, True])
def test_repeated_publishes_after_a_crash_come_flagged(scene: Scene, stops_in_order: bool) -> None:
    """But where the publisher returns after an orderly stop behind the crash (decision 0013)."""
    message = scene.sends(1)
    scene.delivers(message)
    scene.truth.course.crashes += 1
    scene.truth.begins_after_stop = stops_in_order
    scene.truth.sent_again(message)
    scene.holder.has_let_go = True
    with nullcontext() if stops_in_order else pytest.raises(Violation, match="not flagged as redelivered"):
        scene.truth.delivered(scene.queue, 1, scene.holder, held_us=0, flagged=False, count=1, again=False)
    scene.truth.delivered(scene.queue, 1, scene.holder, held_us=0, flagged=True, count=1, again=False)


def test_released_messages_may_come_again_at_once_with_the_same_count(scene: Scene) -> None:
    message = scene.sends(1)
    scene.delivers(message)
    scene.settles(1, OUTCOME_RELEASED)
    scene.truth.delivered(scene.queue, 1, scene.holder, held_us=0, flagged=True, count=1, again=False)


def test_failed_messages_have_to_wait_and_are_counted(scene: Scene) -> None:
    message = scene.sends(1)
    scene.delivers(message)
    scene.settles(1, OUTCOME_FAILED)
    with pytest.raises(Violation, match="before it had waited"):
        scene.delivers(message, count=2)
    scene.now_us += BACK_OFF_MS * 1000
    with pytest.raises(Violation, match="came 1 times before"):
        scene.truth.delivered(scene.queue, 1, scene.holder, held_us=0, flagged=True, count=1, again=False)


def test_an_extended_lock_lasts_its_whole_time_from_then_on(scene: Scene) -> None:
    message = scene.sends(1)
    scene.delivers(message)
    scene.now_us += (LOCK_MS - 500) * 1000
    scene.settles(1, OUTCOME_EXTEND)
    scene.now_us += (LOCK_MS - 500) * 1000
    with pytest.raises(Violation, match="was not done with it"):
        scene.delivers(message, to=FlowHolder("orders"), count=2)
    scene.now_us += 500 * 1000
    scene.delivers(message, to=FlowHolder("orders"), count=2)


def test_a_message_that_is_stored_twice_in_a_partition_is_noticed() -> None:
    book = SequenceBook({}, is_stored_once=lambda partition_id, number: True)
    book.note_place(1, 5, 77)
    book.note_place(2, 9, 77)
    with pytest.raises(Violation, match="stored twice"):
        book.note_place(1, 6, 77)


def test_a_publisher_that_is_cut_off_before_its_answers_returns_and_nothing_is_doubled() -> None:
    world = World(1, PLAIN)
    returner, consumer = world.returners["f1"], world.clients["c1"]
    consumer.connect(clean_start=False)
    returner.connect()
    world.advance(A_WHILE_US)
    consumer.consume("first", 1)
    world.advance(A_WHILE_US)
    for _ in range(3):
        world.pace.slow_left = 4  # the answer takes longer than the connection lasts
        returner.publish("work/a/x", "k", 40)
        world.advance(20_000)
        assert returner.is_waiting
        returner.cut()
        returner.connect()
        world.advance(A_WHILE_US)

    assert not returner.is_waiting
    assert list(world.truth.targets["first"].seen) == [1, 2, 3]
    assert all(seen.count == 1 for seen in world.truth.targets["first"].seen.values())
    world.close()


def test_a_publisher_that_is_forgotten_is_gone_from_a_store_that_refuses_at_first() -> None:
    """After a restart, its sequences would be taken for those of the next one of its name: that would lose messages."""
    world = World(1, PLAIN)
    returner = world.returners["f1"]
    returner.connect()
    world.advance(A_WHILE_US)
    returner.publish("work/a/x", "k0", 40)
    world.advance(A_WHILE_US)
    returner.close()
    world.advance(A_WHILE_US)
    assert rows_of_publishers(world)

    directory = world.node.default.publishers.actor
    assert isinstance(directory, PublisherDirectory)
    directory.remembered_ms = 0
    world.faults.failures_left = 1
    world.advance(2 * SWEEP_MS * 1000)

    assert world.faults.failures_left == 0
    assert not rows_of_publishers(world)
    world.close()


def rows_of_publishers(world: World) -> list[bytes]:
    return [key for key in world.image.keys(Table.SESSIONS) if ROW_PREFIX in key]
