"""An aborted transaction stays aborted, whatever happens to the store and the node; on virtual time."""

import pytest

from simulation.world import World
from sluicegate.actors.messages.staging import AbortStaged, CommitStaged, Stage
from sluicegate.messaging.bulk.staging import NOT_STAGED, StagingRefused
from support.broker.inside_client import batch_on

TRANSACTION, ATTEMPT = "job/7", (0, 0)
A_MOMENT_US, A_WHILE_US = 1, 2_000_000


async def stage(world: World) -> None:
    await world.node.default.staging.ask(Stage(TRANSACTION, *ATTEMPT, [batch_on("work/a/x", [b"x"])]))


async def abort(world: World) -> None:
    assert await world.node.default.staging.ask(AbortStaged(TRANSACTION))


async def commit(world: World) -> None:
    await world.node.default.staging.ask(CommitStaged(TRANSACTION, [ATTEMPT]))


def nothing_is_staged_after_a_crash(world: World) -> bool:
    world.power_fails()
    with pytest.raises(StagingRefused) as refused:
        world.ask(commit(world))
    return refused.value.code == NOT_STAGED


def test_an_abort_is_answered_when_a_store_that_refuses_has_taken_it(world: World) -> None:
    """What came back would be committed together with what is staged anew under its name."""
    world.ask(stage(world))
    world.faults.failures_left = 3

    world.ask(abort(world))

    assert world.faults.failures_left == 0
    assert nothing_is_staged_after_a_crash(world)


def test_a_second_abort_is_answered_when_the_store_has_the_first(world: World) -> None:
    world.ask(stage(world))
    world.pace.slow_left = 1
    world.loop.create_task(abort(world))
    world.advance(A_MOMENT_US)

    world.ask(abort(world))

    assert nothing_is_staged_after_a_crash(world)


@pytest.mark.parametrize("count", [1, 2])
def test_an_abort_takes_along_what_is_on_its_way_to_the_store(world: World, count: int) -> None:
    world.pace.slow_left = 1
    staging = world.loop.create_task(stage(world))
    world.advance(A_MOMENT_US)

    for _ in range(count):
        world.ask(abort(world))

    assert isinstance(staging.exception(), StagingRefused)
    assert nothing_is_staged_after_a_crash(world)
