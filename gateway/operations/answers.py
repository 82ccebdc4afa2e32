"""Answers to operators of neighbor brokers about queues of this one: what its own operators are shown, as JSON.

No question goes further than one link: a queue of another neighbor is not found.
"""

from typing import Any

from pydantic import TypeAdapter

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.operations.questions import KEY, QUEUE
from sluicegate.gateway.views.errors import NotFound, Refused


async def answer(operations: NodeOperations, vpn: str, what: str, names: list[str]) -> tuple[str, str]:
    """Return the answer to a question of a neighbor about a queue here, and why there is none; one is empty."""
    view: Any
    try:
        here = operations.in_vpn(vpn)
        if what == QUEUE and len(names) == 1:
            view = await here.show_queue_here(names[0])
        elif what == KEY and len(names) == 2:
            view = await here.explain_key_here(names[0], names[1])
        else:
            return "", f"the broker is of a release that cannot say this of a queue: {what!r:.100}"
    except (NotFound, Refused) as error:
        return "", str(error)
    return TypeAdapter(type(view)).dump_json(view).decode(), ""
