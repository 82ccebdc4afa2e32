"""Refusals as SEMP's clients understand them, also of what comes no further than the door of the admin port."""

from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from sluicegate.gateway.admin.requests import json_answer
from sluicegate.gateway.admin.semp.envelope import Asked, answer_of_error
from sluicegate.gateway.admin.semp.errors import UNAUTHORIZED, SempError, invalid_parameter

ROOT: Final = "/SEMP/"


def refused(asked: Asked, error: SempError, headers: dict[str, str] | None = None) -> Response:
    """Return the response to a request that is refused."""
    response = json_answer(orjson.dumps(answer_of_error(asked, error)), status=error.http_status)
    response.headers.update(headers or {})
    return response


def refused_at_the_door(request: Request, status: int, detail: str) -> Response:
    """Return the response to a request that nobody has looked at, for want of an account or of good manners."""
    if status in (401, 403):
        error = SempError(*UNAUTHORIZED, detail, http_status=status)
    else:
        error = invalid_parameter(detail, http_status=status)
    return refused(Asked(request.method, str(request.url)), error)
