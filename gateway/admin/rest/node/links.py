"""Operations on links to neighbor brokers. They are of the node: an account needs its access level there."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.operation import (
    BAD_BODY,
    INVALID_PARAMETER,
    PROBLEM,
    REFUSED,
    Answer,
    Operations,
    TextParameter,
)
from sluicegate.gateway.admin.problems import permit
from sluicegate.gateway.admin.requests import json_object, made_answer, path_name, text, view_answer, view_json
from sluicegate.gateway.admin.rest.schemas import changes_of, section_body
from sluicegate.gateway.config.sections.admin import AccessLevel
from sluicegate.gateway.config.sections.links import NamedLink
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.links import LinksView, LinkView
from sluicegate.messaging.queues.definition import QueueInvalid

LINKS: Final = Operations()

BODY: Final = section_body("Link", NamedLink)
FORCE: Final = TextParameter("force", "true: also if messages wait for it; they are lost; default: false", 5)
VPN: Final = TextParameter("vpn", "only in this message VPN, which the link to the neighbor does not have", 32)
TRUTHS: Final = {"true": True, "false": False}
NO_LINK: Final = Answer(404, "No link to a broker of that name exists", PROBLEM)


@LINKS.operation("GET", "/links", Answer(200, "By name of the neighbor", LinksView), of_vpn=False)
async def list_links(node: NodeInterface, request: Request) -> Response:
    """Links to other brokers of the network: whether each is up, why not, and what crosses it."""
    return view_answer(await node.list_links())


@LINKS.operation(
    "POST",
    "/links",
    Answer(201, "Created; `Location` has its path", LinkView),
    Answer(409, "The name is taken, or a file that it names cannot be used", PROBLEM),
    *BAD_BODY,
    body=BODY,
    of_vpn=False,
)
async def create_link(node: NodeInterface, request: Request) -> Response:
    """Create a link to a neighbor broker; it survives restarts."""
    view = await node.create_link(await _permitted(request))
    return made_answer(request, view.name, view_json(view))


@LINKS.operation("GET", "/links/{name}", Answer(200, "The link", LinkView), NO_LINK, of_vpn=False)
async def show_link(node: NodeInterface, request: Request) -> Response:
    """One link: its definition, its state, and what crosses it."""
    return view_answer(await node.show_link(path_name(request)))


@LINKS.operation(
    "PATCH",
    "/links/{name}",
    Answer(200, "As it is now", LinkView),
    NO_LINK,
    REFUSED,
    *BAD_BODY,
    body=changes_of(BODY),
    of_vpn=False,
)
async def update_link(node: NodeInterface, request: Request) -> Response:
    """Change a link that an operator created; it begins anew. Lists are replaced as a whole."""
    return view_answer(await node.update_link(path_name(request), await _permitted(request)))


@LINKS.operation("DELETE", "/links/{name}", Answer(204, "Deleted"), NO_LINK, REFUSED, of_vpn=False)
async def delete_link(node: NodeInterface, request: Request) -> Response:
    """Delete a link that an operator created."""
    await node.delete_link(path_name(request))
    return Response(status_code=204)


@LINKS.operation(
    "DELETE",
    "/neighbors/{name}",
    Answer(204, "Forgotten"),
    NO_LINK,
    REFUSED,
    INVALID_PARAMETER,
    parameters=(FORCE, VPN),
    of_vpn=False,
)
async def forget_neighbor(node: NodeInterface, request: Request) -> Response:
    """Delete what is kept for a neighbor broker that has no link; messages must not wait for it, unless forced.

    With `vpn`, what is kept in a message VPN that the link does not have, or no longer.
    """
    given = text(request, FORCE) or "false"
    if given not in TRUTHS:
        raise QueueInvalid(FORCE.name, f"{given!r} is not allowed", ", ".join(TRUTHS))
    await node.forget_neighbor(path_name(request), vpn=text(request, VPN) or "", force=TRUTHS[given])
    return Response(status_code=204)


async def _permitted(request: Request) -> dict[str, object]:
    """Return the body. If it names files of the node, the account must be an admin: they are read and sent away."""
    body = await json_object(request)
    if any(key.endswith("_file") and value is not None for key, value in body.items()):
        permit(request, request.state.operation, AccessLevel.ADMIN)
    return body
