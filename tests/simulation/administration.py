"""Requests of operators to the node, one after another."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from simulation.judge.targets import PARTITIONED
from simulation.scenario import SPARE, TEMPORARY
from simulation.steps import Step
from simulation.world import World
from sluicegate.actors.messages.operations import COPY, DELETE, MOVE
from sluicegate.gateway.views.errors import QueueAlreadyExists, QueueNotFound, Refused
from sluicegate.gateway.views.queues.selections import MessageSelection, ReplayStart
from sluicegate.messaging.queues.message_filter import SEQUENCE_MAX
from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE

LIMITS = (0, 1, 3)
PARTITION_COUNTS = (1, 2, 3, 4, 6, 8)
MOVED_MAX = 20  # messages of one request


def _queue(world: World, step: Step, kind: str = "") -> str | None:
    """Return a queue that is there; of a kind, if one is given."""
    world.finish_admin()
    targets = world.truth.targets
    there = [name for name in world.scenario.names if name in targets and kind in ("", targets[name].kind)]
    return there[step.what % len(there)] if there else None


def _purge(world: World, step: Step) -> None:
    name = _queue(world, step)
    if name is None:
        return
    purge = [world.truth.next_tick(), 0]
    world.truth.targets[name].purges.append(purge)

    def done() -> None:
        purge[1] = world.truth.next_tick()

    world.administer(if_there(name, world.view.purge_queue(name)), done)


def _delete(world: World, step: Step) -> None:
    name = _queue(world, step)
    if name is not None:
        world.truth.ends(name)
        world.administer(if_there(name, world.view.delete_queue(name)), lambda: None)


def _move(world: World, step: Step) -> None:
    """Move, copy or delete a few of a queue's oldest messages."""
    name = _queue(world, step)
    if name is None or name in (SPARE, DEAD_MESSAGE_QUEUE) or SPARE not in world.truth.targets:
        return
    deed = (MOVE, MOVE, COPY, DELETE)[step.amount % 4]
    target = world.truth.targets[name]
    done = [world.truth.next_tick(), 0]
    (target.purges if deed == DELETE else target.moves).append(done)
    to = "" if deed == DELETE else SPARE
    selection = MessageSelection(to=to, limit=1 + step.who % MOVED_MAX)

    async def take() -> None:
        with suppress(Refused, QueueNotFound):
            await world.view.take_messages(name, deed, selection)
        done[1] = world.truth.next_tick()

    world.administer(take(), lambda: None)


async def if_there(name: str, request: Coroutine[Any, Any, object]) -> None:
    """Carry out a request for a queue; the temporary one may have come to its end."""
    try:
        await request
    except QueueNotFound:
        if name != TEMPORARY:
            raise


def _create(world: World, step: Step) -> None:
    world.finish_admin()
    missing = [name for name in world.scenario.names if name not in world.truth.targets]
    if not missing:
        return
    name = missing[step.what % len(missing)]

    asked = world.scenario.definition(name).to_dict()

    async def create() -> None:
        is_new = True
        try:
            await world.view.create_queue(asked, durable=name != TEMPORARY)
        except QueueAlreadyExists:  # its deletion was begun, and a power failure came first; or a consumer asked for it
            is_new = False
        except Refused:
            return
        target = world.begins(name)
        if not is_new:
            target.unordered_until = target.since_tick  # some of what it holds has come, unseen, and may come again

    world.administer(create(), lambda: None)


def _ingress(world: World, step: Step) -> None:
    name = _queue(world, step)
    if name is None:
        return
    enabled = step.amount % 2 == 0
    if not enabled:
        world.truth.outage(name, True)
    _update(world, name, {"ingress_enabled": enabled}, lambda: world.truth.outage(name, not enabled))


def _egress(world: World, step: Step) -> None:
    name = _queue(world, step)
    if name is not None:
        target = world.truth.targets[name]
        target.flow_cuts += 1

        def done() -> None:
            target.flow_cuts += 1

        _update(world, name, {"egress_enabled": step.amount % 2 == 0}, done)


def _limit(world: World, step: Step) -> None:
    name = _queue(world, step)
    if name is not None:
        limit = LIMITS[step.amount % len(LIMITS)]
        world.truth.limits(name, limit)

        def refused() -> None:  # whatever was in force before still is
            if name in world.truth.targets:
                world.truth.limits(name, 0)

        _update(world, name, {"max_redelivery_count": limit}, lambda: None, refused)


def _replay(world: World, step: Step) -> None:
    """Offer what a queue keeps again. What its consumers hold is taken back."""
    name = _queue(world, step)
    if name is None or "retention_time_s" not in world.scenario.queues[name].attributes:
        return
    target = world.truth.targets[name]
    world.truth.replays(target)

    async def replay() -> None:
        try:
            await world.view.replay_queue(name, ReplayStart(), end=SEQUENCE_MAX, partition=None)
        except (Refused, QueueNotFound):
            pass
        finally:
            world.truth.replays(target)

    world.administer(replay(), lambda: None)


def _rescale(world: World, step: Step) -> None:
    """Change the number of partitions; now and then to or from none, for which the queue has to stand still."""
    name = _queue(world, step, PARTITIONED)
    if name is None:
        return
    count = PARTITION_COUNTS[step.amount % len(PARTITION_COUNTS)]
    if step.who % 4:
        _update(world, name, {"partition_count": count}, lambda: None)  # refused while there are none
        return
    count *= step.who % 8 // 4
    world.truth.unordered(name, begins=True)
    target = world.truth.targets[name]
    target.flow_cuts += 1

    async def update() -> None:
        in_turn: tuple[dict[str, object], ...] = (
            {"egress_enabled": False},
            {"partition_count": count},
            {"egress_enabled": True},
        )
        try:
            for changes in in_turn:
                await world.change(name, changes)
        except (Refused, QueueNotFound):
            return
        finally:
            target.flow_cuts += 1
        world.truth.unordered(name, begins=count == 0)

    world.administer(update(), lambda: None)


def _update(
    world: World,
    name: str,
    changes: dict[str, object],
    done: Callable[[], None],
    refused: Callable[[], None] = lambda: None,
) -> None:
    async def update() -> None:
        try:
            await world.change(name, changes)
        except (Refused, QueueNotFound):
            refused()
            return
        done()

    world.administer(update(), lambda: None)


ADMINISTRATORS: Final[dict[str, Callable[[World, Step], None]]] = {
    "purge": _purge,
    "move": _move,
    "delete": _delete,
    "create": _create,
    "ingress": _ingress,
    "egress": _egress,
    "limit": _limit,
    "replay": _replay,
    "rescale": _rescale,
}
