"""Operations on message VPNs. They are of the node: an account needs its access level there."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.operation import (
    BAD_BODY,
    INVALID_PARAMETER,
    NO_VPN,
    PROBLEM,
    REFUSED,
    Answer,
    Operations,
    TextParameter,
)
from sluicegate.gateway.admin.requests import json_object, made_answer, path_name, truth, view_answer, view_json
from sluicegate.gateway.admin.rest.schemas import changes_of, section_body
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.provisioning.message_vpns import MessageVpnSettings
from sluicegate.gateway.views.clients.message_vpns import MessageVpnsView, MessageVpnView

MESSAGE_VPNS: Final = Operations()

BODY: Final = section_body("MessageVpn", MessageVpnSettings)
NOT_STORED: Final = Answer(503, "The store takes no rows now; `detail` gives the reason", PROBLEM)
FORCE: Final = TextParameter("force", "true: disconnect its clients, and delete all that it has; default: false", 5)


@MESSAGE_VPNS.operation("GET", "/message-vpns", Answer(200, "By name", MessageVpnsView), of_vpn=False)
async def list_message_vpns(node: NodeInterface, request: Request) -> Response:
    """Every message VPN, with its origin, state, usage and settings."""
    return view_answer(await node.list_message_vpns())


@MESSAGE_VPNS.operation(
    "POST",
    "/message-vpns",
    Answer(201, "Created; `Location` has its path", MessageVpnView),
    Answer(409, "The name is taken, or the limit of their number is reached", PROBLEM),
    NOT_STORED,
    *BAD_BODY,
    body=BODY,
    of_vpn=False,
)
async def create_message_vpn(node: NodeInterface, request: Request) -> Response:
    """Create a message VPN; it survives restarts."""
    view = await node.create_message_vpn(await json_object(request))
    return made_answer(request, view.name, view_json(view))


@MESSAGE_VPNS.operation(
    "GET", "/message-vpns/{name}", Answer(200, "The message VPN", MessageVpnView), NO_VPN, of_vpn=False
)
async def show_message_vpn(node: NodeInterface, request: Request) -> Response:
    """One message VPN."""
    return view_answer(await node.show_message_vpn(path_name(request)))


@MESSAGE_VPNS.operation(
    "PATCH",
    "/message-vpns/{name}",
    Answer(200, "As it is now", MessageVpnView),
    NO_VPN,
    REFUSED,
    NOT_STORED,
    *BAD_BODY,
    body=changes_of(BODY),
    of_vpn=False,
)
async def update_message_vpn(node: NodeInterface, request: Request) -> Response:
    """Change settings of a message VPN that is not configured; disabling it disconnects its clients."""
    return view_answer(await node.update_message_vpn(path_name(request), await json_object(request)))


@MESSAGE_VPNS.operation(
    "DELETE",
    "/message-vpns/{name}",
    Answer(204, "Deleted"),
    NO_VPN,
    REFUSED,
    NOT_STORED,
    INVALID_PARAMETER,
    parameters=(FORCE,),
    of_vpn=False,
)
async def delete_message_vpn(node: NodeInterface, request: Request) -> Response:
    """Delete a message VPN that is not configured; it must have no clients, queues or messages, unless forced."""
    await node.delete_message_vpn(path_name(request), force=truth(request, FORCE))
    return Response(status_code=204)
