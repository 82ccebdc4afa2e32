"""What operators of neighbor brokers are answered about queues of this one, and what is done here for them.

An answer is what its own operators are shown, as JSON. No question and no action goes further than one link: a queue of
another neighbor is not found. The neighbor has checked the rights of its operator, and the link here says whether
operators there may change anything. Every action is an event here, which names the neighbor; but for what a reader
reports of each of its batches, which changes no queue.
"""

from typing import Any, Final

import orjson
from pydantic import TypeAdapter

from sluicegate.actors.runtime.events import Events
from sluicegate.gateway.observability.statistics import ReaderBatch
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.operations.queues.actions import (
    ADD_BATCH,
    CANCEL_MOVE,
    DELETE_CURSOR,
    DROP_KEPT,
    MOVE_QUEUE,
    REPLAY,
)
from sluicegate.gateway.operations.queues.questions import CURSORS, KEY, QUEUE
from sluicegate.gateway.views.errors import NotFound, Refused
from sluicegate.gateway.views.queues.cursors import CursorView
from sluicegate.gateway.views.queues.selections import ReplayStart
from sluicegate.messaging.observability.events import SYSTEM_ADMIN_COMMAND
from sluicegate.messaging.queues.definition import QueueInvalid

# As the admin port calls them.
OPERATIONS: Final = {
    REPLAY: "replay_queue",
    DELETE_CURSOR: "delete_cursor",
    MOVE_QUEUE: "move_queue",
    CANCEL_MOVE: "cancel_move",
    ADD_BATCH: "add_batch",
}


async def answer(operations: NodeOperations, vpn: str, what: str, names: list[str]) -> tuple[str, str]:
    """Return the answer to a question of a neighbor about a queue here, and why there is none; one is empty."""
    view: Any
    try:
        here = operations.in_vpn(vpn)
        if what == QUEUE and len(names) == 1:
            view = await here.show_queue_here(names[0])
        elif what == KEY and len(names) == 2:
            view = await here.explain_key_here(names[0], names[1])
        elif what == CURSORS and len(names) == 1:
            cursors = tuple(await here.list_cursors_here(names[0]))
            return TypeAdapter(tuple[CursorView, ...]).dump_json(cursors).decode(), ""
        else:
            return "", f"the broker is of a release that cannot say this of a queue: {what!r:.100}"
    except (NotFound, Refused) as error:
        return "", str(error)
    return TypeAdapter(type(view)).dump_json(view).decode(), ""


async def act(
    operations: NodeOperations, events: Events, neighbor: str, vpn: str, what: str, names: list[str]
) -> tuple[str, str]:
    """Do what a neighbor's operator asks for; return what was done, and why it was not: one is empty."""
    if what not in OPERATIONS or not names:
        return "", f"the broker is of a release that cannot do this to a queue: {what!r:.100}"
    done, error, outcome = "", "", "failed"
    try:
        if what != ADD_BATCH:
            await _check_allowed(operations, neighbor)
        done = await _done(operations.in_vpn(vpn), what, names)
        outcome = f"done ({done})"
    except (NotFound, Refused, QueueInvalid) as refusal:
        error = outcome = str(refusal)
    finally:  # also after a fault, which may have left a part done
        if what != ADD_BATCH:
            _report(events, neighbor, vpn, what, names[0], outcome)
    return done, error


async def _check_allowed(operations: NodeOperations, neighbor: str) -> None:
    """Raise Refused unless the link lets operators of its neighbor change queues here; LinkNotFound: it is gone."""
    link = await operations.show_link(neighbor)
    if not link.definition.allow_operator_actions:
        setting = f"links.{neighbor}.allow_operator_actions is off at its broker"
        raise Refused(f"operators of broker {neighbor} may not change it: {setting}")


def _report(events: Events, neighbor: str, vpn: str, what: str, queue: str, outcome: str) -> None:
    details = {"broker": neighbor, "operation": OPERATIONS[what], "queue": queue, "vpn": vpn, "outcome": outcome}
    text = f"an operator at broker {neighbor!r} asked for {OPERATIONS[what]} of queue {queue!r}: {outcome}"
    events.emit(SYSTEM_ADMIN_COMMAND, text, details=details)


async def _done(here: NodeOperations, what: str, names: list[str]) -> str:
    """Carry out an action; return what was done. Raises NotFound, Refused and QueueInvalid."""
    if what == REPLAY and len(names) == 5 and all(each.isdecimal() or not each for each in names[1:]):
        first, since_ms, end, partition = [int(each) if each else None for each in names[1:]]
        if first is not None and since_ms is not None and end is not None:
            start = ReplayStart(first, since_ms)
            return str(await here.replay_queue_here(names[0], start, end=end, partition=partition))
    elif what == DELETE_CURSOR and len(names) == 2:
        await here.delete_cursor_here(names[0], names[1])
        return f"cursor {names[1]}"
    elif what == MOVE_QUEUE and len(names) == 3 and names[2] in ("", DROP_KEPT):
        await here.move_queue_here(names[0], names[1], drop_kept=bool(names[2]))
        return f"to {names[1]}"
    elif what == CANCEL_MOVE and len(names) == 1:
        await here.cancel_move_here(names[0])
        return "it stays"
    elif what == ADD_BATCH and len(names) == 3:
        await here.add_batch_here(names[0], names[1], _batch_in(names[2]))
        return "counted"
    raise Refused(f"{OPERATIONS[what]} with {names[1:]!r:.200} cannot be read here: do it at this broker")


def _batch_in(text: str) -> ReaderBatch:
    """Return what a reader reports. Raises QueueInvalid, and Refused for what is no JSON object."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise Refused("the report of a batch is no JSON object")
    return ReaderBatch.of_json(found)
