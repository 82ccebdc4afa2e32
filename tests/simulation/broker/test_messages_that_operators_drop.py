"""Messages that an operator dropped do not come back, whatever happens to the node; on virtual time."""

from collections.abc import Callable, Coroutine

import pytest

from simulation.scenario import TEMPORARY
from simulation.world import World
from sluicegate.actors.messages.operations import DELETE
from sluicegate.gateway.views.queues.selections import MessageSelection
from sluicegate.messaging.queues.message_filter import MessageId

QUEUE = "first"
A_WHILE_US = 2_000_000
Dropping = Callable[[World], Coroutine[object, object, object]]


@pytest.fixture(autouse=True)
def one_waits(world: World, a_message_waits: None) -> None:
    assert waiting_in(world) == 1


def waiting_in(world: World) -> int:
    return len(world.ask(world.view.browse_queue(QUEUE)))


def purge(world: World) -> Coroutine[object, object, object]:
    return world.view.purge_queue(QUEUE)


def delete_what_matches(world: World) -> Coroutine[object, object, object]:
    return world.view.take_messages(QUEUE, DELETE, MessageSelection(limit=10))


def delete_one(world: World) -> Coroutine[object, object, object]:
    return world.view.take_messages(QUEUE, DELETE, MessageSelection(ids=(MessageId(0, 1),)))


@pytest.mark.parametrize("drop", [purge, delete_what_matches, delete_one])
def test_a_message_that_was_dropped_does_not_come_back_after_a_crash(world: World, drop: Dropping) -> None:
    world.ask(drop(world))

    world.power_fails()

    assert waiting_in(world) == 0


@pytest.mark.parametrize("drop", [purge, delete_what_matches, delete_one])
def test_dropping_is_answered_when_a_store_that_refuses_has_taken_it(world: World, drop: Dropping) -> None:
    world.faults.failures_left = 3

    world.ask(drop(world))

    assert world.faults.failures_left == 0
    world.power_fails()
    assert waiting_in(world) == 0


def test_a_second_purge_is_answered_when_the_store_has_the_first(world: World) -> None:
    world.pace.slow_left = 1
    world.loop.create_task(purged(world))
    world.advance(1)

    world.ask(purge(world))

    world.power_fails()
    assert waiting_in(world) == 0


def test_messages_that_are_never_written_are_dropped_at_once(world: World) -> None:
    world.ask(world.view.create_queue({"name": TEMPORARY}, durable=False))
    world.faults.failures_left = 1

    assert world.ask(world.view.purge_queue(TEMPORARY)) == 0

    assert world.faults.failures_left == 1


async def purged(world: World) -> None:
    await purge(world)
