"""One HTTP connection: a client's transport, the HTTP on it, and what its requests ask of the broker.

What a POST of a message does is in `posting`, what consumers ask for in `consuming`.
"""

import logging
from typing import Any, Final

from actors.cell import ActorCell
from actors.data_messages import Confirmed, Refused, Resume
from actors.futures import LoopFuture
from actors.publishing import Publisher
from messaging.batch import MessageBatch
from messaging.client_rights import NOT_AUTHENTICATED, ClientDenied
from protocols.authentication import Principal
from protocols.http.consuming import end_flow, read_flow, read_queue, settle
from protocols.http.cross_origin import CrossOrigin
from protocols.http.delivery_forms import FLOW_PREFIX
from protocols.http.destinations import QUEUE_PREFIX
from protocols.http.engine import HttpStream, Receive, Send
from protocols.http.posting import post
from protocols.http.problems import (
    INTERNAL,
    METHOD_NOT_ALLOWED,
    REQUEST_TIMEOUT,
    UNAUTHORIZED,
    HttpProblem,
    refusal_problem,
)
from protocols.http.publishing import PublishingSide, Run
from protocols.http.readers import FlowReader
from protocols.http.relaying import relay
from protocols.http.replies import ReplyBox
from protocols.http.requests import NO_CONTENT, ClientLeft, Request
from protocols.http.services import HttpServices
from protocols.http.sign_in import SignIn
from protocols.identity import Identity
from protocols.reading_gate import ReadingGate
from protocols.transports import ByteTransport, PeerInfo

log = logging.getLogger("sluicegate.http")

QUEUE_PATH: Final = QUEUE_PREFIX.encode()
FLOW_PATH: Final = FLOW_PREFIX.encode()
FLOW_METHODS: Final = b"DELETE, GET, OPTIONS, POST"
QUEUE_METHODS: Final = b"GET, OPTIONS, POST"
TOPIC_METHODS: Final = b"OPTIONS, POST"


class HttpConnection:
    """One HTTP client. Its transport calls `opened`, `received`, `closed`; its actor brings messages.

    uvicorn hands over the requests of a connection one after the other. So a client whose destination is over its high
    mark is held back by not beginning its next request; the gate has no transport.
    """

    def __init__(self, cell: ActorCell, *, services: HttpServices) -> None:
        self.runtime = cell.runtime
        self.services = services
        self.gate = ReadingGate(cell.inbox)
        self.client = cell.name  # the origin of what it publishes
        self._cell = cell
        self.identity = Identity(services.clients, cell.runtime.clock)
        self._publishing = PublishingSide(
            Publisher(space=services.space, spool=services.spool, address=cell.inbox, rng=cell.runtime.rng)
        )
        self.replies = ReplyBox(cell, services.router, services.counters)
        self._clock = cell.runtime.clock
        self._counters = services.counters
        self._cross_origin = CrossOrigin(services.limits.allowed_origins)
        self._stream: HttpStream | None = None
        self._sign_in: SignIn | None = None
        self.peer_host = ""
        self.has_left = False  # the transport is gone
        self._peer_name = "?"
        self._since_ms = 0  # the first byte of a request's head, or the last of its body so far
        self._has_asked = False  # there was a request
        self._resumed: LoopFuture[None] | None = None  # somebody waits for the gate
        self._reader: FlowReader | None = None  # what the present request reads messages with

    def peer_name(self) -> str:
        """Return where the client is, for logs."""
        return self._peer_name

    # --- the transport ---

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Begin: the transport is ready."""
        self._counters.connected += 1
        self._since_ms = self._clock.now_ms()
        self.peer_host = peer.host
        self._peer_name = f"{peer.host}:{peer.port}"
        self._sign_in = SignIn(self.services.authenticator, peer, self._clock)
        self._stream = self.services.engine.begin(transport, peer, self._counters, self.serve)

    def received(self, data: bytes) -> None:
        """Handle bytes of the client."""
        self._counters.bytes_received += len(data)
        stream = self._stream
        assert stream is not None, "the transport comes before its bytes"
        if stream.in_body or stream.head_bytes == 0:
            self._since_ms = self._clock.now_ms()
        if not stream.feed(data):
            self._counters.count(self._counters.violated, "head_too_large")

    def closed(self, error: Exception | None) -> None:
        """The transport is gone."""
        self.has_left = True
        if self._stream is not None:
            self._stream.connection_lost(error)
        self._end_reading("")
        self._publishing.end()
        self.replies.end()
        self._let_on()
        self.identity.close()
        self._cell.stop()

    def writing_paused(self) -> None:
        """The client reads slower than we write."""
        if self._stream is not None:
            self._stream.pause_writing()

    def writing_resumed(self) -> None:
        """The client has caught up."""
        if self._stream is not None:
            self._stream.resume_writing()

    def tick(self, now_ms: int) -> None:
        """Bring time: a request that does not come to its end ends the connection (RFC 9110 15.5.9)."""
        stream = self._stream
        if stream is None or self._resumed is not None:
            return  # a client that we do not read from cannot send
        limits = self.services.limits
        silent_ms = now_ms - self._since_ms
        if stream.in_body:
            is_late = silent_ms > limits.body_timeout_ms
        else:
            is_late = silent_ms > limits.head_timeout_ms and (stream.head_bytes > 0 or not self._has_asked)
        if is_late:
            self._counters.count(self._counters.violated, "request_timeout")
            stream.refuse(REQUEST_TIMEOUT, "Request Timeout")

    # --- requests ---

    async def serve(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer one request."""
        self._has_asked = True
        request = Request(scope, receive, send)
        extra = self._cross_origin.headers(request)
        try:
            await self._answer(request, extra)
        except HttpProblem as problem:
            await request.answer_problem(problem, extra)
        except ClientLeft:
            log.debug("client at %s left within a request", self._peer_name)
        except Exception:
            log.exception("a request of the client at %s failed", self._peer_name)
            fault = HttpProblem(INTERNAL, "a fault of this broker; its log says more")
            await request.answer_problem(fault, extra)

    async def _answer(self, request: Request, extra: list[tuple[bytes, bytes]]) -> None:
        method = request.method
        if self.services.is_gateway:
            await self._relay(request, extra)
            return
        is_flow = request.raw_path.startswith(FLOW_PATH)
        is_queue = request.raw_path.startswith(QUEUE_PATH)
        methods = FLOW_METHODS if is_flow else QUEUE_METHODS if is_queue else TOPIC_METHODS
        if method == "OPTIONS":
            headers = self._cross_origin.preflight(request, methods)
            await request.answer(NO_CONTENT, headers=[(b"allow", methods), *headers])
            return
        if method.encode("latin-1", "replace") not in methods.split(b", "):
            detail = f"{method:.20}: here is {methods.decode()}"
            raise HttpProblem(METHOD_NOT_ALLOWED, detail, headers=[(b"allow", methods)])
        if method == "POST":
            await self._let_through()
        principal = await self._principal(request)
        if is_flow:
            if method == "GET":
                await read_flow(self, request, principal, extra)
            elif method == "POST":
                await settle(self, request, principal, extra)
            else:
                await end_flow(self, request, principal, extra)
        elif method == "GET":
            await read_queue(self, request, principal, extra)
        else:
            await post(self, request, extra)

    async def _relay(self, request: Request, extra: list[tuple[bytes, bytes]]) -> None:
        """Answer a request in gateway mode; only what a page asks of us itself is not relayed."""
        asked = request.header("access-control-request-method")
        if request.method == "OPTIONS" and asked:
            await request.answer(NO_CONTENT, headers=self._cross_origin.preflight(request, asked.encode("latin-1")))
            return
        await self._let_through()
        await self._principal(request)
        await relay(self, request, extra)

    async def _principal(self, request: Request) -> Principal:
        assert self._sign_in is not None, "the transport comes before its requests"
        try:
            principal = await self._sign_in.principal(request.header("authorization"))
        except HttpProblem as problem:
            if problem.status == UNAUTHORIZED:
                text = f"401 Unauthorized: HTTP client at {self._peer_name}: {problem.detail}"
                self.services.clients.denials.deny(NOT_AUTHENTICATED, self.client, text)
                self._counters.count(self._counters.refused, NOT_AUTHENTICATED)
            raise
        if self.identity.admitted() is None or self.identity.user != principal.user_name:
            self._admit(principal)
        return principal

    def _admit(self, principal: Principal) -> None:
        """Give the client its place, or another one when it has become somebody else. Raises HttpProblem."""
        self.identity.authenticated(principal)
        try:
            rights = self.identity.admit(self.client, self.peer_host)
        except ClientDenied as denied:
            self._counters.count(self._counters.refused, denied.reason)
            raise refusal_problem(denied.text, "") from None
        self._publishing.publisher.rights = rights
        self.gate.limit(rights)

    def reads(self, reader: FlowReader | None) -> None:
        """Note what the present request reads messages with: it ends with the connection, and when the node stops."""
        self._reader = reader

    def _end_reading(self, reason: str) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.ended(reason)

    async def publish(self, runs: list[Run]) -> list[HttpProblem | None]:
        """Publish runs of messages; return once they are safe: for each message a problem, or None."""
        self._counters.messages_received += sum([run.batch.count for run in runs])
        offered = self._publishing.publish(runs)
        self.gate.published(self._publishing.publisher.pressures, self._publishing.unanswered_count)
        return await self._publishing.outcomes(offered)

    async def _let_through(self) -> None:
        """Wait until every destination that this client feeds can take more."""
        while self.gate.stopped:
            resumed: LoopFuture[None] = LoopFuture()
            self._resumed = resumed
            await resumed
            self._since_ms = self._clock.now_ms()

    def _let_on(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.set()

    # --- messages of other actors ---

    def receive(self, message: Any) -> Any:
        """Handle confirmations, replies, or the word that a destination can take more."""
        if isinstance(message, Confirmed):
            self._publishing.confirmed(message.token)
        elif isinstance(message, Refused):
            self._publishing.confirmed(message.token, message.reason)
        elif isinstance(message, MessageBatch):
            self.replies.take(message)
        else:
            assert isinstance(message, Resume)
            self.gate.resume()
            if not self.gate.stopped:
                self._let_on()
        return None

    def drained(self) -> None:
        """Answers are written by those who wait for them."""

    # --- the end ---

    def shut_down(self) -> None:
        """The node stops: finish the request there is, and take no other."""
        if self._stream is not None:
            self._stream.shutdown()
        self._end_reading("the gateway stops")

    def fail(self) -> None:
        """Our own mistake costs this connection."""
        self._publishing.end()
        self.replies.end()
        self._end_reading("")
        if self._stream is not None:
            self._stream.transport.abort()
