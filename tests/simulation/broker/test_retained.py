"""The rules of the judge for retained messages, and retained messages over a crash."""

import pytest

import support.mqtt.packets as mqtt
from simulation.clients.client import RETAINED_FILTER_ID
from simulation.judge.targets import RETAINED, Message, Violation
from simulation.judge.truth import Truth
from simulation.judge.wills import Will
from simulation.run import look_at_what_is_retained
from simulation.scenario import PLAIN
from simulation.wires.mqtt_tap import Tap
from simulation.world import World

A_WHILE_US = 2_000_000
EXPIRY_S = 5


class Scene:
    """The topic, at some time."""

    def __init__(self) -> None:
        self.now_us = 0
        self.truth = Truth(lambda: self.now_us)

    def changes(self, *, deletes: bool = False, expiry_s: int = 0) -> Message:
        """Have the client set what is retained, or delete it, and hear that this is done."""
        message = self.truth.sent("p", "", RETAINED, 1, expiry_s=expiry_s)
        self.truth.retained.changes(message, deletes=deletes)
        self.now_us += 1
        self.truth.promised(message, 0)
        return message

    def will_comes(self) -> Message:
        """Have a client leave a will with a connection that is lost."""
        will = Will(self.truth, "c", 1, RETAINED, "k", qos=1, delay_s=0, is_kept=True)
        will.begun()
        self.now_us += A_WHILE_US
        will.lost()
        assert will.is_sure
        return will.message

    def is_at_rest(self, message: Message | None, wills: list[Message]) -> None:
        self.now_us += A_WHILE_US
        self.truth.retained.check_at_rest(message, wills=wills, sure=wills)


def test_who_looks_sees_nothing_that_is_older_than_what_was_confirmed_before() -> None:
    scene = Scene()
    tap = Tap(scene.truth, "s", receive_maximum=10, names={RETAINED_FILTER_ID: RETAINED}, out={})
    terms = mqtt.subscription_identifier(RETAINED_FILTER_ID)
    first, second = (
        mqtt.publish(RETAINED, b"%d|" % scene.changes().number, level=5, retain=True, properties=terms)
        for _ in range(2)
    )
    tap.looks()

    tap.written(second)
    with pytest.raises(Violation, match="was confirmed"):
        tap.written(first)


def test_deleted_retained_messages_do_not_return() -> None:
    scene = Scene()
    message = scene.changes()
    scene.is_at_rest(message, [])
    scene.changes(deletes=True)

    scene.is_at_rest(None, [])
    with pytest.raises(Violation, match="was confirmed"):
        scene.is_at_rest(message, [])


def test_retained_messages_come_until_they_expire() -> None:
    scene = Scene()
    message = scene.changes(expiry_s=EXPIRY_S)
    with pytest.raises(Violation, match="nothing is retained"):
        scene.is_at_rest(None, [])
    scene.is_at_rest(message, [])
    scene.now_us += EXPIRY_S * 1_000_000

    scene.is_at_rest(None, [])
    with pytest.raises(Violation, match="after it had expired"):
        scene.is_at_rest(message, [])


def test_a_will_that_had_to_come_behind_a_message_is_retained_in_its_place() -> None:
    scene = Scene()
    message = scene.changes()
    will = scene.will_comes()

    scene.is_at_rest(will, [will])
    for wrong in (message, None):
        with pytest.raises(Violation, match="came"):
            scene.is_at_rest(wrong, [will])


def test_a_publish_repeated_after_a_crash_may_be_retained_in_place_of_a_will() -> None:
    """docs/connect/mqtt.md, known deviations: no queue has it, and so the store does not have its packet id."""
    scene = Scene()
    message = scene.changes()
    will = scene.will_comes()
    message.sent_count += 1
    with pytest.raises(Violation, match="came behind it"):
        scene.is_at_rest(message, [will])
    scene.truth.course.crashes += 1
    scene.is_at_rest(message, [will])


def test_a_crash_leaves_the_will_of_a_session_that_is_kept_retained() -> None:
    """[3.1.2-15]: at the next start, and on disk from then on."""
    world = World(1, PLAIN)
    will = Will(world.truth, "s1", 1, RETAINED, "k", qos=1, delay_s=0, is_kept=True)
    world.wills.append(will)
    world.clients["s1"].connect(clean_start=False, will=will)
    world.advance(A_WHILE_US)

    for _ in range(2):
        world.power_fails()
        world.advance(A_WHILE_US)

    look_at_what_is_retained(world)
    assert world.clients["s0"].saw is will.message
    world.close()
