"""Errors as RFC 9457 problem details, and the check of an account's access level."""

from collections.abc import Mapping
from typing import Final

import orjson
from pykka import ActorDeadError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.gateway.config.sections.admin import AccessLevel, AdminAccount
from sluicegate.gateway.views.errors import AlreadyExists, NotFound, NotReady, Refused
from sluicegate.messaging.queues.definition import QueueInvalid

MEDIA_TYPE: Final = "application/problem+json"
GONE: Final = "what the request is about was deleted meanwhile, or the node stops"
ANSWER_TIMEOUT_S: Final = 30.0  # a node that needs longer is stuck; health probes time out long before


class Unacceptable(Exception):
    """A request that cannot be served, with the status and problem details to answer."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        headers: dict[str, str] | None = None,
        members: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = headers or {}  # of the answer
        self.members = members or {}  # extension members of the problem details


class NotPermitted(Unacceptable):
    """A request that needs a higher access level than its account has."""

    def __init__(self, detail: str) -> None:
        super().__init__(403, "Not permitted", detail)


def problem(status: int, title: str, detail: str, **members: object) -> Response:
    """Return a problem response. `members` are extension members, such as the field that was wrong."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **members}
    return Response(orjson.dumps(body), status, media_type=MEDIA_TYPE)


async def answer_error(request: Request, error: Exception) -> Response:
    """Return the problem response for an error a handler raised."""
    match error:
        case Unacceptable():
            response = problem(error.status, error.title, error.detail, **error.members)
            response.headers.update(error.headers)
            return response
        case QueueInvalid():
            return problem(422, "Not allowed", str(error), field=error.field, allowed=error.allowed)
        case NotFound():
            return problem(404, f"{_sentence(error.kind)} not found", str(error))
        case AlreadyExists():
            return problem(409, f"{_sentence(error.kind)} already exists", str(error))
        case NotReady():
            return problem(503, "Not ready", error.reason)
        case Refused():
            return problem(409, "Refused", error.reason)
        case StoreRefused():
            return problem(503, "Not stored", str(error))
        case ActorDeadError():
            return problem(503, "Not available", GONE)
        case TimeoutError():
            return problem(504, "No answer", f"{unanswered(request)}; GET /actors shows which actor is overloaded")
        case HTTPException(status_code=404):
            return problem(404, "Not found", f"{request.url.path} does not exist; GET / lists the paths")
        case HTTPException(status_code=405):
            return _method_not_allowed(request, error)
        case HTTPException():
            return problem(error.status_code, "Refused", str(error.detail))
        case _:
            return problem(500, "Internal error", "internal error of the gateway; its log has the details")


def unanswered(request: Request) -> str:
    """Return the text for a request that the node has not answered in time."""
    return f"the node has not answered {request.method} {request.url.path} within {ANSWER_TIMEOUT_S:g} s"


def _method_not_allowed(request: Request, error: HTTPException) -> Response:
    allowed = (error.headers or {}).get("Allow", "")
    detail = f"{request.method} is not allowed at {request.url.path}; allowed: {allowed}"
    response = problem(405, "Method not allowed", detail)
    response.headers["Allow"] = allowed
    return response


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


READ_ONLY_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def permit(request: Request, operation: str, level: AccessLevel, vpn: str | None = None) -> None:
    """Check that the account has the access level of an operation, in the node or in a VPN. Raises NotPermitted."""
    account: AdminAccount = request.state.account
    request.state.operation = operation
    if vpn is not None:
        request.state.vpn = vpn
    has = account.global_access_level if vpn is None else account.level_in(vpn)
    if has < level:
        where = "" if vpn is None else f" in message VPN {vpn!r}"
        raise level_too_low(account, level, has, where)


def level_too_low(account: AdminAccount, level: AccessLevel, has: AccessLevel, where: str = "") -> NotPermitted:
    """Return the refusal for an account whose access level is too low."""
    return NotPermitted(f"this needs the access level {level.word}; {account.name!r} has {has.word}{where}")
