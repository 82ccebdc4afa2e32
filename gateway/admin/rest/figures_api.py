"""What the operations for displays do."""

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.requests import text, view_answer, whole_number
from sluicegate.gateway.admin.rest.figures_operations import QUEUE_NAME_PARAMETER, QUEUES_NUMBERS
from sluicegate.gateway.operations.interface import NodePort
from sluicegate.gateway.views.figures import QueuesQuestion


class FiguresApi:
    """The operations, by the ids of `gateway.admin.rest.figures_operations`."""

    def __init__(self, node: NodePort) -> None:
        self._node = node

    async def node_figures(self, request: Request) -> Response:
        """Totals of the node."""
        return view_answer(await self._node.node_figures())

    async def queues_figures(self, request: Request) -> Response:
        """A line of numbers for each queue."""
        named, after, limit = (whole_number(request, each) or 0 for each in QUEUES_NUMBERS)
        name = text(request, QUEUE_NAME_PARAMETER) or ""
        question = QueuesQuestion(name=name, is_named_only=bool(named), after=after, limit=limit)
        return view_answer(await self._node.queues_figures(question))
