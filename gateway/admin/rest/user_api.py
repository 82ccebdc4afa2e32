"""What the operations on users do."""

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.requests import json_object, made_answer, path_name, view_answer, view_json
from sluicegate.gateway.operations.interface import NodePort
from sluicegate.gateway.views.user_views import UsersView


class UserApi:
    """The operations, by the ids of `gateway.admin.rest.user_operations`."""

    def __init__(self, node: NodePort) -> None:
        self._node = node

    async def users(self, request: Request) -> Response:
        """Every user."""
        return view_answer(UsersView(await self._node.list_users()))

    async def show_user(self, request: Request) -> Response:
        """One user."""
        return view_answer(await self._node.show_user(path_name(request)))

    async def create_user(self, request: Request) -> Response:
        """Make a user from the body."""
        view = await self._node.create_user(await json_object(request))
        return made_answer(request, view.name, view_json(view))

    async def update_user(self, request: Request) -> Response:
        """Change what the body names."""
        view = await self._node.update_user(path_name(request), await json_object(request))
        return view_answer(view)

    async def delete_user(self, request: Request) -> Response:
        """Delete a user."""
        await self._node.delete_user(path_name(request))
        return Response(status_code=204)
