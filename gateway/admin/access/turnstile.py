"""The limits on concurrent requests, applied before the guard (anonymous) and after it (authenticated).

Health probes need no place: clients that fill the port or its login checks must not get a healthy node restarted.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sluicegate.gateway.admin.access.places import ACCOUNT, ALL, ANONYMOUS, NETWORK, Places
from sluicegate.gateway.admin.operation import OPEN
from sluicegate.gateway.admin.problems import problem
from sluicegate.gateway.admin.semp.envelope import ROOT, early_refusal
from sluicegate.gateway.config.sections.admin import AdminAccount
from sluicegate.messaging.clients.rights import LoginsBusy
from sluicegate.protocols.security.login_queue import network_of

WITHOUT_PLACE: Final = frozenset(path.encode() for path in OPEN)
RETRY_AFTER_S: Final = "5"
WHY: Final = {
    ACCOUNT: "this account has too many requests in progress",
    NETWORK: "this address has too many requests in progress",
    ALL: "too many requests are in progress",
    ANONYMOUS: "too many logins from this address are being checked",
}
LOGINS_BUSY: Final = "too many logins are being checked"
_VISIT: Final = "sluicegate.visit"  # in the scope of a request


class Visit:
    """A request that holds a place: first an anonymous one, then one of its account."""

    def __init__(self, places: Places, network: str) -> None:
        self.is_known = False
        self.network = network
        self._places = places
        self._is_anonymous = True

    def release_anonymous(self) -> None:
        """Release the anonymous place. Idempotent."""
        if self._is_anonymous:
            self._is_anonymous = False
            self._places.release_anonymous(self.network)


def is_known(scope: Scope) -> bool:
    """Return whether a request holds the place of an account. `scope` is the server's own."""
    visit: Visit | None = scope.get(_VISIT)
    return visit is not None and visit.is_known


class AnonymousLimits:
    """Before the guard: holds an anonymous place until the request reaches `AccountLimits` or is answered."""

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
        reason = self._places.admit_anonymous(network)
        if reason:
            await _busy(scope, WHY[reason])(scope, receive, send)
            return
        visit = scope[_VISIT] = Visit(self._places, network)
        try:
            await self._app(scope, receive, send)
        except LoginsBusy:  # before a response began
            await _busy(scope, LOGINS_BUSY)(scope, receive, send)
        finally:
            visit.release_anonymous()


class AccountLimits:
    """After the guard: holds a place of the account until the request is answered."""

    def __init__(self, app: ASGIApp, places: Places) -> None:
        self._app = app
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        visit: Visit | None = scope.get(_VISIT)
        if visit is None:  # a probe
            await self._app(scope, receive, send)
            return
        visit.release_anonymous()
        account: AdminAccount = scope["state"]["account"]
        reason = self._places.admit_account(visit.network, account.name)
        if reason:
            await _busy(scope, WHY[reason])(scope, receive, send)
            return
        visit.is_known = True
        try:
            await self._app(scope, receive, send)
        finally:
            visit.is_known = False
            self._places.release_account(visit.network, account.name)


def _busy(scope: Scope, detail: str) -> Response:
    request = Request(scope)
    text = f"{detail}; try again later"
    response = (
        early_refusal(request, 503, text)
        if request.url.path.startswith(ROOT)
        else problem(503, "Too many requests", text)
    )
    response.headers["Retry-After"] = RETRY_AFTER_S
    return response
