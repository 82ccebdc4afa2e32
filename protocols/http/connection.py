"""One HTTP connection: a client's transport, the HTTP on it, and the order of its requests.

Bytes and messages of other actors come in, requests are begun in their turn, and responses go out. The meaning of a
request is in `router`; what requests need of a client in `client`; HTTP itself in `codec.engine`.
"""

import logging
from typing import Any, Final, final

from sluicegate.actors.messages.data import Confirmed, PublishFailed, Resume
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.protocols.connection.message_vpns import MessageVpns
from sluicegate.protocols.http.client import CrossOrigin, HttpClient, HttpServices, SignIn
from sluicegate.protocols.http.codec.engine import HttpEngine
from sluicegate.protocols.http.codec.requests import ClientLeft, Request
from sluicegate.protocols.http.codec.responses import (
    INTERNAL,
    REQUEST_TIMEOUT,
    HttpProblem,
    refusal_problem,
)
from sluicegate.protocols.http.router import serve, serve_at_once
from sluicegate.protocols.transport.interface import ByteTransport, PeerInfo
from sluicegate.protocols.transport.stream.user import StreamUser
from sluicegate.protocols.transport.unfinished import COUNTED_BYTES_MIN, COUNTER, TEXT, UnfinishedShare

log = logging.getLogger("sluicegate.http")

RETRY_AFTER: Final = b"5"  # seconds: for a body that there was no room for


@final
class HttpConnection(HttpClient, StreamUser):
    """One HTTP client. Its transport calls `opened`, `received`, `closed`; its actor brings messages.

    Requests are begun in their order. One that waits for anything but the store has all before it answered and none
    behind it begun; publishes may follow one another, as their messages do. So a client whose destination is over its
    high mark is held back by not beginning its next request, and by not reading what comes behind that.
    """

    def __init__(self, cell: ActorCell, vpns: MessageVpns[HttpServices]) -> None:
        super().__init__(cell, vpns)
        self._engine = HttpEngine(self.services.heads)
        self._transport: ByteTransport | None = None
        self._unfinished: UnfinishedShare | None = None  # of a request that is not whole, if much of it has come
        self._ticked_ms = 0
        self._body: Request | None = None  # whose body came when time was brought last
        self._body_ms = 0  # for how long it has come since it was first seen so
        self._had_request = False  # there was a request
        self._served: Request | None = None  # that has a task
        self._reading_paused = False
        self._unread_bytes = 0  # that it had not taken when we last looked

    # --- the transport ---

    def opened(self, transport: ByteTransport, peer: PeerInfo) -> None:
        """Begin: the transport is ready."""
        if self._visitor is None:  # else it is a part of a connection of another broker
            self.counters.connected += 1
        self.since_ms = self._clock.now_ms()
        self.peer = peer
        self.peer_host = peer.host
        self._peer_name = f"{peer.host}:{peer.port}"
        self.listener_services = self.vpns.of_listener(peer.listener)
        self.sign_in = SignIn(self.vpns, peer, self._clock)
        self.cross_origin = CrossOrigin(self.listener_services.pages[peer.listener])
        self._transport = transport

    @property
    def stream(self) -> ByteTransport | None:
        """What is written to; None: it is gone."""
        return self._transport

    def write_to(self, stream: ByteTransport) -> None:
        """Write to another stream from now on, which leads to the same client."""
        self._transport = stream

    def is_within_packet(self) -> bool:
        """Return whether the beginning of a request has come, and its rest has not been looked at."""
        engine = self._engine
        return engine.in_head or engine.in_body or engine.has_unparsed

    def unanswered_requests(self) -> tuple[Request, ...]:
        """Return the requests whose heads have come and whose responses are not complete, oldest first."""
        return self._engine.unanswered()

    def trace_responses(self, begins: bool) -> None:
        """Note that a trace asks for `responding_requests` from now on, or does so no more."""
        engine = self._engine
        engine.traces_count += 1 if begins else -1
        if not engine.traces_count:
            engine.answered = []

    def responding_requests(self) -> tuple[Request, ...]:
        """Return the requests whose responses end in what was written last, and the oldest that is unanswered.

        It is known while a trace asks for it: see `trace_responses`.
        """
        return (*self._engine.answered, *self._engine.unanswered()[:1])

    def received(self, data: bytes) -> None:
        """Handle bytes of the client."""
        self.counters.bytes_received += len(data)
        self.traffic.bytes_received += len(data)
        engine = self._engine
        if not engine.in_head:
            self.since_ms = self._clock.now_ms()
        engine.feed(data)
        self.proceed()
        self._count_unfinished()

    def _count_unfinished(self) -> None:
        """Count the bytes of an unfinished request among those of all clients."""
        held_bytes = self._engine.unfinished_bytes
        if held_bytes >= COUNTED_BYTES_MIN or self._unfinished is not None:
            self._unfinished = self.services.unfinished.count(self._unfinished, held_bytes, self._give_up)

    def _give_up(self) -> None:
        self.cell.after(0, self._end_unfinished)

    def _end_unfinished(self) -> None:
        """End, unless the request is complete meanwhile: all clients together have too much unfinished input."""
        engine = self._engine
        if engine.unfinished_bytes >= COUNTED_BYTES_MIN and (engine.in_head or engine.in_body):
            log.info("disconnecting client at %s: %s", self._peer_name, TEXT)
            problem = refusal_problem(TEXT, "")
            problem.headers.append((b"retry-after", RETRY_AFTER))
            engine.refuse(problem, COUNTER)
            self.proceed()

    def closed(self, error: Exception | None) -> None:
        """The transport is gone."""
        self.has_left = True
        self._transport = None
        self._engine.end()
        self._count_unfinished()
        self.end_reading("")
        self.publishing.end()
        self.replies.end()
        self.resume_publishing()
        self.writing_resumed()
        self.identity.close()
        self.cell.stop()

    def writing_paused(self) -> None:
        """The client reads slower than we write."""
        self.writable = LoopFuture()
        self.since_ms = self._clock.now_ms()

    def writing_resumed(self) -> None:
        """The client has caught up."""
        writable, self.writable = self.writable, None
        if writable is not None:
            writable.set()
            self.proceed()

    @property
    def is_writing_paused(self) -> bool:
        """Whether the client reads slower than we write."""
        return self.writable is not None

    def tick(self, now_ms: int) -> None:
        """Check times: a request that is not complete in time ends the connection (RFC 9110 15.5.9); also silence."""
        if self.reader is not None:
            if self.identity.is_over(self.cell.runtime.clock):
                self.reader.ended("the token has expired")
            self.reader.tick(now_ms)
        if self.writable is not None:
            self._check_progress(now_ms)
        passed_ms, self._ticked_ms = now_ms - self._ticked_ms, now_ms
        engine = self._engine
        if self._transport is None or self._reading_paused or self.resumed is not None or engine.awaits_continue:
            return  # a client that we do not read from cannot send, nor does one that waits for our word
        limits = self.services.limits
        silent_ms = now_ms - self.since_ms
        body = engine.incoming
        self._body_ms = self._body_ms + passed_ms if body is self._body else 0
        self._body = body
        if body is not None:
            due_ms = limits.body_timeout_ms + body.body_bytes * 1000 // limits.body_rate_min
            is_late = silent_ms > limits.body_timeout_ms or self._body_ms > due_ms
        else:
            is_late = silent_ms > limits.head_timeout_ms and (engine.in_head or not self._had_request)
        if is_late:
            late = f"the head of the request was not complete within {limits.head_timeout_ms / 1000:g} s"
            if body is not None:
                late = f"the body was not complete after {max(silent_ms, self._body_ms) / 1000:.1f} s"
            engine.refuse(HttpProblem(REQUEST_TIMEOUT, late), "request_timeout")
            self.proceed()
        elif engine.is_idle and silent_ms > limits.keep_alive_ms:
            engine.shut()
            self.proceed()

    def stalled(self, stall_ms: int, now_ms: int) -> None:
        """Do not count a time in which this broker read nothing, and sent nothing."""
        self.since_ms = min(now_ms, self.since_ms + stall_ms)
        self._ticked_ms += stall_ms

    def _check_progress(self, now_ms: int) -> None:
        """Disconnect a client that does not read its response: nothing else would end it, or free that memory."""
        transport = self._transport
        if transport is None:
            return
        unread_before, self._unread_bytes = self._unread_bytes, transport.buffered_bytes()
        if self._unread_bytes < unread_before:
            self.since_ms = now_ms
        elif now_ms - self.since_ms > self.services.limits.body_timeout_ms:
            self.counters.count(self.counters.violated, "answer_not_read")
            log.info("client at %s does not read its response; disconnecting", self._peer_name)
            self._transport = None
            transport.abort()

    # --- whose turn it is ---

    def proceed(self) -> None:
        """Begin requests in their turn, write responses, and pause or resume reading."""
        self._begin()
        while self._write():  # the next one may have waited for that
            self._begin()
        transport = self._transport
        if transport is None:
            return
        holds_back = self._engine.holds_back or self.writable is not None
        if holds_back != self._reading_paused:
            self._reading_paused = holds_back
            if holds_back:
                transport.pause_reading()
            else:
                self.since_ms = self._clock.now_ms()
                transport.resume_reading()

    def _write(self) -> bool:
        """Write responses; return whether there were any, and more may follow."""
        engine = self._engine
        data = engine.take()
        transport = self._transport
        if transport is None:
            return False
        if data:
            self.since_ms = self._clock.now_ms()
            self.counters.bytes_sent += len(data)
            self.traffic.bytes_sent += len(data)
            transport.write(data)
        if not engine.is_over:
            return len(data) > 0
        if engine.violation:
            self.counters.count(self.counters.violated, engine.violation)
        self._transport = None
        transport.close_after_flush()
        return False

    def _begin(self) -> None:
        """Begin requests in their turn."""
        engine = self._engine
        while self._served is None and self.writable is None:
            engine.proceed()
            request = engine.next_request()
            if request is None:
                return
            self._had_request = True
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
        self.proceed()

    def _failed(self, request: Request, error: Exception) -> None:
        if isinstance(error, HttpProblem):
            request.answer_problem(error)
        elif isinstance(error, ClientLeft):
            log.debug("client at %s left during a request", self._peer_name)
        else:
            log.error("a request of the client at %s failed", self._peer_name, exc_info=error)
            request.answer_problem(HttpProblem(INTERNAL, "a fault of this broker; its log says more"))

    def _check_page(self, request: Request) -> None:
        """Refuse a request of a web page that may not use this port. Raises HttpProblem."""
        foreign = self.cross_origin.refusal(request)
        if foreign is not None:
            text = f"{foreign.status} {foreign.title}: HTTP client at {self._peer_name}: {foreign.detail}"
            self.listener_services.clients.denials.deny(foreign.reason, self.name, text)
            self.counters.count(self.counters.refused, foreign.reason)
            raise HttpProblem(foreign.status, foreign.detail, reason=foreign.title)

    # --- messages of other actors ---

    def receive(self, message: Any) -> Any:
        """Handle confirmations, replies, or the message that a destination can take more."""
        if isinstance(message, Confirmed):
            self.publishing.confirmed(message.token, None, self._clock.wall_ms())
            self._answered()
        elif isinstance(message, PublishFailed):
            self.publishing.confirmed(message.token, message)
            self._answered()
        elif isinstance(message, MessageBatch):
            self.replies.take(message)
        else:
            assert isinstance(message, Resume)
            self.read_control.resume()
            if not self.read_control.stopped:
                self.resume_publishing()
        return None

    def turn_ended(self) -> None:
        """Write the responses of this turn."""
        self.proceed()

    def _answered(self) -> None:
        self.read_control.answered(self.publishing.unanswered_count)
        if not self.read_control.stopped:
            self.resume_publishing()

    # --- the end ---

    def send_away(self, reason: str, *, node_stops: bool = False) -> None:
        """Finish the requests that are begun, and take no other: an operator ends the connection, or the node stops."""
        self._engine.shut()
        self.end_reading(reason)
        self.proceed()

    def fail(self) -> None:
        """A fault of the broker ends this connection."""
        self.publishing.end()
        self.replies.end()
        self.end_reading("")
        if self._transport is not None:
            self._transport.abort()
