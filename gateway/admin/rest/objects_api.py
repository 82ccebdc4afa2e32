"""What the operations on client profiles and ACL profiles do."""

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.problems import permit
from sluicegate.gateway.admin.requests import (
    json_answer,
    json_object,
    made_answer,
    path_name,
    text,
    view_answer,
    view_json,
    whole_number,
)
from sluicegate.gateway.admin.rest.objects_operations import QUEUE_NAME_PARAMETER, QUEUES_NUMBERS
from sluicegate.gateway.config.sections.security.access_levels import AccessLevel, AdminAccount
from sluicegate.gateway.operations.interface import NodePort
from sluicegate.gateway.views.accounts import AccountView, ProfileKind, UsersView
from sluicegate.gateway.views.figures import QueuesQuestion
from sluicegate.gateway.views.rest import RestDeliveryPointsView


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


# What the operations for displays do.


class FiguresApi:
    """The operations, by the ids of `gateway.admin.rest.objects_operations`."""

    def __init__(self, node: NodePort) -> None:
        self._node = node

    async def node_figures(self, request: Request) -> Response:
        """Totals of the node."""
        return view_answer(await self._node.node_figures())

    async def queues_figures(self, request: Request) -> Response:
        """A line of numbers for each queue."""
        named, after, limit = (whole_number(request, each) or 0 for each in QUEUES_NUMBERS)
        name = text(request, QUEUE_NAME_PARAMETER) or ""
        question = QueuesQuestion(name=name, is_named_only=bool(named), after=after, limit=limit)
        return view_answer(await self._node.queues_figures(question))


# What the operations on users do.


class UserApi:
    """The operations, by the ids of `gateway.admin.rest.objects_operations`."""

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


# What the operations on REST delivery points do.


class RestApi:
    """The operations, by the ids of `gateway.admin.rest.objects_operations`."""

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


# What the operation on one's own account does.


class AccountApi:
    """The operation, by its id of `gateway.admin.rest.operations`."""

    async def show_account(self, request: Request) -> Response:
        """Who sends this request."""
        account: AdminAccount = request.state.account
        view = AccountView(
            name=account.name,
            global_access_level=account.global_access_level.word,
            msg_vpn_access_level=account.level_in(request.state.vpn).word,
        )
        return view_answer(view)
