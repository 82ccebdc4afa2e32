"""The admin application: the router made from the table of operations, its errors, and its guard."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.admin.api import AdminApi
from gateway.admin.console_files import console_routes
from gateway.admin.operation import Operation
from gateway.admin.operations import OPERATIONS, PROBED
from gateway.admin.problems import Unacceptable, answer_error, problem
from gateway.admin.requests import ANSWER_TIMEOUT_S
from gateway.config.listeners import is_loopback
from gateway.metrics import Exposition
from gateway.ports import AlreadyExists, NodePort, NotFound, QueueInvalid, Refused
from gateway.semp.app import semp_routes

READ_ONLY_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

Endpoint = Callable[[Request], Awaitable[Response]]

# What is named here is an answer; anything else is our mistake, answered with 500 and logged with its traceback.
EXPECTED: Final = (AlreadyExists, HTTPException, NotFound, QueueInvalid, Refused, TimeoutError, Unacceptable)
HANDLERS: Final = dict.fromkeys((*EXPECTED, Exception), answer_error)


def build_app(
    node: NodePort, *, queue_label_max: int = 1000, loopback_only: bool = False, probes_only: bool = False
) -> ASGIApp:
    """Return the admin application over a node, or with `probes_only` what of it anybody may ask.

    `loopback_only`: it is bound to a loopback address.
    """
    api = AdminApi(node=node, exposition=Exposition(queue_label_max=queue_label_max))
    others = [] if probes_only else [*semp_routes(node), *console_routes()]
    served = routes(api, probes_only=probes_only) + others
    return _Guard(Starlette(routes=served, exception_handlers=HANDLERS), loopback_only=loopback_only)


def routes(api: AdminApi, *, probes_only: bool = False) -> list[Route]:
    """Return one route for each path of the table of operations, or for those of probes."""
    endpoints: dict[str, dict[str, Endpoint]] = {}
    for operation in OPERATIONS:
        if probes_only and operation.path not in PROBED:
            continue
        endpoints.setdefault(operation.path, {})[operation.method] = _endpoint(api, operation)
    return [Route(path, _by_method(methods), methods=list(methods)) for path, methods in endpoints.items()]


def _endpoint(api: AdminApi, operation: Operation) -> Endpoint:
    """Return what performs an operation, over the message VPN that a request is for."""

    async def endpoint(request: Request) -> Response:
        performed: Endpoint = getattr(api.in_vpn(request) if operation.of_vpn else api, operation.id)
        return await performed(request)

    return endpoint


def _by_method(methods: dict[str, Endpoint]) -> Endpoint:
    """Return one endpoint for a path, so that a wrong method is answered with all the right ones."""

    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return await methods[method](request)

    return endpoint


class _Guard:
    """Stands before the router: keeps web pages out, and encoded slashes in."""

    def __init__(self, app: ASGIApp, *, loopback_only: bool) -> None:
        self._app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(Request(scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        # The server decodes the path, and `orders%2Feu` would become two levels. Names are decoded after routing.
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        await self._app({**scope, "path": raw_path.partition(b"?")[0].decode("ascii", "replace")}, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        """Refuse what only a browser on a foreign page would send: this port has no accounts."""
        host = request.headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self._loopback_only and not is_loopback(name):  # a foreign name that resolves to 127.0.0.1
            return problem(421, "Wrong host", f"this port is for this machine only, and {host!r} does not name it")
        origin = request.headers.get("origin")
        foreign = origin is not None and origin.partition("://")[2] != host
        if foreign and request.method not in READ_ONLY_METHODS:
            return problem(403, "Foreign origin", f"a page of {origin} may not change anything here")
        return None
