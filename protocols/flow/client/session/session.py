"""The core of a client: one session over any number of connections. No socket, clock or event loop.

Its owner connects at `connect_at_ms`, and calls `connected`, `feed`, `tick`, `take` and `disconnected`;
`flows.take_news` returns the flows that have changed.

See also: `protocols.flow.engine.engine` (the wire); `flow_table` (frames of flows).
"""

from collections.abc import Callable
from typing import Final, final

from sluicegate.protocols.flow.client.errors import (
    AuthenticationRefused,
    ClientClosed,
    ConnectFailed,
    ConnectionBroken,
    FlowClientError,
)
from sluicegate.protocols.flow.client.events import ClientEvent, Connected, Disconnected
from sluicegate.protocols.flow.client.messages import Message
from sluicegate.protocols.flow.client.options import ClientOptions
from sluicegate.protocols.flow.client.session.authentication import Login
from sluicegate.protocols.flow.client.session.direct_inbox import DirectInbox
from sluicegate.protocols.flow.client.session.flow import NO_FLOW, ClientFlow
from sluicegate.protocols.flow.client.session.flow_table import OF_FLOWS, FlowTable
from sluicegate.protocols.flow.client.session.requests import Request, Requests
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.compression import DEFLATE
from sluicegate.protocols.flow.codec.frames.cursor import Positions, RangeCut
from sluicegate.protocols.flow.codec.frames.provision import Provisioned
from sluicegate.protocols.flow.codec.frames.session import (
    NO_REQUEST,
    Auth,
    AuthAnswer,
    Close,
    Error,
    Goaway,
    Hello,
    Welcome,
)
from sluicegate.protocols.flow.codec.frames.stage import StagingAnswer
from sluicegate.protocols.flow.codec.frames.subscription import Subscribed
from sluicegate.protocols.flow.codec.limits import FRAME_BYTES_MAX
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.flow.engine.events import DeliveriesReceived, FlowEvent, PeerViolated
from sluicegate.protocols.flow.engine.frame_rules import CLOSED
from sluicegate.protocols.flow.engine.frame_rules import PREFACE as BEFORE_PREFACE

# How long a client waits before it connects again.


STEADY_MS: Final = 5_000  # a connection that lasted so long makes the next delay short again
DOUBLINGS_MAX: Final = 30  # the maximum is reached long before


@final
class Backoff:
    """Delays that double, each drawn from the upper half of its range, so that clients do not reconnect together."""

    def __init__(self, *, first_s: float, max_s: float) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._attempts_count = 0  # since a connection last was steady

    def next_ms(self, lasted_ms: int, jitter: float) -> int:
        """Return the delay after a connection that lasted so long; `jitter` is from 0 up to 1."""
        if lasted_ms >= STEADY_MS:
            self._attempts_count = 0
        doubled_s = self._first_s * (1 << min(self._attempts_count, DOUBLINGS_MAX))
        self._attempts_count += 1
        return int(min(doubled_s, self._max_s) * 1000 * (0.5 + 0.5 * jitter))


PRODUCT: Final = "sluicegate-client"

# Errors that another connection would only repeat: wrong bytes, or an invalid request.
_LASTING: Final = frozenset(
    {
        codes.MALFORMED,
        codes.VERSION_UNKNOWN,
        codes.CRITICAL_UNKNOWN,
        codes.OUT_OF_TURN,
        codes.FLOW_ID_UNUSABLE,
        codes.VPN_NOT_ALLOWED,
    }
)


@final
class ClientSession:
    """One client. `error` is set when it is over for good."""

    def __init__(
        self,
        options: ClientOptions,
        *,
        random_bytes: Callable[[int], bytes],
        jitter: Callable[[], float],
        now_ms: int,
    ) -> None:
        self.options = options
        self.error: FlowClientError | None = None
        self.is_open = False
        self.is_draining = False  # the gateway stops: nothing new is sent
        self.connect_at_ms = now_ms  # when to make the next connection
        self.was_open = False
        self.requests = Requests(int(options.give_up_after_s * 1000))
        self.direct = DirectInbox()
        self.flows = FlowTable()
        self._random_bytes = random_bytes
        self._jitter = jitter  # a number from 0 up to 1
        self._engine: FlowEngine | None = None
        self._welcome: Welcome | None = None  # the gateway's, on the latest connection
        self._login: Login | None = None  # until it has let us in
        self._backoff = Backoff(first_s=options.reconnect_delay_s, max_s=options.reconnect_delay_max_s)
        self._opened_ms = 0  # when the gateway let us in on the present connection
        self._gone_ms: int | None = None  # since when there has been none
        self._is_closing = False
        self._reason = ""  # why the connection is about to end

    # --- the program's side ---

    def add(self, flow: ClientFlow, now_ms: int) -> None:
        """Open a flow now, and again on each connection."""
        self.check_running()
        self.flows.add(flow)
        if self.is_open and self._engine is not None:
            self.flows.open_with(self._engine, now_ms)

    def check_running(self) -> None:
        """Raise the error that has ended the session, if one has."""
        if self.error is not None:
            raise self.error.with_traceback(None)  # one error for all who ask

    def remove(self, flow: ClientFlow) -> None:
        """End a flow. It is ENDED once the gateway confirms, or at once without a connection."""
        self.flows.close(flow, self._engine)

    def take_events(self) -> list[ClientEvent]:
        """Return what happened since the last time."""
        events = self.flows.events + self.direct.events
        self.flows.events = []
        self.direct.events = []
        return events

    def ask(self, request: Request) -> None:
        """Send a request, now or when there is a connection; `requests.done` has it when it is answered."""
        self.check_running()
        self.requests.add(request)

    def publish_direct(self, message: Message) -> None:
        """Send a direct message on the open connection. There is no answer."""
        assert self._engine is not None, "there is a connection"
        self._engine.send(message.encode(NO_FLOW, 0))

    def close(self, now_ms: int) -> None:
        """End the session. The gateway's answer, or the end of the connection, makes it over."""
        if self._engine is None:
            self._fail(ClientClosed("the client was closed"))
        else:
            self.flows.pump(self._engine, settlements_only=True)  # they go before CLOSE
            self._is_closing = True
            self._send_close(now_ms)

    def _send_close(self, now_ms: int) -> None:
        self.is_open = self.is_draining = False
        if self._engine is not None:
            self._engine.close(codes.NONE, "", now_ms)

    # --- the verbs of every engine, and a connection's beginning and end ---

    def connected(self, now_ms: int, *, is_encrypted: bool) -> None:
        """Begin: a connection stands."""
        options = self.options
        self._engine = FlowEngine(
            is_gateway=False,
            frame_bytes_max=FRAME_BYTES_MAX,
            connect_timeout_ms=int(options.connect_timeout_s * 1000),
            keep_alive_ms=int(options.keep_alive_s * 1000),
            now_ms=now_ms,
        )
        self._login = Login(options, self._random_bytes, is_encrypted=is_encrypted)
        self._reason = ""
        self._opened_ms = 0
        features = (DEFLATE,) if options.compress else ()
        keep_alive_ms = int(options.keep_alive_s * 1000)
        self._engine.send(Hello(options.client_name, PRODUCT, keep_alive_ms, features, options.vpn).encode())

    def feed(self, data: bytes, now_ms: int, wall_ms: int) -> None:
        """Take in bytes of the gateway."""
        if self._engine is not None:
            for event in self._engine.feed(data, now_ms, wall_ms):
                self._handle(event, now_ms)

    def tick(self, now_ms: int) -> None:
        """Bring time: keep-alive, requests that may be tried again, locks to renew."""
        engine = self._engine
        if engine is None:
            return
        for event in engine.tick(now_ms):
            self._handle(event, now_ms)
        if not self.is_open:
            return
        self.flows.open_with(engine, now_ms)
        self.flows.tick(now_ms)
        self.requests.tick(now_ms)
        if self.is_draining and not self.flows.is_busy():
            self._send_close(now_ms)

    def take(self, now_ms: int) -> bytes:
        """Return bytes to write now; if there are any, ask again when they are written."""
        engine = self._engine
        if engine is None:
            return b""
        if self.is_open:
            self.flows.pump(engine, settlements_only=self.is_draining)
            if not self.is_draining:
                self.requests.pump(engine, self.flows.take_id, self.flows.frame_bytes_max)
        if not engine.has_output:
            return b""
        engine.wrote(now_ms)
        return b"".join(engine.take())

    @property
    def wants_hangup(self) -> bool:
        """Whether the connection should be closed once everything is written."""
        return self._engine is not None and self._engine.phase == CLOSED

    def disconnected(self, reason: str, now_ms: int) -> str:
        """Note that the connection is gone, or could not be made; return the first reason there was for that.

        `connect_at_ms` says when to try again.
        """
        if self._engine is not None and self._engine.phase == BEFORE_PREFACE:
            reason += " before it answered anything: it has no room, or another protocol is at that port"
        reason = self._reason or reason
        self.is_open = self.is_draining = False
        self._engine = None
        self._login = None
        self.requests.interrupted()
        self.flows.interrupted(reason)
        if self._is_closing:
            self._fail(ClientClosed("the client was closed"))
        if self.error is not None:
            return reason
        lasted_ms = now_ms - self._opened_ms if self._opened_ms > 0 else 0
        if self._gone_ms is None:
            self._gone_ms = now_ms
        give_up_ms = int(self.options.give_up_after_s * 1000)
        if give_up_ms and now_ms - self._gone_ms >= give_up_ms:
            self._fail(ConnectFailed(f"no connection for {self.options.give_up_after_s:g} s: {reason}"))
            return reason
        delay_ms = self._backoff.next_ms(lasted_ms, self._jitter())
        self.connect_at_ms = now_ms + delay_ms
        self.flows.events.append(Disconnected(reason, delay_ms))
        return reason

    # --- frames of the gateway ---

    def _handle(self, event: FlowEvent, now_ms: int) -> None:
        engine = self._engine
        assert engine is not None, "somebody was heard"
        if isinstance(event, DeliveriesReceived) and event.flow_id == NO_FLOW:
            self.direct.delivered(event.deliveries)
        elif isinstance(event, OF_FLOWS):
            self.flows.handle(event, engine, now_ms)
        elif isinstance(event, Positions | RangeCut | StagingAnswer | Subscribed | Provisioned):
            self.requests.answered(event)
        elif isinstance(event, Error):
            self._handle_error(event, now_ms)
        else:
            self._handle_session(event, now_ms)

    def _handle_error(self, error: Error, now_ms: int) -> None:
        if self.flows.failed(error, now_ms):
            return
        if error.request_id != NO_REQUEST:
            self.requests.refused(error, now_ms)
        elif error.flow_id == NO_FLOW:
            self._broken(error.code, error.text)

    def _handle_session(self, event: FlowEvent, now_ms: int) -> None:
        if isinstance(event, Welcome | AuthAnswer):
            self._let_in(event, now_ms)
        elif isinstance(event, Goaway):
            self._reason = event.text or codes.NAMES.get(event.code, "the gateway goes away")
            self.is_draining = True
        elif isinstance(event, Close):
            self._reason = self._reason or event.text or "closed by the gateway"
        elif isinstance(event, PeerViolated):
            self._broken(event.code, event.text)

    def _let_in(self, event: Welcome | AuthAnswer, now_ms: int) -> None:
        """Send the next step of the authentication."""
        engine, login = self._engine, self._login
        assert engine is not None, "somebody was heard"
        assert login is not None, "the engine passes on what is due"
        try:
            if isinstance(event, Welcome):
                self._welcome = event
                self.flows.frame_bytes_max = event.frame_bytes_max
                next_word: Auth | None = login.begin(event.mechanisms)
            else:
                next_word = login.answer(event)
        except AuthenticationRefused as refusal:
            self._fail(refusal)
            self._send_close(now_ms)
            return
        if next_word is not None:
            engine.send(next_word.encode())
        else:
            self._open(engine, now_ms)

    def _open(self, engine: FlowEngine, now_ms: int) -> None:
        assert self._welcome is not None, "WELCOME comes before everything else"
        self.is_open = self.was_open = True
        self._opened_ms = now_ms
        self._gone_ms = None
        self._login = None
        self.flows.events.append(Connected(self._welcome.product))
        self.flows.open_with(engine, now_ms)
        for request in self.direct.begin_again():
            self.requests.add(request)

    # --- ends ---

    def _broken(self, code: int, text: str) -> None:
        """The connection ends with an error."""
        self._reason = text
        if code in _LASTING:
            self._fail(ConnectionBroken(code, text))

    def _fail(self, error: FlowClientError) -> None:
        self.error = self.error or error
        self.requests.end(error)
        self.flows.end_all(error)
