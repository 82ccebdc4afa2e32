"""The guard of the admin port: authentication, protection from foreign web pages, and the audit of what operators do.

Each operation checks the access level that it needs (`gateway.admin.problems`), because it knows the message VPN. The
guard only refuses accounts without any access, and changes by accounts that may change nothing in any message VPN.
"""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sluicegate.actors.runtime.events import Events
from sluicegate.gateway.admin.operation import OPEN, PROBED
from sluicegate.gateway.admin.problems import READ_ONLY_METHODS, level_too_low, problem
from sluicegate.gateway.admin.requests import content_type
from sluicegate.gateway.admin.semp.envelope import ROOT, early_refusal
from sluicegate.gateway.config.sections.admin import ANONYMOUS_ADMIN, AccessLevel, AdminAccount
from sluicegate.gateway.security.operators import NotSignedIn, Operators
from sluicegate.messaging.observability.events import (
    NOBODY,
    SYSTEM_ADMIN_COMMAND,
    SYSTEM_ADMIN_QUERY,
    SYSTEM_LOGIN_DENIED,
)
from sluicegate.protocols.http.codec.responses import CHALLENGES
from sluicegate.protocols.transport.origins import WebPages

EVENT_CHARS_MAX: Final = 500  # of a name or path, in events
# Content types that a web page may send to another origin without a preflight, and that no API client sends.
FORMS: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
LOGIN_NEEDED: Final = "this port needs an account: send a name and password, or a token"
WRONG_LOGIN: Final = "the name, password or token is wrong; after several failures, wait some seconds"
ACCOUNT_PATH: Final = "/account"  # every account may read it, to learn its access level
ABSOLUTE_TARGET: Final = re.compile(rb"https?://(?P<host>[^/]+)(?P<path>/.*)?", re.IGNORECASE)


class Guard:
    """Authenticates requests, refuses those of foreign web pages, and keeps encoded slashes in names."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        accounts: Operators | None,
        events: Events,
        pages: WebPages,
        loopback_only: bool,
    ) -> None:
        self._app = app
        self._accounts = accounts  # None: no request needs an account
        self._events = events
        self._pages = pages
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        scope = {**_in_origin_form(scope), "state": {"account": ANONYMOUS_ADMIN, "operation": "", "vpn": NOBODY}}
        path: str = scope["path"]
        request = Request(scope)
        accounts = None if path in OPEN else self._accounts
        refusal = self._foreign_page_refusal(request)
        if refusal is None and accounts is not None:
            refusal = await self._sign_in(request, accounts)
        if refusal is not None:
            await refusal(scope, receive, send)
        elif accounts is None:
            await self._app(scope, receive, send)
        else:
            await self._serve_audited(request, receive, send)

    def _foreign_page_refusal(self, request: Request) -> Response | None:
        """Refuse changes that a foreign web page makes a browser send, because the browser adds the login by itself.

        Reads are allowed: the browser hides the response from a foreign page, and users follow links.
        """
        host = request.headers.get("host", "")
        foreign = self._pages.host_refusal(host)
        changes = request.method not in READ_ONLY_METHODS
        if foreign is None and changes:
            origin = ", ".join(request.headers.getlist("origin"))
            foreign = self._pages.origin_refusal(host, origin, request.headers.get("sec-fetch-site", ""))
        if foreign is not None:
            return _refused(request, foreign.status, foreign.title, foreign.detail)
        if changes and content_type(request) in FORMS:
            detail = "forms of web pages cannot change anything here; send application/json"
            return _refused(request, 415, "A form", detail)
        return None

    async def _serve_audited(self, request: Request, receive: Receive, send: Send) -> None:
        is_audited = False

        async def send_audited(message: Message) -> None:
            nonlocal is_audited
            if message["type"] == "http.response.start":
                self._audit(request, message["status"])  # before the client reads the status
                is_audited = True
            await send(message)

        try:
            await self._app(request.scope, receive, send_audited)
        finally:
            if not is_audited:  # the application failed without a response
                self._audit(request, 500)

    async def _sign_in(self, request: Request, accounts: Operators) -> Response | None:
        """Set the account of a request, or return the refusal."""
        authorization, host = request.headers.get("authorization", ""), _host(request)
        try:
            account = await accounts.account(authorization, host, loopback_only=self._loopback_only)
        except ValueError as broken:
            return _refused(request, 400, "Bad credentials", str(broken))
        except NotSignedIn as nobody:
            if authorization:  # without it, a browser only asks whether it must log in
                name = nobody.name[:EVENT_CHARS_MAX]
                text = f"401 Unauthorized: admin port, {name!r} from {host}"
                self._events.emit(SYSTEM_LOGIN_DENIED, text, details={"account": name, "from": host})
            detail = WRONG_LOGIN if authorization else LOGIN_NEEDED
            response = _refused(request, 401, "Unauthorized", detail)
            response.headers["WWW-Authenticate"] = CHALLENGES.decode()
            return response
        request.state.account = account
        level = AccessLevel.READ_ONLY if request.method in READ_ONLY_METHODS else AccessLevel.READ_WRITE
        if level is AccessLevel.READ_ONLY and request.scope["path"] == ACCOUNT_PATH:
            return None
        highest = account.highest_level()
        if highest < level:
            self._audit(request, 403)
            refusal = level_too_low(account, level, highest)
            return _refused(request, refusal.status, refusal.title, refusal.detail)
        return None

    def _audit(self, request: Request, status: int) -> None:
        """Emit an event for a change, or one for the audit log for a read. The body is not included.

        Of the reads, files of the console and what probes and scrapers ask are left out, unless they are refused.
        """
        is_read = request.method in READ_ONLY_METHODS
        if is_read and status != 403 and (not request.state.operation or request.scope["path"] in PROBED):
            return
        account: AdminAccount = request.state.account
        details = {
            "account": account.name,
            "from": _host(request),
            "operation": request.state.operation,
            "method": request.method,
            "path": request.url.path[:EVENT_CHARS_MAX],
            "vpn": request.state.vpn,
            "status": str(status),
        }
        who = f"{account.name!r}" if account.name else "anonymous"
        text = f"{who} from {details['from']}: {details['method']} {details['path']} was answered with {status}"
        self._events.emit(SYSTEM_ADMIN_QUERY if is_read else SYSTEM_ADMIN_COMMAND, text, details=details)


def _in_origin_form(scope: Scope) -> Scope:
    """Return a request with the undecoded path. The authority of an absolute target becomes the Host (RFC 9112 3.2.2).

    The server decodes the path, and `orders%2Feu` would become two levels. Names are decoded after routing.
    """
    raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw_path.partition(b"?")[0]
    headers = scope["headers"]
    absolute = ABSOLUTE_TARGET.fullmatch(path)
    if absolute is not None:
        headers = [(b"host", absolute["host"]), *[each for each in headers if each[0] != b"host"]]
        path = absolute["path"] or b"/"
    return {**scope, "path": path.decode("ascii", "replace"), "headers": headers}


def _refused(request: Request, status: int, title: str, detail: str) -> Response:
    if request.url.path.startswith(ROOT):
        return early_refusal(request, status, detail)
    return problem(status, title, detail)


def _host(request: Request) -> str:
    return request.client.host if request.client is not None else ""
