"""What stands before the router of the admin port: who may come in, what foreign web pages may not, what is audited.

How far an account may go is asked by the operations themselves (`gateway.admin.problems`), which know the message
VPN. The guard knows the least of it: who may read nothing comes no further, nor does a change by whoever may change
nothing anywhere.
"""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sluicegate.actors.runtime.events import Events
from sluicegate.gateway.admin.operation import OPEN
from sluicegate.gateway.admin.problems import READ_ONLY_METHODS, beyond, problem
from sluicegate.gateway.admin.requests import content_type
from sluicegate.gateway.admin.semp.envelope import ROOT, refused_at_the_door
from sluicegate.gateway.config.sections.security.access_levels import WHOEVER_IS_HERE, AccessLevel, AdminAccount
from sluicegate.gateway.security.operators import NotSignedIn, Operators
from sluicegate.messaging.observability.events import NOBODY, SYSTEM_ADMIN_COMMAND, SYSTEM_LOGIN_DENIED
from sluicegate.protocols.http.codec.headers import CHALLENGES
from sluicegate.protocols.transport.origins import WebPages

TOLD_CHARS_MAX: Final = 500  # of a name or a path, in what operators read
# What a page may send elsewhere without asking first, and nobody but a page has a reason to send here.
FORMS: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
FOR_ACCOUNTS: Final = "this port is for accounts: name and password, or a token"
NOT_BELIEVED: Final = "the name, the password or the token is not believed; after several failures wait some seconds"
ACCOUNT_PATH: Final = "/account"  # which every account may read, to know how far it may go
ABSOLUTE_TARGET: Final = re.compile(rb"https?://(?P<host>[^/]+)(?P<path>/.*)?", re.IGNORECASE)


class Guard:
    """Lets accounts in, keeps foreign web pages out, and encoded slashes in names."""

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
        self._accounts = accounts  # None: all that is here is for everybody
        self._events = events
        self._pages = pages
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        scope = {**_in_origin_form(scope), "state": {"account": WHOEVER_IS_HERE, "operation": "", "vpn": NOBODY}}
        path: str = scope["path"]
        request = Request(scope)
        accounts = None if path in OPEN else self._accounts
        refusal = self._of_a_foreign_page(request)
        if refusal is None and accounts is not None:
            refusal = await self._sign_in(request, accounts)
        if refusal is not None:
            await refusal(scope, receive, send)
        elif accounts is None:  # whoever that was
            await self._app(scope, receive, send)
        else:
            await self._serve_and_tell(request, receive, send)

    def _of_a_foreign_page(self, request: Request) -> Response | None:
        """Refuse what only a page from elsewhere would have a browser send: it adds name and password by itself.

        What changes nothing is answered all the same: a browser shows no foreign page the answer, and follows links.
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
            detail = "forms of web pages may not change anything here; send application/json"
            return _refused(request, 415, "A form", detail)
        return None

    async def _serve_and_tell(self, request: Request, receive: Receive, send: Send) -> None:
        is_told = False

        async def send_and_tell(message: Message) -> None:
            nonlocal is_told
            if message["type"] == "http.response.start":
                self._tell(request, message["status"])  # before its sender knows
                is_told = True
            await send(message)

        try:
            await self._app(request.scope, receive, send_and_tell)
        finally:
            if not is_told:  # it went on in vain
                self._tell(request, 500)

    async def _sign_in(self, request: Request, accounts: Operators) -> Response | None:
        """Note who sends a request, or return what to answer to who may not."""
        authorization, host = request.headers.get("authorization", ""), _host(request)
        try:
            account = await accounts.account(authorization, host, loopback_only=self._loopback_only)
        except ValueError as broken:
            return _refused(request, 400, "Bad credentials", str(broken))
        except NotSignedIn as nobody:
            if authorization:  # without it, it is how browsers ask whether they have to
                name = nobody.name[:TOLD_CHARS_MAX]
                text = f"401 Unauthorized: admin port, {name!r} from {host}"
                self._events.emit(SYSTEM_LOGIN_DENIED, text, details={"account": name, "from": host})
            detail = NOT_BELIEVED if authorization else FOR_ACCOUNTS
            response = _refused(request, 401, "Unauthorized", detail)
            response.headers["WWW-Authenticate"] = CHALLENGES.decode()
            return response
        request.state.account = account
        level = AccessLevel.READ_ONLY if request.method in READ_ONLY_METHODS else AccessLevel.READ_WRITE
        if level is AccessLevel.READ_ONLY and request.scope["path"] == ACCOUNT_PATH:
            return None
        highest = account.highest_level()
        if highest < level:
            self._tell(request, 403)
            refusal = beyond(account, level, highest)
            return _refused(request, refusal.status, refusal.title, refusal.detail)
        return None

    def _tell(self, request: Request, status: int) -> None:
        """Tell of what was changed, or was not for want of the level. What a body said is nobody's business."""
        if request.method in READ_ONLY_METHODS and status != 403:
            return
        account: AdminAccount = request.state.account
        details = {
            "account": account.name,
            "from": _host(request),
            "operation": request.state.operation,
            "method": request.method,
            "path": request.url.path[:TOLD_CHARS_MAX],
            "vpn": request.state.vpn,
            "status": str(status),
        }
        who = f"{account.name!r}" if account.name else "somebody"
        text = f"{who} from {details['from']}: {details['method']} {details['path']} was answered with {status}"
        self._events.emit(SYSTEM_ADMIN_COMMAND, text, details=details)


def _in_origin_form(scope: Scope) -> Scope:
    """Return a request with the path as it was sent; of an absolute target the authority is the host (RFC 9112 3.2.2).

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
        return refused_at_the_door(request, status, detail)
    return problem(status, title, detail)


def _host(request: Request) -> str:
    return request.client.host if request.client is not None else ""
