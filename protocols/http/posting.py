"""What a POST does: one message, or a batch of them, answered once they are safe."""

from typing import TYPE_CHECKING, final

import orjson

from messaging.batch import MessageBatch
from messaging.headers import Headers
from protocols.destination import Destination
from protocols.http.batches import Entry, read_batch
from protocols.http.destinations import destination_of_name, destination_of_path
from protocols.http.message_in import read_attributes
from protocols.http.message_out import response_headers
from protocols.http.problems import BAD_REQUEST, REPLY_TIMEOUT, TOO_LARGE, HttpProblem
from protocols.http.publishing import Run
from protocols.http.replies import reply_wait_ms
from protocols.http.requests import OK, Request

if TYPE_CHECKING:
    from protocols.http.connection import HttpConnection

MULTI_STATUS = 207


async def post(connection: "HttpConnection", request: Request, extra: list[tuple[bytes, bytes]]) -> None:
    """Publish what a request brings and answer it; `extra` are headers of the answer.

    Raises HttpProblem and ClientLeft.
    """
    destination = destination_of_path(request.raw_path)
    body = await request.body(connection.services.limits.body_bytes_max)
    kind = request.header("sluicegate-batch").strip().lower()
    if kind:
        await _post_batch(
            connection,
            request,
            destination,
            read_batch(kind, request.header("content-type"), body, connection.services.limits.batch_messages_max),
            extra,
        )
        return
    wait = request.header("solace-reply-wait-time-in-ms")
    wait_ms = reply_wait_ms(wait) if wait else 0
    if wait and request.header("solace-reply-to-destination"):
        raise HttpProblem(
            BAD_REQUEST, "Solace-Reply-Wait-Time-In-ms and Solace-Reply-To-Destination exclude each other"
        )
    if wait:
        await ask(connection, request, destination, request.fields, body, wait_ms, extra)
        return
    runs = _Runs(connection)
    runs.add(destination, request.fields, body)
    problem = (await connection.publish(runs.runs()))[0]
    if problem is not None:
        raise problem
    await request.answer(OK, headers=extra)


async def ask(
    connection: "HttpConnection",
    request: Request,
    destination: Destination,
    fields: list[tuple[str, str]],
    body: bytes,
    wait_ms: int,
    extra: list[tuple[bytes, bytes]],
) -> None:
    """Publish a message and answer the request with the first reply to it.

    Raises HttpProblem and ClientLeft.
    """
    runs = _Runs(connection)
    runs.add(destination, fields, body, reply_to=await connection.replies.expect())
    problem = (await connection.publish(runs.runs()))[0]
    if problem is not None:
        raise problem
    reply = await connection.replies.reply(wait_ms)
    if reply is None:
        raise HttpProblem(REPLY_TIMEOUT, f"no reply within {wait_ms} ms", reason="Reply Timeout")
    connection.services.counters.messages_sent += 1
    told = response_headers(reply.headers, connection.runtime.clock.wall_ms())
    await request.answer(OK, reply.payload, [*told, *extra])


async def _post_batch(
    connection: "HttpConnection",
    request: Request,
    destination: Destination,
    entries: list[Entry],
    extra: list[tuple[bytes, bytes]],
) -> None:
    """Publish a batch and answer with one line for each message, in their order."""
    runs = _Runs(connection)
    for entry in entries:
        if entry.problem is not None:
            continue
        try:
            target = destination_of_name(entry.destination) if entry.destination else destination
            runs.add(target, entry.fields, entry.payload)
        except HttpProblem as misunderstood:
            entry.problem = misunderstood
    outcomes = iter(await connection.publish(runs.runs()))
    lines: list[bytes] = []
    failed = False
    for entry in entries:
        problem = entry.problem if entry.problem is not None else next(outcomes)
        failed = failed or problem is not None
        lines.append(orjson.dumps(_result(problem)))
    body = b"\n".join(lines) + b"\n"
    await request.answer(MULTI_STATUS if failed else OK, body, [(b"content-type", b"application/x-ndjson"), *extra])


def _result(problem: HttpProblem | None) -> dict[str, int | str]:
    if problem is None:
        return {"status": OK}
    return {"status": problem.status, "reason": problem.reason, "detail": problem.detail}


@final
class _Runs:
    """Gathers messages into runs that go the same way."""

    def __init__(self, connection: "HttpConnection") -> None:
        self._connection = connection
        self._wall_ms = connection.runtime.clock.wall_ms()
        self._runs: list[Run] = []
        self._destination: Destination | None = None
        self._qos = 0
        self._payloads: list[bytes] = []
        self._headers: list[Headers | None] = []

    def add(
        self, destination: Destination, fields: list[tuple[str, str]], payload: bytes, *, reply_to: str = ""
    ) -> None:
        """Add a message; `reply_to` is where its reply is waited for. Raises HttpProblem when it is none."""
        bytes_max = self._connection.services.limits.message_bytes_max
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

    def runs(self) -> list[Run]:
        """Return the runs, in the order of their messages."""
        self._close()
        return self._runs

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
            publisher=self._connection.client,
            received_ms=self._wall_ms,
            payload_bytes=sum([len(payload) for payload in self._payloads]),
        )
        self._runs.append(Run(self._destination, batch))
        self._payloads = []
        self._headers = []
