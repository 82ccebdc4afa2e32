"""One HTTP connection: a client's transport, the HTTP on it, and whose turn it is among its requests.

What a request is, and what it asks of the broker, is in `serving`; the HTTP itself in `engine`.
"""

import logging
from typing import Any, Final

from sluicegate.actors.messages.data import Confirmed, Refused, Resume
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell, Behaviour
from sluicegate.messaging.clients.rights import NOT_AUTHENTICATED, ClientDenied
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.protocols.connection.identity import Identity
from sluicegate.protocols.connection.message_vpns import MessageVpns
from sluicegate.protocols.connection.read_control import ReadControl
from sluicegate.protocols.http.authentication import SignIn
from sluicegate.protocols.http.codec.engine import HttpEngine
from sluicegate.protocols.http.codec.message_in import VPN_HEADER
from sluicegate.protocols.http.codec.problems import (
    INTERNAL,
    REQUEST_TIMEOUT,
    UNAUTHORIZED,
    HttpProblem,
    refusal_problem,
)
from sluicegate.protocols.http.codec.requests import ClientLeft, Request
from sluicegate.protocols.http.consuming.flow import FlowReader
from sluicegate.protocols.http.cors import CrossOrigin
from sluicegate.protocols.http.publishing.publishing import PublishingSide, Submission
from sluicegate.protocols.http.publishing.request_reply import ReplyBox
from sluicegate.protocols.http.router import serve, serve_at_once
from sluicegate.protocols.http.services import HttpServices
from sluicegate.protocols.security.authentication import Principal
from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo
from sluicegate.protocols.transport.unfinished import COUNTED_BYTES_MIN, COUNTER, TEXT, UnfinishedShare

log = logging.getLogger("sluicegate.http")

RETRY_AFTER: Final = b"5"  # seconds: for a body that there was no room for


class HttpConnection(Behaviour):
    """One HTTP client. Its transport calls `opened`, `received`, `closed`; its actor brings messages.

    Requests are begun in their order. One that waits for anything but the store has all before it answered and none
    behind it begun; publishes may follow one another, as their messages do. So a client whose destination is over its
    high mark is held back by not beginning its next request, and by not reading what comes behind that.
    """

    cross_origin: CrossOrigin  # from `opened` on

    def __init__(self, cell: ActorCell, vpns: MessageVpns[HttpServices]) -> None:
        self.runtime = cell.runtime
        services = vpns.default
        self.vpns = vpns
        self.services = services  # of the message VPN that the latest request was for
        self.read_control = ReadControl(cell.inbox)
        self.client = cell.name  # the origin of what it publishes
        self.identity = Identity(services.clients, cell.runtime.clock)
        self.replies = ReplyBox(cell, services.router, services.counters)
        self.peer_host = ""
        self.has_left = False  # the transport is gone
        self._cell = cell
        self._listener_services = services
        self._publishing = PublishingSide(self._publisher(services))
        self._clock = cell.runtime.clock
        self._counters = services.counters
        self._engine = HttpEngine(services.heads)
        self._transport: ByteTransport | None = None
        self._unfinished: UnfinishedShare | None = None  # of a request that is not whole, if much of it has come
        self._sign_in: SignIn | None = None
        self._peer_name = "?"
        self._since_ms = 0  # the first byte of a head, the last of a body so far, or the last answer
        self._ticked_ms = 0
        self._body: Request | None = None  # whose body came when time was brought last
        self._body_ms = 0  # for how long it has come since it was first seen so
        self._has_asked = False  # there was a request
        self._served: Request | None = None  # that has a task
        self._reading_paused = False
        self._writable: LoopFuture[None] | None = None  # the client reads slower than we write
        self._unread_bytes = 0  # that it had not taken when we last looked
        self._resumed: LoopFuture[None] | None = None  # somebody waits for the gate
        self._reader: FlowReader | None = None  # what the present request reads messages with
        self._reading_end: str | None = None  # why no request reads any more

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
        self._listener_services = self.vpns.of_listener(peer.listener)
        self._sign_in = SignIn(self.vpns, peer, self._clock)
        self.cross_origin = CrossOrigin(self._listener_services.pages[peer.listener])
        self._transport = transport

    def received(self, data: bytes) -> None:
        """Handle bytes of the client."""
        self._counters.bytes_received += len(data)
        engine = self._engine
        if not engine.in_head:
            self._since_ms = self._clock.now_ms()
        engine.feed(data)
        self._go_on()
        self._count_unfinished()

    def _count_unfinished(self) -> None:
        """Count what has come of a request that is not whole among those of all clients."""
        held_bytes = self._engine.unfinished_bytes
        if held_bytes >= COUNTED_BYTES_MIN or self._unfinished is not None:
            self._unfinished = self.services.unfinished.count(self._unfinished, held_bytes, self._give_up)

    def _give_up(self) -> None:
        self._cell.after(0, self._end_unfinished)

    def _end_unfinished(self) -> None:
        """End, unless the request has become whole meanwhile: all clients together have begun too much."""
        engine = self._engine
        if engine.unfinished_bytes >= COUNTED_BYTES_MIN and (engine.in_head or engine.in_body):
            log.info("connection of client at %s ends: %s", self._peer_name, TEXT)
            problem = refusal_problem(TEXT, "")
            problem.headers.append((b"retry-after", RETRY_AFTER))
            engine.refuse(problem, COUNTER)
            self._go_on()

    def closed(self, error: Exception | None) -> None:
        """The transport is gone."""
        self.has_left = True
        self._transport = None
        self._engine.end()
        self._count_unfinished()
        self._end_reading("")
        self._publishing.end()
        self.replies.end()
        self._let_on()
        self.writing_resumed()
        self.identity.close()
        self._cell.stop()

    def writing_paused(self) -> None:
        """The client reads slower than we write."""
        self._writable = LoopFuture()
        self._since_ms = self._clock.now_ms()

    def writing_resumed(self) -> None:
        """The client has caught up."""
        writable, self._writable = self._writable, None
        if writable is not None:
            writable.set()
            self._go_on()

    @property
    def is_writing_paused(self) -> bool:
        """Whether the client reads slower than we write."""
        return self._writable is not None

    def tick(self, now_ms: int) -> None:
        """Bring time: a request that does not come to an end ends the connection (RFC 9110 15.5.9), so does silence."""
        if self._reader is not None:
            if self.identity.is_over():
                self._reader.ended("the token has expired")
            self._reader.tick(now_ms)
        if self._writable is not None:
            self._look_for_progress(now_ms)
        passed_ms, self._ticked_ms = now_ms - self._ticked_ms, now_ms
        engine = self._engine
        if self._transport is None or self._reading_paused or self._resumed is not None or engine.awaits_our_word:
            return  # a client that we do not read from cannot send, nor does one that waits for our word
        limits = self.services.limits
        silent_ms = now_ms - self._since_ms
        body = engine.coming
        self._body_ms = self._body_ms + passed_ms if body is self._body else 0
        self._body = body
        if body is not None:
            due_ms = limits.body_timeout_ms + body.body_bytes * 1000 // limits.body_rate_min
            is_late = silent_ms > limits.body_timeout_ms or self._body_ms > due_ms
        else:
            is_late = silent_ms > limits.head_timeout_ms and (engine.in_head or not self._has_asked)
        if is_late:
            engine.refuse(
                HttpProblem(REQUEST_TIMEOUT, "the request did not come to its end in time"), "request_timeout"
            )
            self._go_on()
        elif engine.is_idle and silent_ms > limits.keep_alive_ms:
            engine.shut()
            self._go_on()

    def _look_for_progress(self, now_ms: int) -> None:
        """Cut off a client that takes nothing of its answer: nothing else would end it, or free what waits for it."""
        transport = self._transport
        if transport is None:
            return
        unread_before, self._unread_bytes = self._unread_bytes, transport.buffered_bytes()
        if self._unread_bytes < unread_before:
            self._since_ms = now_ms
        elif now_ms - self._since_ms > self.services.limits.body_timeout_ms:
            self._counters.count(self._counters.violated, "answer_not_read")
            log.info("client at %s takes nothing of its answer", self._peer_name)
            self._transport = None
            transport.abort()

    # --- whose turn it is ---

    def _go_on(self) -> None:
        """Begin the requests whose turn it is, write what is answered, and read on or not."""
        self._begin()
        while self._write():  # the next one may have waited for that
            self._begin()
        transport = self._transport
        if transport is None:
            return
        holds_back = self._engine.holds_back or self._writable is not None
        if holds_back != self._reading_paused:
            self._reading_paused = holds_back
            if holds_back:
                transport.pause_reading()
            else:
                self._since_ms = self._clock.now_ms()
                transport.resume_reading()

    def _write(self) -> bool:
        """Write what is answered; return whether there was anything, and more may follow."""
        engine = self._engine
        data = engine.take()
        transport = self._transport
        if transport is None:
            return False
        if data:
            self._since_ms = self._clock.now_ms()
            self._counters.bytes_sent += len(data)
            transport.write(data)
        if not engine.is_over:
            return len(data) > 0
        if engine.violation:
            self._counters.count(self._counters.violated, engine.violation)
        self._transport = None
        transport.close_after_flush()
        return False

    def _begin(self) -> None:
        """Begin the requests whose turn it is."""
        engine = self._engine
        while self._served is None and self._writable is None:
            engine.go_on()
            request = engine.next_request()
            if request is None:
                return
            self._has_asked = True
            try:
                self._check_page(request)
                is_served = serve_at_once(self, request)
            except Exception as error:
                self._failed(request, error)
                is_served = True
            if not is_served:
                if engine.begun_count > 0:
                    return
                self._served = request
                self.runtime.keep(self.runtime.loop.create_task(self._serve(request)))
            engine.begin()

    async def _serve(self, request: Request) -> None:
        try:
            await serve(self, request)
        except Exception as error:
            self._failed(request, error)
        self._served = None
        self._go_on()

    def _failed(self, request: Request, error: Exception) -> None:
        if isinstance(error, HttpProblem):
            request.answer_problem(error)
        elif isinstance(error, ClientLeft):
            log.debug("client at %s left within a request", self._peer_name)
        else:
            log.error("a request of the client at %s failed", self._peer_name, exc_info=error)
            request.answer_problem(HttpProblem(INTERNAL, "a fault of this broker; its log says more"))

    def _check_page(self, request: Request) -> None:
        """Refuse what a web page has sent that may not use this port. Raises HttpProblem."""
        foreign = self.cross_origin.refusal(request)
        if foreign is not None:
            text = f"{foreign.status} {foreign.title}: HTTP client at {self._peer_name}: {foreign.detail}"
            self._listener_services.clients.denials.deny(foreign.reason, self.client, text)
            self._counters.count(self._counters.refused, foreign.reason)
            raise HttpProblem(foreign.status, foreign.detail, reason=foreign.title)

    # --- what requests need ---

    async def whole(self, request: Request, bytes_max: int) -> bytes:
        """Return the body of a request, once all of it is there. Raises HttpProblem and ClientLeft."""
        request.check_size(bytes_max)
        request.read()
        while not request.is_whole and not request.is_answered:
            self._go_on()
            await request.more()
            request.check_size(bytes_max)
        return request.body(bytes_max)

    def begin_stream(self, request: Request, headers: list[tuple[bytes, bytes]]) -> None:
        """Begin an answer that lasts: its head goes out at once, whenever there is something to say behind it."""
        request.begin_stream(headers)
        self._go_on()

    async def stream(self, request: Request, data: bytes) -> None:
        """Give more of an answer; return when the client's socket takes more again."""
        request.stream(data)
        self._go_on()
        if self._writable is not None:
            await self._writable

    def services_of(self, request: Request) -> HttpServices:
        """Return the services of the message VPN of a request, by its header or its listener. Raises HttpProblem."""
        name = request.header(VPN_HEADER)
        if not name:
            return self._listener_services
        try:
            return self.vpns.named(name, self._listener_services, self.client)
        except ClientDenied as denied:
            raise self._refused(denied) from None

    def is_known(self, request: Request, here: HttpServices) -> bool:
        """Return whether it is known at once who sends a request, who then has a place. Raises HttpProblem."""
        assert self._sign_in is not None, "the transport comes before its requests"
        try:
            principal = self._sign_in.known(request.header("authorization"), here)
        except HttpProblem as problem:
            self._denied(problem)
            raise
        if principal is None:
            return False
        self._enter(self._sign_in.services)
        self._admit(principal)
        return True

    async def principal(self, request: Request, here: HttpServices) -> Principal:
        """Return who sends a request, who then has a place. Raises HttpProblem."""
        assert self._sign_in is not None, "the transport comes before its requests"
        try:
            principal = await self._sign_in.principal(request.header("authorization"), here)
        except ClientDenied as denied:
            raise self._refused(denied) from None
        except HttpProblem as problem:
            self._denied(problem)
            raise
        self._enter(self._sign_in.services)
        self._admit(principal)
        return principal

    def _denied(self, problem: HttpProblem) -> None:
        assert self._sign_in is not None, "the transport comes before its requests"
        if problem.status == UNAUTHORIZED:
            text = f"401 Unauthorized: HTTP client at {self._peer_name}: {problem.detail}"
            self._sign_in.services.clients.denials.deny(NOT_AUTHENTICATED, self.client, text)
            self._counters.count(self._counters.refused, NOT_AUTHENTICATED)

    def _admit(self, principal: Principal) -> None:
        """Give the client its place, or another one when it has become somebody else. Raises HttpProblem."""
        is_same = self.identity.user == principal.user_name
        self.identity.authenticated(principal)
        if is_same and self.identity.admitted() is not None:
            return
        try:
            rights = self.identity.admit(self.client, self.peer_host)
        except ClientDenied as denied:
            raise self._refused(denied) from None
        self._publishing.publisher.rights = rights
        self.read_control.limit(rights)

    def _refused(self, denied: ClientDenied) -> HttpProblem:
        """Count a request that is not let in; return what it is answered."""
        self._counters.count(self._counters.refused, denied.reason)
        return refusal_problem(denied.text, "")

    def _enter(self, services: HttpServices) -> None:
        """Be in the message VPN of these services from this request on. What went before goes on in its own."""
        if services is self.services:
            return
        self.services = services
        self.identity.enter(services.clients)
        self._publishing.publisher = self._publisher(services)
        self.replies.end()
        self.replies = ReplyBox(self._cell, services.router, services.counters)

    def _publisher(self, services: HttpServices) -> Publisher:
        address, rng = self._cell.inbox, self.runtime.rng
        return Publisher(space=services.space, spool=services.spool, address=address, rng=rng)

    def reads(self, reader: FlowReader | None) -> None:
        """Note what the present request reads messages with: it ends with the connection, and when the node stops.

        Either may have come while the request waited for what it reads from.
        """
        self._reader = reader
        if self._reading_end is not None:
            self._end_reading(self._reading_end)

    def _end_reading(self, reason: str) -> None:
        self._reading_end = reason
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.ended(reason)

    def publish(self, batches: list[MessageBatch], submission: Submission) -> None:
        """Publish batches, each of one destination; the submission hears what becomes of each."""
        self._counters.messages_received += sum([batch.count for batch in batches])
        self._publishing.publish(batches, submission)
        self.read_control.published(self._publishing.publisher.pressures, self._publishing.unanswered_count)

    async def let_through(self) -> None:
        """Wait until every destination that this client feeds can take more. Raises ClientLeft."""
        while self.read_control.stopped:
            resumed: LoopFuture[None] = LoopFuture()
            self._resumed = resumed
            await resumed
            if self.has_left:
                raise ClientLeft
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
            self._answered()
        elif isinstance(message, Refused):
            self._publishing.confirmed(message.token, message)
            self._answered()
        elif isinstance(message, MessageBatch):
            self.replies.take(message)
        else:
            assert isinstance(message, Resume)
            self.read_control.resume()
            if not self.read_control.stopped:
                self._let_on()
        return None

    def drained(self) -> None:
        """Write what was answered in this turn."""
        self._go_on()

    def _answered(self) -> None:
        self.read_control.answered(self._publishing.unanswered_count)
        if not self.read_control.stopped:
            self._let_on()

    # --- the end ---

    def send_away(self, reason: str, *, node_stops: bool = False) -> None:
        """Finish the requests that are begun, and take no other: operators want it so, or the node stops."""
        self._engine.shut()
        self._end_reading(reason)
        self._go_on()

    def fail(self) -> None:
        """Our own mistake costs this connection."""
        self._publishing.end()
        self.replies.end()
        self._end_reading("")
        if self._transport is not None:
            self._transport.abort()
