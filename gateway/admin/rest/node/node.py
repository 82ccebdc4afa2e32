"""Operations on the node as a whole: documentation, health, metrics, events, configuration, spool and backups."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.operation import (
    BAD_BODY,
    INVALID_PARAMETER,
    REFUSED,
    Answer,
    JsonSchema,
    Operations,
    Parameter,
)
from sluicegate.gateway.admin.requests import html_answer, json_answer, json_object, view_answer, whole_number
from sluicegate.gateway.admin.rest.openapi import docs_page, document_json
from sluicegate.gateway.admin.rest.schemas import fixed, list_of
from sluicegate.gateway.config.sections.admin import AccessLevel, AdminAccount
from sluicegate.gateway.observability.metrics.exposition import CONTENT_TYPE, Exposition
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.clients.accounts import AccountView
from sluicegate.gateway.views.node.backups import BackupView
from sluicegate.gateway.views.node.figures import NodeFigures
from sluicegate.gateway.views.node.listeners import ListenersView
from sluicegate.gateway.views.node.runtime import ActorView, EventView, Health, ReloadView
from sluicegate.gateway.views.node.spool import SpoolView
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.storage.backup.folder import NAME_ALLOWED, NAME_FORM

HTML: Final = "text/html"
METRICS_TEXT: Final = "text/plain"
EVENTS_MAX: Final = 1000  # a node keeps no more

EVENTS_PARAMETERS: Final = (
    Parameter("after", "return events with higher numbers", 0, 2**63 - 1, 0),
    Parameter("limit", "maximum number of events to return, the latest ones", 1, EVENTS_MAX, 100),
)
START_BACKUP: Final[JsonSchema] = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": NAME_ALLOWED, "pattern": f"^{NAME_FORM.pattern}$"}},
    "additionalProperties": False,
}

NODE: Final = Operations()


@dataclass(frozen=True, slots=True)
class _Actors:
    actors: Sequence[ActorView]


@dataclass(frozen=True, slots=True)
class _Events:
    events: Sequence[EventView]


@NODE.operation("GET", "/", Answer(307, "A link to the console", None, HTML), of_vpn=False, level=AccessLevel.NONE)
async def index(node: NodeInterface, request: Request) -> Response:
    """Lead browsers to the console."""
    response = html_answer('<a href="console/">The console</a>')
    response.status_code = 307
    response.headers["location"] = "console/"
    return response


@NODE.operation("GET", "/docs", Answer(200, "A page", None, HTML), of_vpn=False, level=AccessLevel.NONE)
async def docs(node: NodeInterface, request: Request) -> Response:
    """This documentation."""
    return html_answer(docs_page(request.app.state.operations))


@NODE.operation(
    "GET",
    "/openapi.json",
    Answer(200, "OpenAPI 3.1", fixed("Document", {"type": "object"})),
    of_vpn=False,
    level=AccessLevel.NONE,
)
async def openapi(node: NodeInterface, request: Request) -> Response:
    """The OpenAPI document."""
    return json_answer(await asyncio.to_thread(document_json, request.app.state.operations))


@NODE.operation(
    "GET",
    "/health/live",
    Answer(200, "The process works", Health),
    Answer(503, "The process does not work; see `reasons`", Health),
    of_vpn=False,
    level=AccessLevel.NONE,
)
async def live(node: NodeInterface, request: Request) -> Response:
    """Liveness: whether the process works; restart it if not."""
    health = await node.health()
    return view_answer(health, status=200 if health.live else 503)


@NODE.operation(
    "GET",
    "/health/ready",
    Answer(200, "The node accepts traffic", Health),
    Answer(503, "The node does not accept traffic; see `reasons`", Health),
    of_vpn=False,
    level=AccessLevel.NONE,
)
async def ready(node: NodeInterface, request: Request) -> Response:
    """Readiness: whether the node accepts traffic."""
    health = await node.health()
    return view_answer(health, status=200 if health.live and health.ready else 503)


@NODE.operation(
    "GET",
    "/health/active",
    Answer(200, "The node serves clients", Health),
    Answer(503, "It does not: it is a standby, or is not ready", Health),
    of_vpn=False,
    level=AccessLevel.NONE,
)
async def active(node: NodeInterface, request: Request) -> Response:
    """Whether clients are to be sent here: of several replicas of a broker one is active."""
    health = await node.health()
    return view_answer(health, status=200 if health.live and health.ready and health.active else 503)


@NODE.operation("GET", "/metrics", Answer(200, "Text exposition format", None, METRICS_TEXT), of_vpn=False)
async def metrics(node: NodeInterface, request: Request) -> Response:
    """Metrics for Prometheus."""
    exposition: Exposition = request.app.state.exposition
    return Response(exposition.render(await node.metrics_snapshot()), headers={"Content-Type": CONTENT_TYPE})


@NODE.operation(
    "GET",
    "/actors",
    Answer(200, "Roots first", list_of("Actors", "actors", ActorView)),
    of_vpn=False,
)
async def actors(node: NodeInterface, request: Request) -> Response:
    """The tree of actors."""
    return view_answer(_Actors(await node.actor_tree()))


@NODE.operation(
    "GET",
    "/events",
    Answer(200, "The latest ones", list_of("Events", "events", EventView)),
    INVALID_PARAMETER,
    parameters=EVENTS_PARAMETERS,
    of_vpn=False,
)
async def events(node: NodeInterface, request: Request) -> Response:
    """Recent events, oldest first."""
    after, limit = (whole_number(request, parameter) for parameter in EVENTS_PARAMETERS)
    return view_answer(_Events(await node.events(after=after or 0, limit=limit or 1)))


@NODE.operation(
    "GET",
    "/account",
    Answer(200, "The account", AccountView),
    level=AccessLevel.NONE,
)
async def show_account(node: NodeInterface, request: Request) -> Response:
    """The account that sends this request, with its access levels in the node and in a message VPN."""
    account: AdminAccount = request.state.account
    view = AccountView(
        name=account.name,
        global_access_level=account.global_access_level.word,
        msg_vpn_access_level=account.level_in(request.state.vpn).word,
    )
    return view_answer(view)


@NODE.operation(
    "GET",
    "/figures",
    Answer(200, "Now", NodeFigures),
    of_vpn=False,
)
async def node_figures(node: NodeInterface, request: Request) -> Response:
    """Totals of the node, by protocol; compute rates from two answers and the time between them."""
    return view_answer(await node.node_figures())


@NODE.operation(
    "POST",
    "/configuration/reload",
    Answer(200, "What changed", ReloadView),
    REFUSED,
    of_vpn=False,
    level=AccessLevel.ADMIN,
)
async def reload(node: NodeInterface, request: Request) -> Response:
    """Read the configuration again, as SIGHUP does; clients that may no longer connect are disconnected."""
    return view_answer(await node.reload())


@NODE.operation("GET", "/spool", Answer(200, "Now", SpoolView), of_vpn=False)
async def show_spool(node: NodeInterface, request: Request) -> Response:
    """The spool: its incarnation, usage and limits."""
    return view_answer(await node.show_spool())


@NODE.operation("GET", "/listeners", Answer(200, "By name", ListenersView), of_vpn=False)
async def list_listeners(node: NodeInterface, request: Request) -> Response:
    """The open ports for clients: protocol, address, TLS, connections and their limit."""
    return view_answer(await node.list_listeners())


@NODE.operation(
    "POST",
    "/backup",
    Answer(202, "It has started", BackupView),
    REFUSED,
    *BAD_BODY,
    body=fixed("StartBackup", START_BACKUP),
    of_vpn=False,
    level=AccessLevel.ADMIN,
)
async def start_backup(node: NodeInterface, request: Request) -> Response:
    """Start a backup of the spool in the node's `backup.path`; without a name it is named by the time."""
    body = await json_object(request)
    name = body.pop("name", "")
    if body or not isinstance(name, str):
        raise QueueInvalid("name" if not body else next(iter(body)), "this is not allowed", "name, a text")
    return view_answer(await node.start_backup(name), status=202)


@NODE.operation(
    "GET",
    "/backup",
    Answer(200, "Its progress", BackupView),
    REFUSED,
    of_vpn=False,
)
async def show_backup(node: NodeInterface, request: Request) -> Response:
    """The progress of the latest backup."""
    return view_answer(await node.show_backup())


@NODE.operation(
    "DELETE",
    "/backup",
    Answer(200, "Its final state", BackupView),
    REFUSED,
    of_vpn=False,
    level=AccessLevel.ADMIN,
)
async def cancel_backup(node: NodeInterface, request: Request) -> Response:
    """Cancel the running backup, and delete its files."""
    return view_answer(await node.cancel_backup())
