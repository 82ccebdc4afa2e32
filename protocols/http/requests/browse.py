"""Browsing over HTTP: a queue's messages without consuming them, as lines of JSON or as a stream that goes on.

The browser lasts for one request. Lines have no delivery to settle; `?after=SEQUENCE&partition=N` continues after one.
"""

from typing import Final, final

import orjson

from sluicegate.actors.messages.directory import FindQueue, QueueHandle
from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.actors.messages.queues import (
    BindBrowser,
    BindRefused,
    Browsed,
    BrowserBound,
    BrowserCredit,
    DrainFlow,
    FlowDrained,
    FlowGone,
    UnbindFlow,
)
from sluicegate.messaging.clients.rights import ClientDenied
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.selector import Selector, Selectors
from sluicegate.protocols.http.client import HttpClient
from sluicegate.protocols.http.codec.paths import Query
from sluicegate.protocols.http.codec.requests import ClientLeft, Request
from sluicegate.protocols.http.codec.responses import BAD_REQUEST, CONFLICT, OK, HttpProblem, refusal_problem
from sluicegate.protocols.http.consuming.delivery_forms import (
    EVENTS_TYPE,
    NDJSON_TYPE,
    SIGN_OF_LIFE,
    event,
    message_keys,
)
from sluicegate.protocols.http.consuming.flow import ANSWER_MESSAGES_MAX, HEARTBEAT_MS, STREAM_WINDOW, StreamingReader
from sluicegate.protocols.security.authentication import Principal

PROTOCOL: Final = "http"
SEQUENCE_MAX: Final = (1 << 63) - 1
PARTITION_MAX: Final = (1 << 31) - 1  # any number; which there are, the queue says
_FIELDS: Final = ("after", "browse", "max", "partition", "selector")


def selector_of(selectors: Selectors, query: Query) -> Selector | None:
    """Return the selector that a query asks for. Raises HttpProblem."""
    text = query.text("selector")
    try:
        return selectors.compile(text) if text else None
    except SelectorError as error:
        raise HttpProblem(BAD_REQUEST, f"?selector: {error}", reason="Invalid Selector") from None


@final
class BrowserInbox(Address):
    """Collects what a browser shows, and tells the reader that stands for the request."""

    def __init__(self, reader: StreamingReader) -> None:
        self.shown: list[BrowsedMessage] = []
        self.is_at_tail = False
        self._reader = reader

    def post(self, message: object) -> None:
        """Take messages of the browser, or its end."""
        if isinstance(message, Browsed):
            self.shown += message.messages
            self._reader.arrived()
        elif isinstance(message, FlowDrained):
            self.is_at_tail = True
            self._reader.arrived()
        else:
            assert isinstance(message, FlowGone)
            self._reader.ended(message.reason)


async def browse(
    client: HttpClient,
    request: Request,
    query: Query,
    queue_name: str,
    principal: Principal,
) -> None:
    """Answer GET /QUEUE/name?browse=true. Raises HttpProblem and ClientLeft."""
    query.allow(_FIELDS)
    try:
        client.identity.rights.check_receiving()
    except ClientDenied as denied:
        raise refusal_problem(denied.text, "") from None
    count_max = query.number("max", STREAM_WINDOW, 1, ANSWER_MESSAGES_MAX)
    named = FindQueue(queue_name, client.identity.rights, anywhere=True)
    handle: QueueHandle | None = await client.services.queues.ask(named)
    if handle is None:
        raise HttpProblem(BAD_REQUEST, f"there is no queue {queue_name!r:.300}", reason="Queue Not Found")
    stream = StreamingReader(window=count_max, heartbeat_ms=HEARTBEAT_MS, now_ms=client.runtime.clock.now_ms())
    shown = BrowserInbox(stream)
    wanted = BindBrowser(
        client.runtime.next_urn(),
        request.header("solace-client-name") or client.name,
        PROTOCOL,
        principal.user_name,
        shown,
        count_max,
        query.number("partition", 0, 0, PARTITION_MAX) if query.text("partition") else None,
        query.number("after", 0, 0, SEQUENCE_MAX),
        selector_of(client.services.selectors, query),
        rights=client.identity.rights,
    )
    try:
        bound: BrowserBound = await handle.cell.ask(wanted)
    except BindRefused as refusal:
        raise refusal_problem(str(refusal), "") from None
    try:
        client.read_with(stream)
        if "text/event-stream" in request.header("accept").lower():
            await _follow(client, request, bound, stream, shown)
        else:
            await _answer(client, request, bound, stream, shown, wanted)
    finally:
        client.read_with(None)
        handle.cell.inbox.post(UnbindFlow(wanted.flow_id))


async def _answer(
    client: HttpClient,
    request: Request,
    bound: BrowserBound,
    stream: StreamingReader,
    shown: BrowserInbox,
    wanted: BindBrowser,
) -> None:
    """Answer with what there is now. Raises HttpProblem when the browser ends before that: a short page is the last."""
    bound.browser.inbox.post(DrainFlow(wanted.flow_id, 1))
    while not shown.is_at_tail and len(shown.shown) < wanted.window and stream.end_reason is None:
        await stream.news()
    if client.has_left:
        raise ClientLeft
    if not shown.is_at_tail and len(shown.shown) < wanted.window:
        text = f"browsing ended before the page was complete: {stream.end_reason}"
        raise HttpProblem(CONFLICT, text, reason="Browser Ended")
    wall_ms = client.runtime.clock.wall_ms()
    client.count_sent(len(shown.shown))
    body = b"".join([_line(each, wall_ms) + b"\n" for each in shown.shown])
    fields = [(b"content-type", NDJSON_TYPE), (b"cache-control", b"no-store")]
    request.answer(OK, body, fields)


async def _follow(
    client: HttpClient,
    request: Request,
    bound: BrowserBound,
    stream: StreamingReader,
    shown: BrowserInbox,
) -> None:
    """Send what there is, and what comes, until the client leaves."""
    clock = client.runtime.clock
    fields = [(b"content-type", EVENTS_TYPE), (b"cache-control", b"no-store")]
    client.begin_stream(request, fields)
    while stream.end_reason is None:
        found = shown.shown
        shown.shown = []
        wall_ms = clock.wall_ms()
        if found or stream.is_silent:
            client.count_sent(len(found))
            events = [event("message", _line(each, wall_ms), "") for each in found]
            await client.stream_more(request, b"".join(events) or SIGN_OF_LIFE)
            stream.wrote(clock.now_ms())
            if found:
                bound.browser.inbox.post(BrowserCredit(len(found)))
        else:
            await stream.news()
    if stream.end_reason:
        await client.stream_more(request, event("end", orjson.dumps({"reason": stream.end_reason}), ""))
    request.end_stream()


def _line(message: BrowsedMessage, wall_ms: int) -> bytes:
    line = message_keys(message.batch, message.row, wall_ms)
    line["partition"] = message.partition_number
    line["sequence"] = message.sequence
    line["redelivered"] = message.redelivered
    line["delivery_count"] = message.delivery_count
    line["in_flight"] = message.in_flight
    return orjson.dumps(line)
