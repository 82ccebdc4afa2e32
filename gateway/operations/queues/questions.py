"""What operators ask about queues of neighbor brokers, asked over the links to these.

Questions read only. An answer is a view as JSON, as the admin port gives it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from sluicegate.gateway.views.queues.cursors import CursorView
from sluicegate.gateway.views.queues.explanations import KeyExplanation
from sluicegate.gateway.views.queues.queues import QueueView
from sluicegate.protocols.network.link.neighbor import Neighbor
from sluicegate.protocols.network.queues.questions import QuestionFailed, Questions

QUEUE: Final = "queue"  # its name
KEY: Final = "key"  # a queue, and a key of it
CURSORS: Final = "cursors"  # of a queue

View = TypeVar("View", QueueView, KeyExplanation)
T = TypeVar("T")


async def ask_home(
    neighbors: Mapping[str, Neighbor], vpn: MessageVpn, view: type[View], what: str, queue: str, *names: str
) -> View:
    """Return what the broker that has a queue says of it. Raises QueueNotFound and Refused."""
    broker, questions = home_of(neighbors, vpn, queue)
    answer = await answer_of(questions.ask(what, [queue, *names]), queue, broker)
    return replace(_read(view, answer, queue, broker), broker=broker)


async def ask_cursors(neighbors: Mapping[str, Neighbor], vpn: MessageVpn, queue: str) -> tuple[CursorView, ...]:
    """Return the durable cursors of a queue of another broker. Raises QueueNotFound and Refused."""
    broker, questions = home_of(neighbors, vpn, queue)
    answer = await answer_of(questions.ask(CURSORS, [queue]), queue, broker)
    return _read(tuple[CursorView, ...], answer, queue, broker)


def home_of(neighbors: Mapping[str, Neighbor], vpn: MessageVpn, queue: str) -> tuple[str, Questions]:
    """Return the broker that has a queue, and who asks it. Raises QueueNotFound, and Refused without a link."""
    home = vpn.space.queue_home(queue)
    if home is None:
        raise QueueNotFound(queue)
    broker = home.output.neighbor
    neighbor = neighbors.get(broker)
    for each in () if neighbor is None else neighbor.vpns:
        if each.vpn.name == vpn.name:
            return broker, each.questions
    raise Refused(f"queue {queue!r} is at broker {broker}, to which there is no link now")


async def answer_of(answer: LoopFuture[str], queue: str, broker: str) -> str:
    """Return an answer of the broker that has a queue. Raises Refused."""
    try:
        return await answer
    except QuestionFailed as failed:
        raise Refused(f"queue {queue!r} is at broker {broker}: {failed}") from None


def _read(view: type[T], answer: str, queue: str, broker: str) -> T:
    try:
        found: T = TypeAdapter(view).validate_json(answer)
    except ValidationError:
        text = f"queue {queue!r} is at broker {broker}, whose answer this release does not read: ask there"
        raise Refused(text) from None
    return found
