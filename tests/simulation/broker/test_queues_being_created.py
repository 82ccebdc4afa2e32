"""Requests for a queue that the store does not have yet, and may refuse; on virtual time."""

from collections.abc import Callable, Coroutine

import pytest

from simulation.world import World
from sluicegate.gateway.views.errors import QueueAlreadyExists, Refused

QUEUE = "new"
Asking = Callable[[World], Coroutine[object, object, None]]
A_MOMENT_US, A_WHILE_US = 1, 2_000_000


async def create(world: World) -> None:
    await world.view.create_queue({"name": QUEUE}, durable=True)


async def change(world: World) -> None:
    await world.view.update_queue(QUEUE, {"max_redelivery_count": 7})


def is_there_after_a_crash(world: World) -> bool:
    world.power_fails()
    return QUEUE in [view.config.name for view in world.ask(world.view.list_queues())]


def test_that_a_queue_exists_is_said_when_the_store_has_it(world: World) -> None:
    """Whoever repeats a request whose answer does not come takes it for done then."""
    world.pace.slow_left = 1
    world.loop.create_task(create(world))
    world.advance(A_MOMENT_US)

    with pytest.raises(QueueAlreadyExists):
        world.ask(create(world))

    assert is_there_after_a_crash(world)


@pytest.mark.parametrize("ask_behind", [create, change])
def test_requests_to_a_queue_that_the_store_refuses_are_refused_and_leave_nothing(
    world: World, ask_behind: Asking
) -> None:
    world.faults.failures_left = 1
    first = world.loop.create_task(create(world))
    world.advance(A_MOMENT_US)

    with pytest.raises(Refused):
        world.ask(ask_behind(world))

    assert isinstance(first.exception(), Refused)
    assert not is_there_after_a_crash(world)


def test_a_queue_is_changed_that_is_being_made(world: World) -> None:
    world.pace.slow_left = 1
    world.loop.create_task(create(world))
    world.advance(A_MOMENT_US)

    world.ask(change(world))

    world.power_fails()
    assert world.ask(world.view.show_queue(QUEUE)).config.max_redelivery_count == 7
