"""SEMP on the admin port: a route for each path of its tables of operations, and its answers to whatever goes wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache, partial
from typing import Final
from urllib.parse import unquote

import orjson
from pykka import ActorDeadError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.gateway.admin.problems import (
    ANSWER_TIMEOUT_S,
    GONE,
    READ_ONLY_METHODS,
    NotPermitted,
    Unacceptable,
    permit,
    unanswered,
)
from sluicegate.gateway.admin.requests import json_answer, path_name
from sluicegate.gateway.admin.semp.actions import ACTIONS
from sluicegate.gateway.admin.semp.envelope import BASE, ROOT, Api, Asked, Document, Performing, SempOperation, refused
from sluicegate.gateway.admin.semp.errors import (
    NOT_FOUND,
    UNAUTHORIZED,
    SempError,
    already_exists,
    invalid_parameter,
    not_allowed,
    not_found,
)
from sluicegate.gateway.admin.semp.messages import MESSAGES
from sluicegate.gateway.admin.semp.openapi import document
from sluicegate.gateway.admin.semp.read import reading
from sluicegate.gateway.admin.semp.resources import CONFIGURED, MONITORED, VPNS
from sluicegate.gateway.admin.semp.write import CHANGED, changing
from sluicegate.gateway.admin.versions import PATH_OF_KIND, alone, check_tag, is_conditional, tag_of
from sluicegate.gateway.build import VERSION
from sluicegate.gateway.config.sections.admin import AccessLevel
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.errors import AlreadyExists, NotFound, Refused
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.definition import QueueInvalid

SEMP_VERSION: Final = "2.40"  # of the names of attributes
PLATFORM: Final = "Sluicegate"

ABOUT: Final = "/about/api"
SPEC: Final = "/spec"
VPN: Final = "msgVpnName"  # in the path of what belongs to a message VPN

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

OPERATIONS: Final[dict[Api, tuple[SempOperation, ...]]] = {
    "monitor": (*MESSAGES, *(operation for each in MONITORED for operation in reading(each))),
    "config": (
        *(operation for each in CONFIGURED for operation in reading(each.as_configured())),
        *(operation for each, verbs in CHANGED for operation in changing(each.as_configured(), verbs)),
    ),
    "action": ACTIONS,
}

Endpoint = Callable[[Request], Awaitable[Response]]


def semp_routes(node: NodeInterface) -> list[Route]:
    """Return the routes of SEMP; what is at none of its paths is told in its words too."""
    routes = []
    kinds = {each.object_path: each.kind.kind for each, _ in CHANGED}
    parts = {
        path: kinds[each.path.rpartition("/")[0]]
        for each, _ in CHANGED
        if each.kind.kind not in PATH_OF_KIND
        for path in (each.path, each.object_path)
    }
    for api, operations in OPERATIONS.items():
        by_path: dict[str, dict[str, Performing]] = {ABOUT: {"GET": _about}, SPEC: {"GET": _spec_of(api)}}
        for each in operations:
            by_path.setdefault(each.path, {})[each.method] = each.perform
        for path, methods in by_path.items():
            to_read = AccessLevel.NONE if path in (ABOUT, SPEC) else AccessLevel.READ_ONLY
            kind, whole = (kinds.get(path, ""), parts.get(path, "")) if api == "config" else ("", "")
            changes_node = path == VPNS.object_path
            endpoint = _endpoint(
                node, f"semp_{api}", methods, to_read, changes_node=changes_node, kind=kind, whole=whole
            )
            routes.append(Route(f"{BASE}/{api}{path}", endpoint, methods=METHODS))
    nothing = _endpoint(node, "semp", dict.fromkeys(METHODS, _nothing), AccessLevel.NONE)
    routes.append(Route(ROOT + "{rest:path}", nothing, methods=METHODS))
    return routes


def _endpoint(
    node: NodeInterface,
    name: str,
    methods: dict[str, Performing],
    to_read: AccessLevel,
    *,
    changes_node: bool = False,
    kind: str = "",
    whole: str = "",
) -> Endpoint:
    """Return what answers at a path whose operations the audit log calls by this name.

    `kind`: that of the one object whose configuration this is, if it can be changed. `whole`: that of the object it is
    a part of. With `changes_node`, changes need the access level in the node: a message VPN is no part of itself.
    """

    async def endpoint(request: Request) -> Response:
        asked = Asked(request.method, str(request.url))
        perform = methods.get("GET" if request.method == "HEAD" else request.method)
        if perform is None:
            allowed = ", ".join(methods)
            wrong = not_allowed(f"{request.method} is not possible here; possible: {allowed}", http_status=405)
            return refused(asked, wrong, {"Allow": allowed})
        try:
            vpn = path_name(request, VPN) if VPN in request.path_params else None
            if request.method in READ_ONLY_METHODS:
                permit(request, name, to_read, vpn)
            else:
                permit(request, name, AccessLevel.READ_WRITE, None if changes_node else vpn)
                request.state.vpn = vpn or request.state.vpn  # for the audit
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                if whole and request.method not in READ_ONLY_METHODS:
                    return await _with_whole(whole, perform, node, request, asked)
                path = PATH_OF_KIND.get(kind)
                if path is None or perform is methods.get("POST"):
                    return json_answer(orjson.dumps(await perform(node, request, asked)))
                return await _with_tag(path, methods["GET"], perform, node, request, asked)
        except SempError as error:
            return refused(asked, error)
        except NotFound as absent:
            return refused(asked, not_found(f"{absent.kind} {absent.name!r}"))
        except AlreadyExists as present:
            return refused(asked, already_exists(str(present)))
        except Refused as refusal:
            return refused(asked, not_allowed(refusal.reason))
        except StoreRefused as not_stored:
            return refused(asked, not_allowed(str(not_stored), http_status=503))
        except QueueInvalid as wrong:
            return refused(asked, invalid_parameter(str(wrong)))
        except NotPermitted as beyond:
            return refused(asked, SempError(*UNAUTHORIZED, beyond.detail, http_status=beyond.status))
        except Unacceptable as wrong_form:
            invalid = invalid_parameter(wrong_form.detail, http_status=wrong_form.status)
            return refused(asked, invalid, wrong_form.headers)
        except ActorDeadError:
            return refused(asked, not_allowed(GONE, http_status=503))
        except TimeoutError:
            return refused(asked, not_allowed(unanswered(request), http_status=503))

    return endpoint


async def _with_whole(kind: str, perform: Performing, node: NodeInterface, request: Request, asked: Asked) -> Response:
    """Carry out a change of what is among the settings of an object of a kind; see `versions`."""
    above, name, *_ = map(unquote, request.path_params.values())
    async with alone(PATH_OF_KIND[kind], above, name):
        return json_answer(orjson.dumps(await perform(node, request, asked)))


async def _with_tag(
    path: str, read: Performing, perform: Performing, node: NodeInterface, request: Request, asked: Asked
) -> Response:
    """Carry out an operation on the configuration of one object, and say which settings it has then; see `versions`."""

    async def tag() -> str:  # of all settings, whatever the request selects
        whole = Request({**request.scope, "query_string": b""}, request.receive)
        return tag_of((await read(node, whole, Asked("GET", asked.uri)))["data"])

    if perform is read:
        return _tagged(await perform(node, request, asked), await tag())
    *_, name = request.path_params.values()
    async with alone(path, unquote(request.path_params.get(VPN, DEFAULT_VPN)), unquote(name)):
        if is_conditional(request):
            check_tag(request, await tag())
        document = await perform(node, request, asked)
        return _tagged(document, "" if request.method == "DELETE" else await tag())


def _tagged(document: Document, tag: str) -> Response:
    response = json_answer(orjson.dumps(document))
    if tag:
        response.headers["ETag"] = tag
    return response


async def _about(node: NodeInterface, request: Request, asked: Asked) -> Document:
    """What this is; clients look at it before they ask for more."""
    meta = {"request": {"method": asked.method, "uri": asked.uri}, "responseCode": 200}
    data = {"platform": PLATFORM, "sempVersion": SEMP_VERSION, "release": VERSION}
    return {"data": data, "links": {"uri": asked.path}, "meta": meta}


def _spec_of(api: Api) -> Performing:
    made = cache(partial(document, api, OPERATIONS[api]))

    async def spec(node: NodeInterface, request: Request, asked: Asked) -> Document:
        return made()

    return spec


async def _nothing(node: NodeInterface, request: Request, asked: Asked) -> Document:
    allowed = " and ".join(f"{BASE}/{api}/spec" for api in OPERATIONS)
    text = f"{request.url.path} does not exist; {allowed} list the paths"
    raise SempError(*NOT_FOUND, text, http_status=404)
