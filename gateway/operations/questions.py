"""What operators ask about queues of neighbor brokers, asked over the links to these.

Questions read only. An answer is a view as JSON, as the admin port gives it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from sluicegate.gateway.views.explanations import KeyExplanation
from sluicegate.gateway.views.queues import QueueView
from sluicegate.protocols.network.neighbor import Neighbor
from sluicegate.protocols.network.queues.questions import QuestionFailed

QUEUE: Final = "queue"  # its name
KEY: Final = "key"  # a queue, and a key of it

View = TypeVar("View", QueueView, KeyExplanation)


async def ask_home(
    neighbors: Mapping[str, Neighbor], vpn: MessageVpn, view: type[View], what: str, queue: str, *names: str
) -> View:
    """Return what the broker that has a queue says of it. Raises QueueNotFound and Refused."""
    home = vpn.space.queue_home(queue)
    if home is None:
        raise QueueNotFound(queue)
    broker = home.output.neighbor
    neighbor = neighbors.get(broker)
    for each in () if neighbor is None else neighbor.vpns:
        if each.vpn.name == vpn.name:
            try:
                answer = await each.questions.ask(what, [queue, *names])
                found: View = TypeAdapter(view).validate_json(answer)
            except QuestionFailed as failed:
                raise Refused(f"queue {queue!r} is at broker {broker}: {failed}") from None
            except ValidationError:
                text = f"queue {queue!r} is at broker {broker}, whose answer this release does not read: ask there"
                raise Refused(text) from None
            return replace(found, broker=broker)
    raise Refused(f"queue {queue!r} is at broker {broker}, to which there is no link now")
