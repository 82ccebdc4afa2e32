"""Operations on bridges to foreign brokers.

A bridge sends messages to any host, with secrets from files of the node: only admins make and change them.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.operation import BAD_BODY, PROBLEM, REFUSED, Answer, Operations
from sluicegate.gateway.admin.requests import json_object, made_answer, path_name, view_answer, view_json
from sluicegate.gateway.admin.rest.schemas import changes_of, section_body
from sluicegate.gateway.config.sections.admin import AccessLevel
from sluicegate.gateway.config.sections.message_vpns.bridges import Bridge
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.bridges import BridgesView, BridgeView

BRIDGES: Final = Operations()

BODY: Final = section_body("Bridge", Bridge)
NO_BRIDGE: Final = Answer(404, "No bridge has that name", PROBLEM)
NOT_RUNNING: Final = Answer(409, "The bridge is disabled, or cannot be started", PROBLEM)
AS_IT_IS: Final = Answer(200, "As it is now", BridgeView)


@BRIDGES.operation("GET", "/bridges", Answer(200, "By name", BridgesView))
async def bridges(node: NodeInterface, request: Request) -> Response:
    """Bridges to foreign brokers: whether each is connected, why not, and what its rules have carried and dropped."""
    return view_answer(BridgesView(await node.list_bridges()))


@BRIDGES.operation(
    "POST",
    "/bridges",
    Answer(201, "Created; `Location` has its path", BridgeView),
    Answer(409, "The name is taken, or a file that it names cannot be used", PROBLEM),
    *BAD_BODY,
    body=BODY,
    level=AccessLevel.ADMIN,
)
async def create_bridge(node: NodeInterface, request: Request) -> Response:
    """Create a bridge, and start it."""
    view = await node.create_bridge(await json_object(request))
    return made_answer(request, view.name, view_json(view))


@BRIDGES.operation("GET", "/bridges/{name}", Answer(200, "The bridge", BridgeView), NO_BRIDGE)
async def show_bridge(node: NodeInterface, request: Request) -> Response:
    """One bridge: its definition, its state, and what its rules have carried and dropped."""
    return view_answer(await node.show_bridge(path_name(request)))


@BRIDGES.operation(
    "PATCH",
    "/bridges/{name}",
    AS_IT_IS,
    NO_BRIDGE,
    REFUSED,
    *BAD_BODY,
    body=changes_of(BODY),
    level=AccessLevel.ADMIN,
)
async def update_bridge(node: NodeInterface, request: Request) -> Response:
    """Change a bridge that an operator created, and restart it; lists are replaced as a whole."""
    return view_answer(await node.update_bridge(path_name(request), await json_object(request)))


@BRIDGES.operation("DELETE", "/bridges/{name}", Answer(204, "Deleted"), NO_BRIDGE, REFUSED, level=AccessLevel.ADMIN)
async def delete_bridge(node: NodeInterface, request: Request) -> Response:
    """Delete a bridge that an operator created; the messages it holds return to their queues."""
    await node.delete_bridge(path_name(request))
    return Response(status_code=204)


@BRIDGES.operation("POST", "/bridges/{name}/pause", AS_IT_IS, NO_BRIDGE, NOT_RUNNING)
async def pause_bridge(node: NodeInterface, request: Request) -> Response:
    """Disconnect a bridge, configured or not, until it is resumed or the node restarts."""
    return view_answer(await node.pause_bridge(path_name(request)))


@BRIDGES.operation("POST", "/bridges/{name}/resume", AS_IT_IS, NO_BRIDGE, NOT_RUNNING)
async def resume_bridge(node: NodeInterface, request: Request) -> Response:
    """Connect a bridge that is paused, waits to connect again, or has given up."""
    return view_answer(await node.resume_bridge(path_name(request)))
