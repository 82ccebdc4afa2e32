"""Parsing of requests to the admin port (names, parameters, bodies), and the kinds of responses."""

import asyncio
from typing import Final
from urllib.parse import quote, unquote, urlencode

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response

from sluicegate.gateway.admin.operation import VPN_PARAMETER, Parameter, TextParameter
from sluicegate.gateway.admin.problems import ANSWER_TIMEOUT_S, Unacceptable
from sluicegate.gateway.config.sections.admin import BODY_TIMEOUT_S_MAX
from sluicegate.gateway.views.adapters import adapter
from sluicegate.gateway.views.queues.selections import SEQUENCE_MAX
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.observability.events import NOBODY
from sluicegate.messaging.queues.attributes import quoted
from sluicegate.messaging.queues.definition import QueueInvalid

BODY_BYTES_MAX: Final = 1 << 20  # a queue with ten thousand subscriptions of a hundred bytes
TRUTHS: Final = {"true": True, "false": False}
assert BODY_TIMEOUT_S_MAX < ANSWER_TIMEOUT_S, "otherwise a slow client is reported as a slow node"
# The pages contain no script. Should a name ever be unescaped, the browser still runs nothing.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def json_answer(body: bytes, *, status: int = 200) -> Response:
    """Return a response with a JSON document."""
    return Response(body, status, media_type="application/json")


def view_answer(view: object, *, status: int = 200) -> Response:
    """Return a response with a view as JSON."""
    return json_answer(view_json(view), status=status)


def view_json(view: object) -> bytes:
    """Return a view as JSON."""
    return adapter(type(view)).dump_json(view)


def made_answer(request: Request, name: str, body: bytes) -> Response:
    """Return the response to a request that created an object, with its path in `Location`."""
    response = json_answer(body, status=201)
    vpn: str = request.state.vpn
    query = "" if vpn in (DEFAULT_VPN, NOBODY) else f"?{urlencode({VPN_PARAMETER.name: vpn})}"
    response.headers["Location"] = f"{request.url.path}/{quote(name, safe='')}{query}"
    return response


def html_answer(body: str) -> Response:
    """Return a response with an HTML page."""
    return HTMLResponse(body, headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})


def path_name(request: Request, parameter: str = "name") -> str:
    """Return a decoded name from the path. Raises Unacceptable."""
    encoded: str = request.path_params[parameter]
    try:
        return unquote(encoded, errors="strict")
    except UnicodeDecodeError:
        raise Unacceptable(400, "Bad name", f"{encoded!r} is not percent-encoded UTF-8") from None


def sequence(body: dict[str, object], name: str) -> int | None:
    """Return a sequence from a body, None where it is absent. Raises QueueInvalid."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= SEQUENCE_MAX:
        raise QueueInvalid(name, f"{quoted(value)} is not allowed", f"a whole number from 0 to {SEQUENCE_MAX}")
    return value


def whole_number(request: Request, parameter: Parameter) -> int | None:
    """Return a query parameter, or its default where it is absent. Raises QueueInvalid."""
    given = request.query_params.get(parameter.name)
    if given is None:
        return parameter.default
    if given.isascii() and given.isdigit() and len(given) <= 19 and parameter.low <= int(given) <= parameter.high:
        return int(given)
    allowed = f"a whole number from {parameter.low} to {parameter.high}"
    raise QueueInvalid(parameter.name, f"{given!r} is not allowed", allowed)


def text(request: Request, parameter: TextParameter) -> str | None:
    """Return a query parameter. Raises QueueInvalid."""
    given = request.query_params.get(parameter.name)
    if given is None and not parameter.required:
        return None
    if given and len(given) <= parameter.chars_max:
        return given
    raise QueueInvalid(parameter.name, f"{given!r} is not allowed", f"1 to {parameter.chars_max} characters")


def truth(request: Request, parameter: TextParameter) -> bool:
    """Return a query parameter that is `true` or `false`; false where it is absent. Raises QueueInvalid."""
    given = text(request, parameter) or "false"
    if given not in TRUTHS:
        raise QueueInvalid(parameter.name, f"{given!r} is not allowed", ", ".join(TRUTHS))
    return TRUTHS[given]


def content_type(request: Request) -> str:
    """Return the media type of the body without parameters, empty if there is none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def json_object(request: Request) -> dict[str, object]:
    """Return the JSON object in the body. Raises Unacceptable."""
    given = content_type(request)
    if given != "application/json":
        raise Unacceptable(415, "Not JSON", f"the content type is {given!r}; send application/json")
    try:
        value: object = orjson.loads(await read_body(request))
    except orjson.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        raise Unacceptable(400, "Not JSON", f"the body is not JSON: {problem.msg} ({where})") from None
    if not isinstance(value, dict):
        raise Unacceptable(400, "Not an object", 'the body must be a JSON object, such as {"name": "orders"}')
    return value


async def read_body(request: Request, *, bytes_max: int = BODY_BYTES_MAX) -> bytearray:
    """Return the body. Raises Unacceptable, also for one that is larger than `bytes_max`."""
    body = bytearray()
    timeout_s: float = request.app.state.body_timeout_s
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > bytes_max:
                    raise Unacceptable(413, "Too large", f"the body is larger than {bytes_max} bytes")
    except ClientDisconnect:  # for the audit: the client is gone
        raise Unacceptable(400, "Cut off", "the connection ended before the body did") from None
    except TimeoutError:
        detail = f"the body was not complete within {timeout_s:g} s"
        raise Unacceptable(408, "Too slow", detail, headers={"Connection": "close"}) from None  # RFC 9110 15.5.9
    return body
