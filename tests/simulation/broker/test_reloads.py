"""Reloads of the configuration while clients are at work, and the rules of the judge for what they change."""

from collections.abc import Iterator

import pytest

from simulation.judge.targets import Message, Violation
from simulation.judge.truth import DENIED
from simulation.publish_acl import PublishAcl
from simulation.run import drain
from simulation.scenario import PLAIN
from simulation.world import World

A_WHILE_US = 2_000_000


@pytest.fixture
def world() -> Iterator[World]:
    """A node whose configuration changes, and a publisher."""
    made = World(1, PLAIN._replace(reloads=True))
    made.clients["p0"].connect(clean_start=False)
    made.advance(A_WHILE_US)
    yield made
    made.close()


def reload(world: World) -> None:
    world.reload()
    world.finish_admin()


def publish(world: World) -> Message:
    world.clients["p0"].publish("work/d/x", "k0", 1, 40)
    world.advance(A_WHILE_US)
    return list(world.truth.course.messages.values())[-1]


def test_what_clients_may_not_publish_any_more_is_denied_and_then_accepted_again(world: World) -> None:
    assert publish(world).promised_tick
    world.configuration.forbids = True
    reload(world)
    assert publish(world).refused
    world.configuration.forbids = False
    reload(world)
    assert publish(world).promised_tick
    drain(world)


def test_a_declared_queue_that_was_deleted_is_created_by_a_reload(world: World) -> None:
    world.truth.ends("first")
    world.ask(world.view.delete_queue("first"))
    reload(world)
    assert "first" in world.truth.targets
    drain(world)


def test_a_queue_that_is_declared_no_more_stays_with_its_messages(world: World) -> None:
    message = publish(world)
    world.configuration.declared = ()
    reload(world)
    world.power_fails()
    drain(world)
    assert message.number in world.truth.targets["small"].seen


def test_nothing_more_is_taken_when_a_reload_lowers_the_quota_below_what_is_there(world: World) -> None:
    publish(world)
    world.configuration.quota_bytes = 0
    reload(world)
    assert publish(world).refused
    drain(world)


def test_a_power_failure_within_a_reload_leaves_the_new_configuration_in_force(world: World) -> None:
    world.configuration.forbids = True
    world.reload()
    world.advance(0)
    world.power_fails()
    world.clients["p0"].connect(clean_start=False)
    world.advance(A_WHILE_US)
    assert publish(world).refused


# --- the judge ---


def message(tick: int, topic: str = "work/d/x", publisher: str = "p0") -> Message:
    return Message(1, publisher, "k", topic, 1, tick, 0)


def test_nothing_is_accepted_that_was_sent_since_it_is_forbidden() -> None:
    acl = PublishAcl()
    acl.is_in_force(5, forbids=True)
    for allowed in (message(4), message(6, topic="work/a/x"), message(6, publisher="job 0")):
        acl.check_accepted(allowed)
    with pytest.raises(Violation, match="was accepted"):
        acl.check_accepted(message(6))


def test_nothing_is_denied_that_was_sent_since_it_is_allowed(world: World) -> None:
    acl = PublishAcl()
    acl.is_in_force(5, forbids=False)
    with pytest.raises(Violation, match="was denied"):
        acl.check_denied(message(6))
    with pytest.raises(Violation, match="was denied"):
        world.truth.promised(world.truth.sent("p0", "k", "work/a/x", 1), DENIED)


def test_while_a_reload_is_under_way_both_may_happen() -> None:
    acl = PublishAcl()
    acl.is_in_force(5, forbids=True)
    acl.may_change()
    acl.check_accepted(message(6))
    acl.check_denied(message(6))
