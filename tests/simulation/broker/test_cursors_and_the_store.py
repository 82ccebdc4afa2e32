"""A durable cursor gets a response when the store has its change, even after a refusal; on virtual time."""

import asyncio

import pytest

from simulation.checks.node_checks import core_of, logs_of, queues_of
from simulation.clients.client import HOLD
from simulation.world import World
from sluicegate.actors.messages.readers import (
    AckCursor,
    BindCursor,
    CursorBound,
    CursorOverview,
    DeleteCursor,
    ListCursors,
    UnbindCursor,
)
from sluicegate.messaging.bulk.durable_cursors import CONSUME, NO_SUCH_CURSOR, NOT_STORED, TAP, CursorRefused

QUEUE, CURSOR = "first", "reader"
A_WHILE_US = 2_000_000


pytestmark = pytest.mark.usefixtures("a_message_waits")


def ask(world: World, message: object) -> object:
    return world.ask(asked(world, message))


def bind(world: World, mode: str = TAP) -> int:
    bound = ask(world, BindCursor(QUEUE, CURSOR, mode, "test"))
    assert isinstance(bound, CursorBound)
    return bound.epoch


def cursors_of(world: World) -> list[CursorOverview]:
    found = ask(world, ListCursors(QUEUE))
    assert isinstance(found, list)
    return found


def cursors_after_a_crash(world: World) -> list[dict[int, int]]:
    """Return, for each cursor on the queue, its positions by partition number."""
    world.power_fails()
    return [{each.number: each.acked for each in cursor.positions} for cursor in cursors_of(world)]


def test_a_deletion_is_answered_when_a_store_that_refuses_has_taken_it(world: World) -> None:
    """A cursor that came back would hold messages for a reader that is no more."""
    bind(world)
    world.faults.failures_left = 3

    ask(world, DeleteCursor(QUEUE, CURSOR))

    assert world.faults.failures_left == 0
    assert cursors_after_a_crash(world) == []


def test_a_second_deletion_is_answered_when_the_store_has_the_first(world: World) -> None:
    bind(world)
    world.faults.failures_left = 3
    world.loop.create_task(asked(world, DeleteCursor(QUEUE, CURSOR)))
    world.advance(1)

    with pytest.raises(CursorRefused) as refused:
        ask(world, DeleteCursor(QUEUE, CURSOR))

    assert refused.value.code == NO_SUCH_CURSOR
    assert cursors_after_a_crash(world) == []


def test_requests_to_a_cursor_that_is_being_deleted_do_not_restore_it(world: World) -> None:
    epoch = bind(world)
    world.faults.failures_left = 1
    deletion = world.loop.create_task(asked(world, DeleteCursor(QUEUE, CURSOR)))
    acknowledgement = world.loop.create_task(asked(world, AckCursor(QUEUE, CURSOR, epoch, {0: 2})))
    world.advance(A_WHILE_US)

    deletion.result()
    with pytest.raises(CursorRefused):
        acknowledgement.result()
    assert cursors_after_a_crash(world) == []


def test_a_cursor_that_is_bound_while_one_of_its_name_is_deleted_is_another_and_stays(world: World) -> None:
    epoch = bind(world)
    ask(world, AckCursor(QUEUE, CURSOR, epoch, {0: 2}))
    world.faults.failures_left = 3
    world.loop.create_task(asked(world, DeleteCursor(QUEUE, CURSOR)))
    world.advance(1)

    bind(world)

    assert cursors_after_a_crash(world) == [{0: 1}]


def test_a_queue_is_free_again_when_the_cursor_that_consumed_it_is_deleted(world: World) -> None:
    bind(world, CONSUME)

    ask(world, DeleteCursor(QUEUE, CURSOR))

    consumer = world.clients["c1"]
    consumer.connect(clean_start=False)
    world.advance(A_WHILE_US)
    consumer.mode = HOLD
    consumer.consume(QUEUE, 1)
    world.advance(A_WHILE_US)
    assert consumer.held


def test_a_cursor_that_the_store_refuses_is_not_there_and_holds_nothing(world: World) -> None:
    """A reader that does not come back would fill a store that is full already."""
    world.faults.failures_left = 1

    with pytest.raises(CursorRefused) as refused:
        bind(world)

    assert refused.value.code == NOT_STORED
    assert cursors_of(world) == []
    (queue,) = [each for each in queues_of(world.node) if each.name == QUEUE]
    assert [dict(log.holds) for log in logs_of(queue)] == [{}]
    bind(world)
    assert cursors_after_a_crash(world) == [{0: 1}]


@pytest.mark.parametrize("rounds", range(6))
@pytest.mark.parametrize("ending", [DeleteCursor(QUEUE, CURSOR), UnbindCursor(QUEUE, CURSOR, 1)])
def test_a_queue_is_reserved_for_the_cursor_that_is_bound_whatever_ends_meanwhile(
    world: World, ending: object, rounds: int
) -> None:
    """The binding before it, or the cursor that had its name: so many rounds of the loop later.

    A deletion that comes later than the cursor was found ends the cursor, and with it the reservation.
    """
    assert bind(world, CONSUME) == 1
    binding = world.loop.create_task(asked(world, BindCursor(QUEUE, CURSOR, CONSUME, "new")))
    world.loop.create_task(asked(world, ending, rounds))
    world.advance(A_WHILE_US)

    (queue,) = [each for each in queues_of(world.node) if each.name == QUEUE]
    cursors = cursors_of(world)
    assert [cursor.bound for cursor in cursors] == [True] * len(cursors)
    assert core_of(queue).reserved_for == (CURSOR if cursors else "")
    if rounds == 0 or isinstance(ending, UnbindCursor):
        assert len(cursors) == 1
    assert binding.exception() is None or not cursors


def test_an_acknowledgement_that_was_refused_is_stored_when_it_comes_again(world: World) -> None:
    epoch = bind(world)
    world.faults.failures_left = 1
    with pytest.raises(CursorRefused) as refused:
        ask(world, AckCursor(QUEUE, CURSOR, epoch, {0: 2}))
    assert refused.value.code == NOT_STORED

    ask(world, AckCursor(QUEUE, CURSOR, epoch, {0: 2}))

    assert cursors_after_a_crash(world) == [{0: 2}]


def test_an_acknowledgement_that_comes_twice_is_answered_when_the_store_has_it(world: World) -> None:
    epoch = bind(world)
    world.pace.slow_left = 1
    world.loop.create_task(asked(world, AckCursor(QUEUE, CURSOR, epoch, {0: 2})))
    world.advance(1)

    ask(world, AckCursor(QUEUE, CURSOR, epoch, {0: 2}))

    assert cursors_after_a_crash(world) == [{0: 2}]


async def asked(world: World, message: object, rounds: int = 0) -> object:
    for _ in range(rounds):
        await asyncio.sleep(0)
    return await world.node.default.cursors.ask(message)
