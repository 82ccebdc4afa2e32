"""Operations on the history of figures: of the node, of a message VPN, of a queue or one of its partitions."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.operation import INVALID_PARAMETER, PROBLEM, Answer, Operations, Parameter
from sluicegate.gateway.admin.requests import path_name, view_answer, whole_number
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.node.history import SPAN_S_DEFAULT, SPAN_S_MAX, HistoryQuery, HistoryView

HISTORY: Final = Operations()

SPAN: Final = Parameter(
    "span_s",
    "seconds back from now; up to 300 in steps of 2 seconds, more of 10",
    1,
    SPAN_S_MAX,
    SPAN_S_DEFAULT,
)
AFTER: Final = Parameter("after_ms", "only steps that end after this time of the wall clock", 0, 2**53 - 1, 0)
PARTITION: Final = Parameter("partition", "number of a partition; without it the whole queue", 0, 2**31 - 1)
FOUND: Final = Answer(200, "Figures by time", HistoryView)


def _question(request: Request) -> HistoryQuery:
    span_s, after_ms = (whole_number(request, each) for each in (SPAN, AFTER))
    return HistoryQuery(span_s=span_s or SPAN_S_DEFAULT, after_ms=after_ms or 0)


@HISTORY.operation("GET", "/history", FOUND, INVALID_PARAMETER, parameters=(SPAN, AFTER), of_vpn=False)
async def node_history(node: NodeInterface, request: Request) -> Response:
    """Figures of the node in the last hour: rates in and out, backlog, latencies, connections, memory."""
    return view_answer(await node.node_history(_question(request)))


@HISTORY.operation("GET", "/history/message-vpn", FOUND, INVALID_PARAMETER, parameters=(SPAN, AFTER))
async def vpn_history(node: NodeInterface, request: Request) -> Response:
    """Figures of a message VPN in the last hour; its messages are those of durable queues."""
    return view_answer(await node.vpn_history(_question(request)))


@HISTORY.operation(
    "GET",
    "/history/queues/{name}",
    FOUND,
    Answer(404, "No queue of this broker has that name", PROBLEM),
    INVALID_PARAMETER,
    parameters=(PARTITION, SPAN, AFTER),
)
async def queue_history(node: NodeInterface, request: Request) -> Response:
    """Figures of a queue in the last hour, as far as they were kept; those of a partition from the first request on."""
    partition = whole_number(request, PARTITION)
    return view_answer(await node.queue_history(path_name(request), _question(request), partition=partition))
