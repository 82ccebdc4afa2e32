"""What the operations on client profiles and ACL profiles do."""

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.requests import json_answer, json_object, made_answer, path_name, view_answer
from sluicegate.gateway.operations.interface import NodePort
from sluicegate.gateway.views.accounts import ProfileKind


class ProfileApi:
    """The operations, by the ids of `gateway.admin.rest.objects_operations`."""

    def __init__(self, node: NodePort) -> None:
        self._node = node

    async def list_profiles(self, request: Request) -> Response:
        """The client and ACL profiles."""
        return view_answer(await self._node.list_profiles())

    async def create_client_profile(self, request: Request) -> Response:
        """Make a client profile from the body."""
        return await self._create(ProfileKind.CLIENT, request)

    async def show_client_profile(self, request: Request) -> Response:
        """One client profile."""
        return await self._show(ProfileKind.CLIENT, request)

    async def update_client_profile(self, request: Request) -> Response:
        """Change what the body names."""
        return await self._update(ProfileKind.CLIENT, request)

    async def delete_client_profile(self, request: Request) -> Response:
        """Delete a client profile."""
        return await self._delete(ProfileKind.CLIENT, request)

    async def create_acl_profile(self, request: Request) -> Response:
        """Make an ACL profile from the body."""
        return await self._create(ProfileKind.ACL, request)

    async def show_acl_profile(self, request: Request) -> Response:
        """One ACL profile."""
        return await self._show(ProfileKind.ACL, request)

    async def update_acl_profile(self, request: Request) -> Response:
        """Change what the body names."""
        return await self._update(ProfileKind.ACL, request)

    async def delete_acl_profile(self, request: Request) -> Response:
        """Delete an ACL profile."""
        return await self._delete(ProfileKind.ACL, request)

    async def _create(self, kind: ProfileKind, request: Request) -> Response:
        view = await self._node.create_profile(kind, await json_object(request))
        return made_answer(request, view.name, view.model_dump_json().encode())

    async def _show(self, kind: ProfileKind, request: Request) -> Response:
        view = await self._node.show_profile(kind, path_name(request))
        return json_answer(view.model_dump_json().encode())

    async def _update(self, kind: ProfileKind, request: Request) -> Response:
        view = await self._node.update_profile(kind, path_name(request), await json_object(request))
        return json_answer(view.model_dump_json().encode())

    async def _delete(self, kind: ProfileKind, request: Request) -> Response:
        await self._node.delete_profile(kind, path_name(request))
        return Response(status_code=204)
