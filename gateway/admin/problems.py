"""Errors as RFC 9457 problem details: what was wrong, and what would have been right."""

from typing import Final

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sluicegate.actors.spool.stored_answer import StoreRefused
from sluicegate.gateway.config.sections.security.access_levels import AccessLevel, AdminAccount
from sluicegate.gateway.views.errors import AlreadyExists, NotFound, Refused
from sluicegate.messaging.queues.definition import QueueInvalid

MEDIA_TYPE: Final = "application/problem+json"


class Unacceptable(Exception):
    """A request that cannot be served as it came."""

    def __init__(self, status: int, title: str, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = headers or {}  # of the answer


class NotPermitted(Unacceptable):
    """A request whose account may not do that much."""

    def __init__(self, detail: str) -> None:
        super().__init__(403, "Not permitted", detail)


def problem(status: int, title: str, detail: str, **members: str) -> Response:
    """Return a problem response. `members` are extension members, such as the field that was wrong."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **members}
    return Response(orjson.dumps(body), status, media_type=MEDIA_TYPE)


async def answer_error(request: Request, error: Exception) -> Response:
    """Return the problem response for an error a handler raised."""
    match error:
        case Unacceptable():
            response = problem(error.status, error.title, error.detail)
            response.headers.update(error.headers)
            return response
        case QueueInvalid():
            return problem(422, "Not allowed", str(error), field=error.field, allowed=error.allowed)
        case NotFound():
            return problem(404, f"{_sentence(error.kind)} not found", str(error))
        case AlreadyExists():
            return problem(409, f"{_sentence(error.kind)} already exists", str(error))
        case Refused():
            return problem(409, "Refused", error.reason)
        case StoreRefused():
            return problem(503, "Not stored", str(error))
        case TimeoutError():
            return problem(504, "No answer", "the node did not answer in time; GET /actors shows where work piles up")
        case HTTPException(status_code=404):
            return problem(404, "Not found", f"there is nothing at {request.url.path}; GET / lists what there is")
        case HTTPException(status_code=405):
            return _method_not_allowed(request, error)
        case HTTPException():
            return problem(error.status_code, "Refused", str(error.detail))
        case _:
            return problem(500, "Internal error", "a mistake of the gateway; its log says more")


def _method_not_allowed(request: Request, error: HTTPException) -> Response:
    allowed = (error.headers or {}).get("Allow", "")
    detail = f"{request.method} is not possible at {request.url.path}; possible: {allowed}"
    response = problem(405, "Method not allowed", detail)
    response.headers["Allow"] = allowed
    return response


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


# How far an account may go: asked by each operation, which knows its level and the message VPN that it is about.


READ_ONLY_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def permit(request: Request, operation: str, level: AccessLevel, vpn: str | None = None) -> None:
    """Let an operation begin that asks for a level, in the node or in one message VPN. Raises NotPermitted."""
    account: AdminAccount = request.state.account
    request.state.operation = operation
    if vpn is not None:
        request.state.vpn = vpn
    has = account.global_access_level if vpn is None else account.level_in(vpn)
    if has < level:
        where = "" if vpn is None else f" in message VPN {vpn!r}"
        raise beyond(account, level, has, where)


def beyond(account: AdminAccount, level: AccessLevel, has: AccessLevel, where: str = "") -> NotPermitted:
    """Return the refusal of what takes a higher level than an account has there."""
    return NotPermitted(f"this takes the access level {level.word}, and {account.name!r} has {has.word}{where}")
