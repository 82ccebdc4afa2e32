"""Operations on users, client profiles, ACL profiles and REST delivery points."""

from typing import Final

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.operation import (
    BAD_BODY,
    PROBLEM,
    REFUSED,
    Answer,
    JsonSchema,
    NamedSchema,
    Operations,
)
from sluicegate.gateway.admin.problems import permit
from sluicegate.gateway.admin.requests import json_answer, json_object, made_answer, path_name, view_answer, view_json
from sluicegate.gateway.admin.rest.schemas import changes_of, section_body
from sluicegate.gateway.config.sections.admin import AccessLevel
from sluicegate.gateway.config.sections.message_vpns.rest_delivery_points import RestDeliveryPoint, names_files
from sluicegate.gateway.config.sections.security.client_profiles import AclProfileSettings, ClientProfileSettings
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.provisioning.stored_users import PASSWORD_CHARS_MAX, UserRequest
from sluicegate.gateway.views.clients.accounts import (
    AclProfileView,
    ClientProfileView,
    ProfileKind,
    ProfilesView,
    UsersView,
    UserView,
)
from sluicegate.gateway.views.rest import RestDeliveryPointsView, RestDeliveryPointView
from sluicegate.protocols.security.stored_secrets import HASH_CHARS_MAX, HASH_FORMS, SCRAM_FORMS

PROVISIONED: Final = Operations()

CREATED: Final = "Created; `Location` has its path"
TAKEN_OR_FULL: Final = Answer(409, "The name is taken, or the limit of their number is reached", PROBLEM)


# Users.


def _user() -> dict[str, JsonSchema]:
    user = TypeAdapter(UserRequest).json_schema()
    for name, chars_max, description in (
        ("password", PASSWORD_CHARS_MAX, "in plain text; only its hash is stored"),
        ("password_hash", HASH_CHARS_MAX, f"in place of password: {HASH_FORMS}"),
        ("scram_secret", HASH_CHARS_MAX, f"beside password_hash, for SCRAM: {SCRAM_FORMS}"),
    ):
        user["properties"][name] = {
            "type": "string",
            "format": "password",
            "writeOnly": True,
            "minLength": 1,
            "maxLength": chars_max,
            "description": description,
        }
    return {"User": {**user, "required": ["name"]}}


USER: Final = NamedSchema("User", _user)
NO_USER: Final = Answer(404, "No user has that name", PROBLEM)


@PROVISIONED.operation(
    "GET",
    "/users",
    Answer(200, "By name", UsersView),
)
async def users(node: NodeInterface, request: Request) -> Response:
    """Users: the accounts of clients, their origin, and the number of their connections."""
    return view_answer(UsersView(await node.list_users()))


@PROVISIONED.operation(
    "POST",
    "/users",
    Answer(201, CREATED, UserView),
    TAKEN_OR_FULL,
    *BAD_BODY,
    body=USER,
)
async def create_user(node: NodeInterface, request: Request) -> Response:
    """Create a user; of the password only the hash is stored."""
    view = await node.create_user(await json_object(request))
    return made_answer(request, view.name, view_json(view))


@PROVISIONED.operation("GET", "/users/{name}", Answer(200, "The user", UserView), NO_USER)
async def show_user(node: NodeInterface, request: Request) -> Response:
    """One user."""
    return view_answer(await node.show_user(path_name(request)))


@PROVISIONED.operation(
    "PATCH",
    "/users/{name}",
    Answer(200, "As it is now", UserView),
    NO_USER,
    REFUSED,
    *BAD_BODY,
    body=changes_of(USER),
)
async def update_user(node: NodeInterface, request: Request) -> Response:
    """Change a user that an operator created; disabling it disconnects its clients."""
    return view_answer(await node.update_user(path_name(request), await json_object(request)))


@PROVISIONED.operation(
    "DELETE",
    "/users/{name}",
    Answer(204, "Deleted"),
    NO_USER,
    REFUSED,
)
async def delete_user(node: NodeInterface, request: Request) -> Response:
    """Delete a user that an operator created; its clients are disconnected, their sessions and queues stay."""
    await node.delete_user(path_name(request))
    return Response(status_code=204)


# Client profiles and ACL profiles: what the clients of a user may do.


@PROVISIONED.operation("GET", "/profiles", Answer(200, "By name", ProfilesView))
async def list_profiles(node: NodeInterface, request: Request) -> Response:
    """Client profiles and ACL profiles, with their origin."""
    return view_answer(await node.list_profiles())


def _declare_profile(kind: ProfileKind, article: str, words: str, body: NamedSchema, view: type) -> None:
    """Declare the four operations on profiles of a kind."""
    path = f"/{kind.value.replace('_', '-')}s"
    absent = Answer(404, f"No {words} has that name", PROBLEM)

    @PROVISIONED.operation(
        "POST",
        path,
        Answer(201, CREATED, view),
        TAKEN_OR_FULL,
        *BAD_BODY,
        body=body,
        summary=f"Create {article} {words}",
        name=f"create_{kind}",
    )
    async def create(node: NodeInterface, request: Request) -> Response:
        created = await node.create_profile(kind, await json_object(request))
        return made_answer(request, created.name, created.model_dump_json().encode())

    one = f"{path}/{{name}}"

    @PROVISIONED.operation(
        "GET", one, Answer(200, "The profile", view), absent, summary=f"One {words}", name=f"show_{kind}"
    )
    async def show(node: NodeInterface, request: Request) -> Response:
        return json_answer((await node.show_profile(kind, path_name(request))).model_dump_json().encode())

    @PROVISIONED.operation(
        "PATCH",
        one,
        Answer(200, "As it is now", view),
        absent,
        REFUSED,
        *BAD_BODY,
        body=changes_of(body),
        summary=f"Change {article} {words} that an operator created, in force at once; lists are replaced whole",
        name=f"update_{kind}",
    )
    async def update(node: NodeInterface, request: Request) -> Response:
        updated = await node.update_profile(kind, path_name(request), await json_object(request))
        return json_answer(updated.model_dump_json().encode())

    @PROVISIONED.operation(
        "DELETE",
        one,
        Answer(204, "Deleted"),
        absent,
        REFUSED,
        summary=f"Delete {article} {words} that an operator created and no user has",
        name=f"delete_{kind}",
    )
    async def delete(node: NodeInterface, request: Request) -> Response:
        await node.delete_profile(kind, path_name(request))
        return Response(status_code=204)


_declare_profile(
    ProfileKind.CLIENT, "a", "client profile", section_body("ClientProfile", ClientProfileSettings), ClientProfileView
)
_declare_profile(ProfileKind.ACL, "an", "ACL profile", section_body("AclProfile", AclProfileSettings), AclProfileView)


# REST delivery points.

POINT: Final = section_body("RestDeliveryPoint", RestDeliveryPoint)
NO_POINT: Final = Answer(404, "No REST delivery point has that name", PROBLEM)


@PROVISIONED.operation(
    "GET",
    "/rest-delivery-points",
    Answer(200, "By name", RestDeliveryPointsView),
)
async def rest_delivery_points(node: NodeInterface, request: Request) -> Response:
    """REST delivery points: whether each is up, why not, and counts of messages by outcome."""
    return view_answer(RestDeliveryPointsView(await node.list_rest_delivery_points()))


@PROVISIONED.operation(
    "POST",
    "/rest-delivery-points",
    Answer(201, CREATED, RestDeliveryPointView),
    Answer(409, "The name is taken, or a file that it names cannot be used", PROBLEM),
    *BAD_BODY,
    body=POINT,
)
async def create_rest_delivery_point(node: NodeInterface, request: Request) -> Response:
    """Create a REST delivery point, and start it."""
    view = await node.create_rest_delivery_point(await _permitted(request))
    return made_answer(request, view.name, view_json(view))


@PROVISIONED.operation(
    "GET",
    "/rest-delivery-points/{name}",
    Answer(200, "The delivery point", RestDeliveryPointView),
    NO_POINT,
)
async def show_rest_delivery_point(node: NodeInterface, request: Request) -> Response:
    """One REST delivery point: its definition, its state, and counts of messages by outcome."""
    return view_answer(await node.show_rest_delivery_point(path_name(request)))


@PROVISIONED.operation(
    "PATCH",
    "/rest-delivery-points/{name}",
    Answer(200, "As it is now", RestDeliveryPointView),
    NO_POINT,
    REFUSED,
    *BAD_BODY,
    body=changes_of(POINT),
)
async def update_rest_delivery_point(node: NodeInterface, request: Request) -> Response:
    """Change a REST delivery point that an operator created, and restart it; lists are replaced as a whole."""
    return view_answer(await node.update_rest_delivery_point(path_name(request), await _permitted(request)))


@PROVISIONED.operation(
    "DELETE",
    "/rest-delivery-points/{name}",
    Answer(204, "Deleted"),
    NO_POINT,
    REFUSED,
)
async def delete_rest_delivery_point(node: NodeInterface, request: Request) -> Response:
    """Delete a REST delivery point that an operator created; the messages it holds return to their queues."""
    await node.delete_rest_delivery_point(path_name(request))
    return Response(status_code=204)


async def _permitted(request: Request) -> dict[str, object]:
    """Return the body. If it names files of the node, the account must be an admin: they are read and sent away."""
    body = await json_object(request)
    if names_files(body):
        permit(request, request.state.operation, AccessLevel.ADMIN)
    return body
