"""What the operations on users do."""

from typing import Final
from urllib.parse import quote

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from gateway.admin.requests import json_answer, json_object, path_name
from gateway.ports import NodePort
from gateway.user_views import UsersView, UserView

USER: Final = TypeAdapter(UserView)
USERS: Final = TypeAdapter(UsersView)


class UserApi:
    """The operations, by the ids of `gateway.admin.user_operations`."""

    def __init__(self, node: NodePort) -> None:
        self._node = node

    async def users(self, request: Request) -> Response:
        """Every user."""
        return json_answer(USERS.dump_json(UsersView(await self._node.list_users())))

    async def show_user(self, request: Request) -> Response:
        """One user."""
        return json_answer(USER.dump_json(await self._node.show_user(path_name(request))))

    async def create_user(self, request: Request) -> Response:
        """Make a user from the body."""
        view = await self._node.create_user(await json_object(request))
        response = json_answer(USER.dump_json(view), status=201)
        response.headers["Location"] = f"/users/{quote(view.name, safe='')}"
        return response

    async def update_user(self, request: Request) -> Response:
        """Change what the body names."""
        view = await self._node.update_user(path_name(request), await json_object(request))
        return json_answer(USER.dump_json(view))

    async def delete_user(self, request: Request) -> Response:
        """Delete a user."""
        await self._node.delete_user(path_name(request))
        return Response(status_code=204)
