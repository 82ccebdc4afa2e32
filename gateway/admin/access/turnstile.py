"""Where requests to a port of operators get their places, around the guard and behind it.

Probes of health take none and wait for none: who fills the port up, or has its logins checked, must not have a healthy
node restarted.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sluicegate.gateway.admin.access.places import ACCOUNT, ALL, NETWORK, STRANGERS, Places
from sluicegate.gateway.admin.operation import OPEN
from sluicegate.gateway.admin.problems import problem
from sluicegate.gateway.admin.semp.envelope import ROOT, refused_at_the_door
from sluicegate.gateway.config.sections.security.access_levels import AdminAccount
from sluicegate.messaging.clients.rights import LoginsBusy
from sluicegate.protocols.security.login_queue import network_of

WITHOUT_PLACE: Final = frozenset(path.encode() for path in OPEN)
RETRY_AFTER_S: Final = "5"
WHY: Final = {
    ACCOUNT: "this account has too many requests under way",
    NETWORK: "this address has too many requests under way",
    ALL: "too many requests are under way",
    STRANGERS: "too many logins of this address are being checked",
}
LOGINS_BUSY: Final = "too many logins are being checked"
_VISIT: Final = "sluicegate.visit"  # in the scope of a request


class Visit:
    """A request that takes a place: at first of a stranger, then of an account."""

    def __init__(self, places: Places, network: str) -> None:
        self.is_known = False
        self.network = network
        self._places = places
        self._is_stranger = True

    def stranger_goes(self) -> None:
        """Give the place of a stranger up. Idempotent."""
        if self._is_stranger:
            self._is_stranger = False
            self._places.stranger_goes(self.network)


def is_known(scope: Scope) -> bool:
    """Return whether a request has the place of an account. The scope is the server's own."""
    visit: Visit | None = scope.get(_VISIT)
    return visit is not None and visit.is_known


class Door:
    """Around the guard: a request is a stranger's until it comes to the `Desk`, or is answered."""

    def __init__(self, app: ASGIApp, places: Places) -> None:
        self._app = app
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        raw_path: bytes = scope.get("raw_path", b"")
        if raw_path.partition(b"?")[0] in WITHOUT_PLACE:
            await self._app(scope, receive, send)
            return
        network = network_of(scope["client"][0]) if scope["client"] is not None else ""
        reason = self._places.stranger_comes(network)
        if reason:
            await _busy(scope, WHY[reason])(scope, receive, send)
            return
        visit = scope[_VISIT] = Visit(self._places, network)
        try:
            await self._app(scope, receive, send)
        except LoginsBusy:  # before anything was answered
            await _busy(scope, LOGINS_BUSY)(scope, receive, send)
        finally:
            visit.stranger_goes()


class Desk:
    """Behind the guard: a request of somebody who is known has a place until it is answered."""

    def __init__(self, app: ASGIApp, places: Places) -> None:
        self._app = app
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        visit: Visit | None = scope.get(_VISIT)
        if visit is None:  # a probe
            await self._app(scope, receive, send)
            return
        visit.stranger_goes()
        account: AdminAccount = scope["state"]["account"]
        reason = self._places.known_comes(visit.network, account.name)
        if reason:
            await _busy(scope, WHY[reason])(scope, receive, send)
            return
        visit.is_known = True
        try:
            await self._app(scope, receive, send)
        finally:
            visit.is_known = False
            self._places.known_goes(visit.network, account.name)


def _busy(scope: Scope, detail: str) -> Response:
    request = Request(scope)
    text = f"{detail}; try again later"
    response = (
        refused_at_the_door(request, 503, text)
        if request.url.path.startswith(ROOT)
        else problem(503, "Too many requests", text)
    )
    response.headers["Retry-After"] = RETRY_AFTER_S
    return response
