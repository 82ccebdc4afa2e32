"""What the operations on REST delivery points do."""

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.permission import permit
from sluicegate.gateway.admin.requests import json_object, made_answer, path_name, view_answer, view_json
from sluicegate.gateway.config.sections.security.access_levels import AccessLevel
from sluicegate.gateway.operations.interface import NodePort
from sluicegate.gateway.views.rest import RestDeliveryPointsView


class RestApi:
    """The operations, by the ids of `gateway.admin.rest.rest_operations`."""

    def __init__(self, node: NodePort) -> None:
        self._node = node

    async def rest_delivery_points(self, request: Request) -> Response:
        """Every REST delivery point."""
        return view_answer(RestDeliveryPointsView(await self._node.list_rest_delivery_points()))

    async def show_rest_delivery_point(self, request: Request) -> Response:
        """One REST delivery point."""
        return view_answer(await self._node.show_rest_delivery_point(path_name(request)))

    async def create_rest_delivery_point(self, request: Request) -> Response:
        """Make a REST delivery point from the body."""
        view = await self._node.create_rest_delivery_point(await _permitted(request))
        return made_answer(request, view.name, view_json(view))

    async def update_rest_delivery_point(self, request: Request) -> Response:
        """Change what the body names."""
        view = await self._node.update_rest_delivery_point(path_name(request), await _permitted(request))
        return view_answer(view)

    async def delete_rest_delivery_point(self, request: Request) -> Response:
        """Delete a REST delivery point."""
        await self._node.delete_rest_delivery_point(path_name(request))
        return Response(status_code=204)


async def _permitted(request: Request) -> dict[str, object]:
    """Return the body. What it says of files of the node takes an admin: they are read, and sent to where it says."""
    body = await json_object(request)
    consumers = body.get("rest_consumers")
    given = [each for each in consumers if isinstance(each, dict)] if isinstance(consumers, list) else []
    if any(key.endswith("_file") and value is not None for each in given for key, value in each.items()):
        permit(request, request.state.operation, AccessLevel.ADMIN)
    return body
