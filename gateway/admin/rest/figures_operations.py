"""The operations that displays ask again and again."""

from typing import Final

from sluicegate.gateway.admin.operation import INVALID_PARAMETER, Answer, Operation, Parameter, TextParameter
from sluicegate.gateway.views.figures import QUEUES_DEFAULT, QUEUES_MAX

QUEUE_NAME_PARAMETER: Final = TextParameter("name", "* is any characters, ? one", 250)
QUEUES_NUMBERS: Final = (
    Parameter("named", "1: without the queues of sessions and shared subscriptions", 0, 1, 0),
    Parameter("after", "queues to pass over", 0, 2**31 - 1, 0),
    Parameter("limit", "most queues to return", 1, QUEUES_MAX, QUEUES_DEFAULT),
)

FIGURES_OPERATIONS: Final = (
    Operation(
        "node_figures",
        "GET",
        "/figures",
        "Totals of the node, by protocol; two answers and the time between them make rates",
        (Answer(200, "Now", "NodeFigures"),),
    ),
    Operation(
        "queues_figures",
        "GET",
        "/figures/queues",
        "A line of numbers for each queue: what waits, what is held, and totals",
        (Answer(200, "A page of queues, by name", "QueuesFigures"), INVALID_PARAMETER),
        parameters=(QUEUE_NAME_PARAMETER, *QUEUES_NUMBERS),
    ),
)
