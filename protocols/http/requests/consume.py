"""Requests of HTTP workers: read the messages of a queue, and settle them.

`GET /QUEUE/name` binds a flow and reads it; the answer says where it is read on, `/FLOW/id`, and where each message is
settled, `/FLOW/id/number`. `DELETE /FLOW/id` ends it. Flows, and when they end by themselves, are in `consuming.flow`.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import orjson

from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.message.outcomes import OUTCOMES, REJECTED
from sluicegate.protocols.connection.unwritable import report_unwritable
from sluicegate.protocols.http.client import HttpClient
from sluicegate.protocols.http.codec.paths import Query, queue_of_path
from sluicegate.protocols.http.codec.requests import ClientLeft, Request
from sluicegate.protocols.http.codec.responses import (
    BAD_REQUEST,
    CONFLICT,
    NO_CONTENT,
    NOT_FOUND,
    OK,
    HttpProblem,
    refusal_problem,
)
from sluicegate.protocols.http.consuming.delivery_forms import (
    EVENTS_TYPE,
    FLOW_PREFIX,
    NDJSON_TYPE,
    SIGN_OF_LIFE,
    delivery_headers,
    delivery_line,
    event,
    settle_path,
)
from sluicegate.protocols.http.consuming.flow import (
    ANSWER_MESSAGES_MAX,
    HEARTBEAT_MS,
    STREAM_WINDOW,
    FlowOptions,
    HttpFlow,
    PollingReader,
    StreamingReader,
)
from sluicegate.protocols.http.consuming.unsettled import UnsettledMessage
from sluicegate.protocols.http.requests.browse import browse, selector_of
from sluicegate.protocols.security.authentication import Principal

NUMBERS_MAX: Final = 10_000  # deliveries that one request may name; more than a flow holds by default

W = TypeVar("W")

EXTEND: Final = "extend"

_NO_STORE: Final = (b"cache-control", b"no-store")
# For a published body: opened in a browser it runs no script, and has no origin, in particular not the broker's.
_NO_PAGE: Final = (
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
)
_READING: Final = ("max", "wait_s", "window")
_BINDING: Final = ("browse", "lock_s", "selector", *_READING)


async def read_queue(client: HttpClient, request: Request, principal: Principal) -> None:
    """Answer GET /QUEUE/name: bind a flow, and read it; or browse. Raises HttpProblem and ClientLeft."""
    queue_name = queue_of_path(request.raw_path)
    query = Query(request.raw_query)
    await client.whole(request, 0)
    if query.flag("browse"):
        await browse(client, request, query, queue_name, principal)
        return
    query.allow(_BINDING)
    seen = _last_seen(request)
    flow: HttpFlow | None = None
    if seen is not None:  # a browser connects again to where it began
        flow = client.services.flows.find(seen[0], principal.user_name)
        if flow is not None and flow.options.queue_name != queue_name:
            flow = None
    if flow is None:
        seen = None
        flow = await _bind(client, request, query, queue_name, principal)
    await _read(client, request, flow, query, None if seen is None else seen[1])


async def read_flow(client: HttpClient, request: Request, principal: Principal) -> None:
    """Answer GET /FLOW/id: read it on. Raises HttpProblem and ClientLeft."""
    flow, numbers = _found(client, request, principal)
    if numbers:
        raise HttpProblem(NOT_FOUND, "a delivery cannot be read again; GET /FLOW/id reads on")
    query = Query(request.raw_query)
    query.allow(_READING)
    await client.whole(request, 0)
    seen = _last_seen(request)
    after = seen[1] if seen is not None and seen[0] == flow.options.flow_id else None
    await _read(client, request, flow, query, after)


async def settle(client: HttpClient, request: Request, principal: Principal) -> None:
    """Answer POST /FLOW/id/numbers: the outcome of deliveries. Raises HttpProblem and ClientLeft."""
    flow, numbers = _found(client, request, principal)
    query = Query(request.raw_query)
    query.allow(("outcome",))
    outcome = query.text("outcome") or OUTCOMES[0]
    await client.whole(request, client.services.limits.body_bytes_max)  # its body is ignored
    chosen = _numbers(numbers)
    if outcome == EXTEND:
        not_unsettled = flow.extend(chosen)
    elif outcome in OUTCOMES:
        not_unsettled = await flow.settle(chosen, OUTCOMES.index(outcome))
    else:
        allowed = ", ".join((*OUTCOMES, EXTEND))
        raise HttpProblem(BAD_REQUEST, f"?outcome: {outcome!r:.80} is none of {allowed}")
    if not_unsettled:
        named = ",".join([str(each) for each in not_unsettled[:20]]) + ("..." if len(not_unsettled) > 20 else "")
        raise HttpProblem(
            CONFLICT,
            f"deliveries {named} are not held: settled before, or taken back; the others are done",
            reason="Not Held",
        )
    request.answer(NO_CONTENT)


async def end_flow(client: HttpClient, request: Request, principal: Principal) -> None:
    """Answer DELETE /FLOW/id. Raises HttpProblem and ClientLeft."""
    flow, numbers = _found(client, request, principal)
    if numbers:
        raise HttpProblem(BAD_REQUEST, "a delivery is settled by POST; DELETE /FLOW/id ends the flow")
    await client.whole(request, 0)
    flow.end("its worker has ended it")
    request.answer(NO_CONTENT)


# --- binding ---


async def _bind(client: HttpClient, request: Request, query: Query, queue_name: str, principal: Principal) -> HttpFlow:
    services = client.services
    rights = client.identity.rights
    limits = services.limits
    lock_s = query.number("lock_s", limits.lock_ms // 1000, 1, limits.lock_ms_max // 1000)
    options = FlowOptions(
        services.flows.new_id(),
        queue_name=queue_name,
        user=principal.user_name,
        host=client.peer_host,
        client=request.header("solace-client-name") or client.name,
        lock_ms=lock_s * 1000,
        unsettled_max=limits.unsettled_max,
    )
    try:
        rights.check_flow(0)  # how many there may be, `HttpFlows` says
        return await services.flows.bind(
            options,
            selector_of(services.selectors, query),
            rights,
            flows_max=limits.flows_max,
            flows_per_client_max=limits.flows_per_client_max,
        )
    except ClientDenied as denied:
        raise refusal_problem(denied.text, "") from None


def _found(client: HttpClient, request: Request, principal: Principal) -> tuple[HttpFlow, str]:
    """Return the flow of a path, and what stands behind it. Raises HttpProblem."""
    flow_id, _, rest = request.raw_path.decode("latin-1")[len(FLOW_PREFIX) :].partition("/")
    flow = client.services.flows.find(flow_id, principal.user_name)
    if flow is None:
        raise HttpProblem(
            NOT_FOUND, f"there is no flow {flow_id!r:.80}: it has ended, or never existed", reason="No Flow"
        )
    flow.use()
    return flow, rest


def _last_seen(request: Request) -> tuple[str, int] | None:
    """Return flow and number of the last delivery that a client has seen of a stream before. Raises HttpProblem."""
    value = request.header("last-event-id")
    if not value:
        return None
    flow_id, _, number = value.partition("/")
    if not number.isascii() or not number.isdigit() or len(number) > 18:
        raise HttpProblem(BAD_REQUEST, f"Last-Event-ID: {value!r:.80} is not the id of an event of this broker")
    return flow_id, int(number)


def _numbers(text: str) -> list[int]:
    """Return the deliveries that a path names: `7`, `7-9`, `7,9-12`. Raises HttpProblem."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = [first, last] if dash else [first]
        if not all(each.isascii() and each.isdigit() and len(each) <= 18 for each in ends):
            raise HttpProblem(BAD_REQUEST, f"{text!r:.80} names no deliveries; allowed: 7, 7-9 or 7,9-12")
        low, high = int(ends[0]), int(ends[-1])
        if high - low + 1 + len(numbers) > NUMBERS_MAX:
            raise HttpProblem(BAD_REQUEST, f"{text!r:.80} names more than {NUMBERS_MAX} deliveries")
        numbers += range(low, high + 1)
    return numbers


# --- reading ---


async def _read(
    client: HttpClient,
    request: Request,
    flow: HttpFlow,
    query: Query,
    after: int | None,
) -> None:
    accepted = request.header("accept").lower()
    if "text/event-stream" in accepted:
        window = query.number("window", STREAM_WINDOW, 1, client.services.limits.unsettled_max)
        await _stream(client, request, flow, window, after)
        return
    is_lines = "ndjson" in accepted
    count_max = query.number("max", 1, 1, ANSWER_MESSAGES_MAX if is_lines else 1)
    wait_ms = query.number("wait_s", 0, 0, client.services.limits.wait_ms_max // 1000) * 1000
    poll = PollingReader(flow, count_max=count_max)
    client.read_with(poll)
    flow.read(poll, after=after)
    await poll.wait(wait_ms)
    messages = [] if poll.end_reason else flow.unsettled.show(count_max)
    flow.leave(poll)
    client.read_with(None)
    if client.has_left:
        raise ClientLeft
    if poll.end_reason:
        raise HttpProblem(CONFLICT, f"the flow can no longer be read here: {poll.end_reason}", reason="Flow Ended")
    fields = _flow_headers(flow)
    wall_ms = client.runtime.clock.wall_ms()
    flow_id = flow.options.flow_id
    if is_lines:
        lines = _written(client, flow, messages, lambda each: delivery_line(flow_id, each, wall_ms))
        if lines:
            body = b"".join([line + b"\n" for _, line in lines])
            request.answer(OK, body, [(b"content-type", NDJSON_TYPE), *fields])
    else:
        for only, headers in _written(client, flow, messages, lambda each: delivery_headers(each, wall_ms)):
            settled_at = (b"sluicegate-settle", settle_path(flow_id, only).encode("ascii"))
            request.answer(OK, only.payload(), [*headers, *_NO_PAGE, settled_at, *fields])
    if not request.is_answered:
        request.answer(NO_CONTENT, headers=fields)


def _written(
    client: HttpClient, flow: HttpFlow, messages: list[UnsettledMessage], write: Callable[[UnsettledMessage], W]
) -> list[tuple[UnsettledMessage, W]]:
    """Return messages with what `write` makes of each. Those it fails over are rejected
    (`protocols.connection.unwritable`).
    """
    services = client.services
    written: list[tuple[UnsettledMessage, W]] = []
    for message in messages:
        try:
            written.append((message, write(message)))
        except Exception as error:
            flow.settle_at_once(message.number, REJECTED)
            report_unwritable(services.events, services.counters, message.sequence, error, client=flow.options.client)
    if len(written) < len(messages):
        flow.review()
    client.count_sent(len(written))
    return written


def _flow_headers(flow: HttpFlow) -> list[tuple[bytes, bytes]]:
    partitions = ",".join([str(each) for each in flow.partitions])
    return [
        (b"sluicegate-flow", (FLOW_PREFIX + flow.options.flow_id).encode("ascii")),
        (b"sluicegate-flow-partitions", partitions.encode("ascii")),
        _NO_STORE,
    ]


async def _stream(
    client: HttpClient,
    request: Request,
    flow: HttpFlow,
    window: int,
    after: int | None,
) -> None:
    """Send messages as events until the client leaves or the flow ends."""
    clock = client.runtime.clock
    stream = StreamingReader(window=window, heartbeat_ms=HEARTBEAT_MS, now_ms=clock.now_ms())
    client.read_with(stream)
    flow.read(stream, after=after)
    try:
        client.begin_stream(request, [(b"content-type", EVENTS_TYPE), *_flow_headers(flow)])
        while stream.end_reason is None:
            data = _events(client, flow, stream, window)
            if data:
                await client.stream_more(request, data)
                stream.wrote(clock.now_ms())
            else:
                await stream.news()
        if stream.end_reason:
            ended = orjson.dumps({"reason": stream.end_reason})
            await client.stream_more(request, event("end", ended, ""))
        request.end_stream()
    finally:
        flow.leave(stream)
        client.read_with(None)


def _events(client: HttpClient, flow: HttpFlow, stream: StreamingReader, window: int) -> bytes:
    """Return what there is to write; nothing when there is nothing."""
    pieces: list[bytes] = []
    if stream.has_new_state:
        stream.has_new_state = False
        partitions = flow.partitions
        state = {"flow": FLOW_PREFIX + flow.options.flow_id, "active": bool(partitions), "partitions": partitions}
        pieces.append(event("state", orjson.dumps(state), ""))
    messages = flow.unsettled.show(window)
    wall_ms = client.runtime.clock.wall_ms()
    flow_id = flow.options.flow_id
    for message, line in _written(client, flow, messages, lambda each: delivery_line(flow_id, each, wall_ms)):
        pieces.append(event("message", line, f"{flow_id}/{message.number}"))
    if not pieces and stream.is_silent:
        pieces.append(SIGN_OF_LIFE)
    return b"".join(pieces)
