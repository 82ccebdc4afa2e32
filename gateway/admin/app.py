"""The admin application: the table of operations, the router built from it, the guard, and the handling of errors."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Final

import orjson
from pykka import ActorDeadError
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.runtime.events import Events
from sluicegate.gateway.admin.access.guard import Guard
from sluicegate.gateway.admin.access.places import Places
from sluicegate.gateway.admin.access.turnstile import AccountLimits, AnonymousLimits
from sluicegate.gateway.admin.console_files import console_routes
from sluicegate.gateway.admin.operation import PROBED, VPN_PARAMETER, Operation
from sluicegate.gateway.admin.problems import ANSWER_TIMEOUT_S, Unacceptable, answer_error, permit
from sluicegate.gateway.admin.requests import path_name, text
from sluicegate.gateway.admin.rest.node.cluster import CLUSTER
from sluicegate.gateway.admin.rest.node.definitions import DEFINITIONS
from sluicegate.gateway.admin.rest.node.history import HISTORY
from sluicegate.gateway.admin.rest.node.links import LINKS
from sluicegate.gateway.admin.rest.node.message_vpns import MESSAGE_VPNS
from sluicegate.gateway.admin.rest.node.node import NODE
from sluicegate.gateway.admin.rest.node.replication import REPLICATION
from sluicegate.gateway.admin.rest.vpn.bridges import BRIDGES
from sluicegate.gateway.admin.rest.vpn.clients import CLIENTS
from sluicegate.gateway.admin.rest.vpn.messages import MESSAGES
from sluicegate.gateway.admin.rest.vpn.provisioned import PROVISIONED
from sluicegate.gateway.admin.rest.vpn.publishing import PUBLISHING
from sluicegate.gateway.admin.rest.vpn.queues import QUEUES
from sluicegate.gateway.admin.rest.vpn.sessions import SESSIONS
from sluicegate.gateway.admin.semp.routes import semp_routes
from sluicegate.gateway.admin.versions import CHANGES, PARTS, SETTINGS, alone, check_tag, is_conditional, tag_of
from sluicegate.gateway.observability.metrics.exposition import Exposition
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.security.operators import Operators
from sluicegate.gateway.views.errors import AlreadyExists, NotFound, Refused
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.protocols.transport.origins import WebPages

Endpoint = Callable[[Request], Awaitable[Response]]

PARTS_OF_NODE: Final = (NODE, HISTORY, CLUSTER, REPLICATION, MESSAGE_VPNS, DEFINITIONS, LINKS)
# All operations of the admin API.
OPERATIONS: Final = tuple(
    each
    for part in (*PARTS_OF_NODE, QUEUES, MESSAGES, CLIENTS, SESSIONS, PUBLISHING, PROVISIONED, BRIDGES)
    for each in part.all
)

# Expected errors become a response. Any other is a bug: it is answered with 500 and logged with its traceback.
EXPECTED: Final = (
    ActorDeadError,
    AlreadyExists,
    HTTPException,
    NotFound,
    QueueInvalid,
    Refused,
    StoreRefused,
    TimeoutError,
    Unacceptable,
)
HANDLERS: Final = dict.fromkeys((*EXPECTED, Exception), answer_error)

# Browsers must not store the response, guess its type, show it in a frame, or run or load anything from it.
SECURITY_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


def build_app(
    node: NodeInterface,
    *,
    accounts: Operators,
    events: Events,
    queue_label_max: int = 1000,
    pages: WebPages,
    loopback_only: bool = False,
    probes_only: bool = False,
    places: Places,
    body_timeout_s: float,
) -> ASGIApp:
    """Return the admin application over a node, or with `probes_only` only the paths that need no account.

    `pages` decides which web pages may use it. `loopback_only`: it is bound to a loopback address. `events` receives
    changes and refused logins. `places` limits concurrent requests. A body has to arrive within `body_timeout_s`.
    """
    others = [] if probes_only else [*semp_routes(node), *console_routes()]
    served = routes(node, probes_only=probes_only) + others
    router = Starlette(routes=served, exception_handlers=HANDLERS)
    # A browser turns `queues/orders/cursors/..` into `queues/orders/`: deleting that cursor must not reach the queue.
    router.router.redirect_slashes = False
    router.state.body_timeout_s = body_timeout_s
    router.state.operations = OPERATIONS
    router.state.events = events
    router.state.exposition = Exposition(queue_label_max=queue_label_max)
    guard = Guard(
        AccountLimits(router, places),
        accounts=None if probes_only else accounts,
        events=events,
        pages=pages,
        loopback_only=loopback_only,
    )
    return SecurityHeaders(AnonymousLimits(guard, places))


def routes(node: NodeInterface, *, probes_only: bool = False) -> list[Route]:
    """Return a route for each path of the table of operations, or only for those of probes."""
    endpoints: dict[str, dict[str, Endpoint]] = {}
    for operation in OPERATIONS:
        if probes_only and operation.path not in PROBED:
            continue
        endpoints.setdefault(operation.path, {})[operation.method] = _endpoint(node, operation)
    return [Route(path, _by_method(path, methods), methods=list(methods)) for path, methods in endpoints.items()]


def _endpoint(node: NodeInterface, operation: Operation) -> Endpoint:
    """Return an endpoint that checks the access level, and performs an operation in the request's message VPN."""

    async def endpoint(request: Request) -> Response:
        vpn = (text(request, VPN_PARAMETER) or DEFAULT_VPN) if operation.of_vpn else None
        permit(request, operation.id, operation.level, vpn)
        return await operation.perform(node if vpn is None else node.in_vpn(vpn), request)

    return endpoint


def _by_method(path: str, methods: dict[str, Endpoint]) -> Endpoint:
    """Return the endpoint of a path. With one endpoint per path, an error 405 can list all allowed methods."""

    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            if path in SETTINGS and method in ("GET", *CHANGES):
                return await _with_tag(path, methods, method, request)
            if path in PARTS:
                async with _alone(PARTS[path], request):
                    return await methods[method](request)
            return await methods[method](request)

    return endpoint


async def _with_tag(path: str, methods: dict[str, Endpoint], method: str, request: Request) -> Response:
    """Carry out an operation on one object, and say which settings it has then; see `versions`."""

    def tag_in(response: Response) -> str:
        return tag_of(SETTINGS[path](orjson.loads(response.body)))

    if method == "GET":
        response = await methods[method](request)
    else:
        async with _alone(path, request):
            if is_conditional(request):
                check_tag(request, tag_in(await methods["GET"](request)))
            response = await methods[method](request)
    if response.status_code == HTTPStatus.OK:
        response.headers["ETag"] = tag_in(response)
    return response


def _alone(path: str, request: Request) -> AbstractAsyncContextManager[None]:
    return alone(path, text(request, VPN_PARAMETER) or DEFAULT_VPN, path_name(request))


class SecurityHeaders:
    """Adds SECURITY_HEADERS to every response, including errors, unless the response sets them, as console files do."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
