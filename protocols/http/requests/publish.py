"""Requests that publish: POST of one message or a batch, answered once they are safe, and requests in gateway mode.

In gateway mode every request, whatever its method, is a message, and the reply to it is the response:
`GET /prices/eu` goes to the topic `GET/prices/eu`. The request's method, target and headers go along as the user
properties that Solace has for them; Authorization does not, because it concerns the client and the broker only.
"""

from typing import Final, final

import orjson

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.observability.trace_context import TRACE_FIELDS
from sluicegate.messaging.topics.syntax import Destination
from sluicegate.protocols.http.client import HttpClient
from sluicegate.protocols.http.codec.message_in import REQUIRE_MATCH_HEADER, read_attributes, requires_match
from sluicegate.protocols.http.codec.message_out import response_headers
from sluicegate.protocols.http.codec.paths import destination_of_name, topic_of_request
from sluicegate.protocols.http.codec.requests import ClientLeft, Request
from sluicegate.protocols.http.codec.responses import (
    BAD_REQUEST,
    JSON_TYPE,
    NOT_FOUND,
    OK,
    REPLY_TIMEOUT,
    TOO_LARGE,
    HttpProblem,
)
from sluicegate.protocols.http.consuming.delivery_forms import NDJSON_TYPE
from sluicegate.protocols.http.publishing.batches import BatchEntry, read_batch
from sluicegate.protocols.http.publishing.publishing import Submission
from sluicegate.protocols.http.publishing.request_reply import FOREVER, REPLY_WAIT, reply_wait_ms

MULTI_STATUS: Final = 207
UNMATCHED: Final = (b"sluicegate-matched", b"false")  # the header of an answer: nobody got a message of the request

# Gateway mode: what a message has whose request does not say otherwise.
DEFAULTS: Final = (("Solace-Delivery-Mode", "Non-Persistent"), ("Solace-Time-To-Live-In-ms", "30000"))

_OUR_HEADERS: Final = ("solace-", "sluicegate-")
_NOT_FORWARDED: Final = ("authorization", "connection", "content-encoding", "content-length", "transfer-encoding")
_PROPERTY: Final = "Solace-User-Property-JMS_Solace_HTTP_"


def is_batch(request: Request) -> bool:
    """Return whether a POST brings any number of messages."""
    return bool(request.header("sluicegate-batch").strip())


def wants_reply(request: Request) -> bool:
    """Return whether a POST waits for the reply to its message."""
    return bool(request.header(REPLY_WAIT)) and not is_batch(request)


def post(client: HttpClient, request: Request, destination: Destination) -> None:
    """Publish the message of a request, which is whole; it is answered when that is safe. Raises HttpProblem."""
    batches = _BatchBuilder(client)
    batches.add(destination, request.fields, request.body(client.services.limits.body_bytes_max))
    submission = _MessageSubmission(request, destination)
    submission.requires_match = requires_match(request.header(REQUIRE_MATCH_HEADER))
    client.publish(batches.batches(), submission)


async def post_batch(client: HttpClient, request: Request, destination: Destination) -> None:
    """Publish the messages of a request, which is whole; it is answered when all are safe. Others go on between pieces.

    Raises HttpProblem and ClientLeft.
    """
    limits = client.services.limits
    body = request.body(limits.body_bytes_max)
    batches = _BatchBuilder(client)
    kind = request.header("sluicegate-batch").strip().lower()
    entries: list[BatchEntry] = []
    for found in read_batch(kind, request.header("content-type"), body, limits.batch_messages_max):
        for entry in found:
            if entry.problem is None:
                try:
                    target = destination_of_name(entry.destination) if entry.destination else destination
                    batches.add(target, entry.fields, entry.payload)
                except HttpProblem as misunderstood:
                    entry.problem = misunderstood
        entries += found
        await client.runtime.sleep(0)
        if request.is_answered:
            raise ClientLeft
    submission = _BatchSubmission(request, entries)
    submission.requires_match = requires_match(request.header(REQUIRE_MATCH_HEADER))
    client.publish(batches.batches(), submission)


async def post_and_wait(client: HttpClient, request: Request, destination: Destination) -> None:
    """Publish the message of a request that waits for a reply, and answer with that. Raises HttpProblem, ClientLeft."""
    wait_ms = reply_wait_ms(request.header(REPLY_WAIT))
    if request.header("solace-reply-to-destination"):
        raise HttpProblem(
            BAD_REQUEST, "Solace-Reply-Wait-Time-In-ms and Solace-Reply-To-Destination exclude each other"
        )
    await request_reply(client, request, destination, request.fields, wait_ms)


async def request_reply(
    client: HttpClient,
    request: Request,
    destination: Destination,
    fields: list[tuple[str, str]],
    wait_ms: int,
) -> None:
    """Publish a message with these attributes, and answer the request, which is whole, with the first reply to it.

    Raises HttpProblem and ClientLeft.
    """
    batches = _BatchBuilder(client)
    body = request.body(client.services.limits.body_bytes_max)
    batches.add(destination, fields, body, reply_to=await client.replies.expect())
    asked = _RequestSubmission()
    client.publish(batches.batches(), asked)
    await asked.safe
    problem = asked.problems[0]
    if problem is not None:
        raise problem
    reply = await client.replies.reply(wait_ms)
    if reply is None:
        raise HttpProblem(REPLY_TIMEOUT, f"no reply within {wait_ms} ms", reason="Reply Timeout")
    client.count_sent(1)
    request.answer(OK, reply.payload, response_headers(reply.headers, client.runtime.clock.wall_ms()))


async def relay(client: HttpClient, request: Request) -> None:
    """Publish a request in gateway mode, and answer it with the reply. Raises HttpProblem and ClientLeft."""
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


@final
class _MessageSubmission(Submission):
    """The message of a request."""

    def __init__(self, request: Request, destination: Destination) -> None:
        super().__init__()
        self._request = request
        self._destination = destination

    def done(self) -> None:
        """Answer the request."""
        problem = self.problems[0]
        if problem is not None:
            self._request.answer_problem(problem)
        elif self.unmatched is None:
            self._request.answer_ok()
        else:
            detail = f"nobody subscribes to the topic {self._destination.topic!r:.200}; the message was dropped"
            body = orjson.dumps({"matched": False, "detail": detail}) + b"\n"
            self._request.answer(OK, body, [(b"content-type", JSON_TYPE), UNMATCHED])


@final
class _BatchSubmission(Submission):
    """The messages of a request that are understood, among the others."""

    def __init__(self, request: Request, entries: list[BatchEntry]) -> None:
        super().__init__()
        self._request = request
        self._entries = entries

    def done(self) -> None:
        """Answer the request with one line for each message, in their order."""
        place = 0  # of the next message in the submission
        lines: list[bytes] = []
        status = OK
        unmatched = self.unmatched or set()
        for entry in self._entries:
            problem = entry.problem
            is_unmatched = False
            if problem is None:
                problem = self.problems[place]
                is_unmatched = place in unmatched
                place += 1
            if problem is not None:
                status = MULTI_STATUS
            lines.append(orjson.dumps(_result(problem, is_unmatched=is_unmatched)))
        headers = [(b"content-type", NDJSON_TYPE)]
        if unmatched:
            headers.append(UNMATCHED)
        self._request.answer(status, b"\n".join(lines) + b"\n", headers)


@final
class _RequestSubmission(Submission):
    """A message whose reply is waited for once it is safe."""

    def __init__(self) -> None:
        super().__init__()
        self.safe: LoopFuture[None] = LoopFuture()

    def done(self) -> None:
        """Let the request go on."""
        self.safe.set()


def _result(problem: HttpProblem | None, *, is_unmatched: bool) -> dict[str, int | str | bool]:
    if problem is None:
        return {"status": OK, "matched": False} if is_unmatched else {"status": OK}
    return {"status": problem.status, "reason": problem.reason, "detail": problem.detail}


@final
class _BatchBuilder:
    """Gathers neighbouring messages that go the same way."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._wall_ms = client.runtime.clock.wall_ms()
        self._closed: list[MessageBatch] = []
        self._destination: Destination | None = None
        self._qos = 0
        self._payloads: list[bytes] = []
        self._headers: list[Headers | None] = []

    def add(
        self, destination: Destination, fields: list[tuple[str, str]], payload: bytes, *, reply_to: str = ""
    ) -> None:
        """Add a message; `reply_to` is where its reply is waited for. Raises HttpProblem when it is none."""
        bytes_max = self._client.services.limits.message_bytes_max
        if len(payload) > bytes_max:
            raise HttpProblem(TOO_LARGE, f"the message is larger than the {bytes_max} bytes that are taken here")
        message = read_attributes(fields, payload, self._wall_ms)
        if reply_to:
            message.headers.reply_to = reply_to
        last = self._destination
        if last is None or last != destination or self._qos != message.qos:
            self._close()
            self._destination = destination
            self._qos = message.qos
        self._payloads.append(payload)
        self._headers.append(message.headers)

    def batches(self) -> list[MessageBatch]:
        """Return them, in the order of their messages."""
        self._close()
        return self._closed

    def _close(self) -> None:
        if self._destination is None or not self._payloads:
            return
        batch = MessageBatch(
            topic=self._destination.topic,
            topics=None,
            payloads=self._payloads,
            headers=self._headers,
            qos=self._qos,
            retain=False,
            publisher=self._client.name,
            received_ms=self._wall_ms,
            payload_bytes=sum([len(payload) for payload in self._payloads]),
        )
        self._closed.append(batch)
        self._payloads = []
        self._headers = []
