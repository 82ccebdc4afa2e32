"""What operators do to queues of neighbor brokers, which carry it out when they are asked over the links to them.

The operator's rights were checked at the port of this broker. The queue's broker reports each action to its own
operators, with the name of the broker that asked for it.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

import orjson

from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.observability.statistics import ReaderBatch
from sluicegate.gateway.operations.queues.questions import answer_of, home_of
from sluicegate.gateway.views.errors import Refused
from sluicegate.gateway.views.queues.selections import ReplayStart
from sluicegate.protocols.network.link.neighbor import Neighbor

REPLAY: Final = "replay"  # a queue, first sequence, milliseconds since 1970, end, partition (empty: all)
DELETE_CURSOR: Final = "delete-cursor"  # a queue, and a cursor of it
MOVE_QUEUE: Final = "move-queue"  # a queue, the broker that gets it, and DROP_KEPT or nothing
DROP_KEPT: Final = "drop-kept"
CANCEL_MOVE: Final = "cancel-move"  # of a queue
ADD_BATCH: Final = "add-batch"  # a queue, a cursor of it, and what its reader reports, as JSON


async def replay_at_home(
    neighbors: Mapping[str, Neighbor],
    vpn: MessageVpn,
    queue: str,
    start: ReplayStart,
    *,
    end: int,
    partition: int | None,
) -> int:
    """Have a queue of another broker replayed; return how many messages. Raises QueueNotFound and Refused."""
    broker, questions = home_of(neighbors, vpn, queue)
    numbers = [str(start.first), str(start.since_ms), str(end), "" if partition is None else str(partition)]
    answer = await answer_of(questions.act(REPLAY, [queue, *numbers]), queue, broker)
    if not answer.isdecimal():
        raise Refused(
            f"queue {queue!r} is at broker {broker}, whose answer this release does not read: {answer!r:.100}"
        )
    return int(answer)


async def delete_cursor_at_home(neighbors: Mapping[str, Neighbor], vpn: MessageVpn, queue: str, cursor: str) -> None:
    """Have a durable cursor at another broker deleted. Raises QueueNotFound and Refused."""
    broker, questions = home_of(neighbors, vpn, queue)
    await answer_of(questions.act(DELETE_CURSOR, [queue, cursor]), queue, broker)


async def add_batch_at_home(
    neighbors: Mapping[str, Neighbor], vpn: MessageVpn, queue: str, cursor: str, batch: ReaderBatch
) -> None:
    """Have a batch counted where the cursor of its reader is. Raises QueueNotFound and Refused."""
    broker, questions = home_of(neighbors, vpn, queue)
    body = orjson.dumps(asdict(batch)).decode()
    await answer_of(questions.act(ADD_BATCH, [queue, cursor, body]), queue, broker)


async def move_from_home(
    neighbors: Mapping[str, Neighbor], vpn: MessageVpn, queue: str, to: str, *, drop_kept: bool
) -> None:
    """Have a queue of another broker moved from there. Raises QueueNotFound and Refused."""
    broker, questions = home_of(neighbors, vpn, queue)
    await answer_of(questions.act(MOVE_QUEUE, [queue, to, DROP_KEPT if drop_kept else ""]), queue, broker)


async def cancel_move_at_home(neighbors: Mapping[str, Neighbor], vpn: MessageVpn, queue: str) -> None:
    """Have the move of a queue of another broker ended. Raises QueueNotFound and Refused."""
    broker, questions = home_of(neighbors, vpn, queue)
    await answer_of(questions.act(CANCEL_MOVE, [queue]), queue, broker)
