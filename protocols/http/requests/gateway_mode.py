"""Gateway mode: every request, whatever its method, is a message, and the reply to it is the response.

`GET /prices/eu` goes to the topic `GET/prices/eu`. The request's method, target and headers go along as the user
properties that Solace has for them; Authorization does not, because it concerns the client and the broker only.
"""

from typing import Final

from sluicegate.messaging.observability.trace_context import TRACE_FIELDS
from sluicegate.protocols.http.client import HttpClient
from sluicegate.protocols.http.codec.paths import topic_of_request
from sluicegate.protocols.http.codec.problems import NOT_FOUND, HttpProblem
from sluicegate.protocols.http.codec.requests import Request
from sluicegate.protocols.http.publishing.request_reply import FOREVER, REPLY_WAIT, reply_wait_ms
from sluicegate.protocols.http.requests.post import request_reply

# What a message has whose request does not say otherwise.
DEFAULTS: Final = (("Solace-Delivery-Mode", "Non-Persistent"), ("Solace-Time-To-Live-In-ms", "30000"))

_OUR_HEADERS: Final = ("solace-", "sluicegate-")
_NOT_FORWARDED: Final = ("authorization", "connection", "content-encoding", "content-length", "transfer-encoding")
_PROPERTY: Final = "Solace-User-Property-JMS_Solace_HTTP_"


async def relay(client: HttpClient, request: Request) -> None:
    """Publish a request, and answer it with the reply. Raises HttpProblem and ClientLeft."""
    destination = topic_of_request(request.method, request.raw_path)
    await client.whole(request, client.services.limits.body_bytes_max)
    if client.services.space.route(destination.topic).is_empty:
        raise HttpProblem(NOT_FOUND, f"nobody subscribes to {destination.topic!r:.200}", reason="No Subscription Match")
    wait = request.header(REPLY_WAIT)
    fields = [each for each in DEFAULTS if not request.header(each[0].lower())]
    target = request.raw_path + (b"?" + request.raw_query if request.raw_query else b"")
    fields += [
        (f"{_PROPERTY}method", _text(request.method)),
        (f"{_PROPERTY}target_path_query_verbatim", _text(target.decode("latin-1"))),
    ]
    for name, value in request.fields:
        lower = name.lower()
        if lower == "content-type" or lower in TRACE_FIELDS or lower.startswith(_OUR_HEADERS):
            fields.append((name, value))
        if lower not in _NOT_FORWARDED and not lower.startswith(_OUR_HEADERS):
            fields.append((f"{_PROPERTY}field_{name}", _text(value)))
    await request_reply(client, request, destination, fields, reply_wait_ms(wait) if wait else FOREVER)


def _text(value: str) -> str:
    """Return a property's value so that it is taken for a text, whatever it looks like."""
    return f"{value}; type=string"
