"""Operations on the two sites of this broker. They are of the node: an account needs its access level there."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.operation import INVALID_PARAMETER, NOT_READY, REFUSED, Answer, Operations, Parameter
from sluicegate.gateway.admin.requests import view_answer, whole_number
from sluicegate.gateway.config.sections.admin import AccessLevel
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.cluster import ReplicationView

REPLICATION: Final = Operations()

ACCEPT_LOSS: Final = Parameter(
    "accept_loss", "1: promote whatever of the log is not at this site; it is lost for clients", 0, 1, 0
)


@REPLICATION.operation(
    "GET", "/replication", Answer(200, "The sites", ReplicationView), REFUSED, NOT_READY, of_vpn=False
)
async def show_replication(node: NodeInterface, request: Request) -> Response:
    """The two sites of this broker: which of them is active, and what the other does not have yet."""
    return view_answer(await node.show_replication())


@REPLICATION.operation(
    "POST",
    "/replication/promote",
    Answer(202, "A replica of this site takes over"),
    REFUSED,
    NOT_READY,
    INVALID_PARAMETER,
    parameters=(ACCEPT_LOSS,),
    of_vpn=False,
    level=AccessLevel.ADMIN,
)
async def promote_site(node: NodeInterface, request: Request) -> Response:
    """Have this site serve, whose log ends with the hand-over of the other one. Ask any replica of it."""
    await node.promote_site(accept_loss=bool(whole_number(request, ACCEPT_LOSS)))
    return Response(status_code=202)


@REPLICATION.operation(
    "POST",
    "/replication/demote",
    Answer(202, "The owner stops, and its last message gives the broker up to the other site"),
    REFUSED,
    NOT_READY,
    of_vpn=False,
    level=AccessLevel.ADMIN,
)
async def demote_site(node: NodeInterface, request: Request) -> Response:
    """Have this site give the broker up to the other one. Any replica of the site may be asked."""
    await node.demote_site()
    return Response(status_code=202)
