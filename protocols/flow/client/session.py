"""The core of a client: one session over as many connections as it takes. No socket, clock or event loop.

Its owner makes connections when `connect_at_ms` says so, and calls `connected`, `feed`, `tick`, `take` and
`disconnected`; `take_news` names the flows that it should look at. The wire is `protocols.flow.engine`'s matter, what a
publisher and a consumer remember that of `outbox` and `inbox`.
"""

from collections.abc import Callable
from typing import Final, final

from protocols.flow import codes
from protocols.flow.client.authentication import Login
from protocols.flow.client.client_flow import CLOSING, ENDED, NO_FLOW, OPEN, OPENING, RESTING, ClientFlow
from protocols.flow.client.errors import (
    AuthenticationRefused,
    ClientClosed,
    ConnectionBroken,
    FlowClientError,
    RequestRefused,
)
from protocols.flow.client.events import ClientEvent, Connected, Disconnected
from protocols.flow.client.inbox import Inbox
from protocols.flow.client.messages import Message
from protocols.flow.client.options import ClientOptions
from protocols.flow.client.outbox import Outbox
from protocols.flow.engine import FlowEngine
from protocols.flow.events import DeliveriesReceived, FlowEvent, PeerViolated
from protocols.flow.flow_frames import ENDED as FLOW_ENDED
from protocols.flow.flow_frames import Bound, FlowEnd, FlowState, PubOpened
from protocols.flow.frames import CLOSE_PUB, UNBIND
from protocols.flow.limits import FRAME_BYTES_MAX
from protocols.flow.publish_frames import PubAck, write_publish
from protocols.flow.session_frames import (
    NO_REQUEST,
    Auth,
    AuthAnswer,
    Close,
    Error,
    Goaway,
    Hello,
    Welcome,
)
from protocols.flow.settle_frames import Credit, Settled
from protocols.flow.turns import CLOSED

PRODUCT: Final = "sluicegate-client"
STEADY_MS: Final = 5_000  # a connection that lasted so long makes the next delay short again
DOUBLINGS_MAX: Final = 30  # of the delay; the maximum is reached long before

# Faults that another connection would only repeat: the bytes are wrong, or what they ask for.
_LASTING: Final = frozenset(
    {codes.MALFORMED, codes.VERSION_UNKNOWN, codes.CRITICAL_UNKNOWN, codes.OUT_OF_TURN, codes.FLOW_ID_UNUSABLE}
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
        self.events: list[ClientEvent] = []  # for the owner to take
        self._random_bytes = random_bytes
        self._jitter = jitter  # a number from 0 up to 1
        self._engine: FlowEngine | None = None
        self._flows: list[ClientFlow] = []  # in the order of their making
        self._by_id: dict[int, ClientFlow] = {}  # on the present connection
        self._news: list[ClientFlow] = []
        self._next_id = 1  # of flows and requests, on the present connection
        self._welcome: Welcome | None = None  # the gateway's, on the latest connection
        self._login: Login | None = None  # until it has let us in
        self._attempts_count = 0  # since a connection last was steady
        self._opened_ms = 0  # when the gateway let us in on the present connection
        self._is_closing = False
        self._reason = ""  # why the connection is about to end

    # --- the program's side ---

    def add(self, flow: ClientFlow) -> None:
        """Open a publisher or consumer now, and again on each connection."""
        self.check_running()
        self._flows.append(flow)
        if self.is_open:
            self._ask(flow)

    def check_running(self) -> None:
        """Raise the error that has ended the session, if one has."""
        if self.error is not None:
            raise self.error.with_traceback(None)  # one error for all who ask

    def remove(self, flow: ClientFlow) -> None:
        """End a publisher or consumer. It is ENDED when the gateway has said so, or when there is nobody to ask."""
        if flow.phase == OPEN and self._engine is not None:
            flow.phase = CLOSING
            self._engine.send(flow.closing(self._take_id()))
        else:
            self._end(flow, ClientClosed("it was closed"))

    def publish_direct(self, message: Message) -> None:
        """Send a direct message on the open connection. Nobody answers for it."""
        assert self._engine is not None, "there is a connection"
        self._engine.send(
            write_publish(
                NO_FLOW,
                0,
                message.name,
                message.payload,
                message.headers,
                to_queue=message.to_queue,
                ttl_ms=message.ttl_ms,
                delay_ms=message.delay_ms,
            )
        )

    def close(self, now_ms: int) -> None:
        """End the session. The gateway's answer, or the end of the connection, makes it over."""
        if self._engine is None:
            self._fail(ClientClosed("the client was closed"))
        else:
            for flow in self._flows:
                if isinstance(flow, Inbox):
                    flow.pump(self._engine)  # settlements go before CLOSE
            self._is_closing = True
            self._say_goodbye(now_ms)

    def _say_goodbye(self, now_ms: int) -> None:
        self.is_open = self.is_draining = False
        if self._engine is not None:
            self._engine.close(codes.NONE, "", now_ms)

    def take_news(self) -> list[ClientFlow]:
        """Return the flows whose owners should look at them."""
        news, self._news = self._news, []
        for flow in news:
            flow.has_news = False
        return news

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
        self._next_id = 1
        self._reason = ""
        self._opened_ms = 0
        self._engine.send(Hello(options.client_name, PRODUCT, int(options.keep_alive_s * 1000), ()).encode())

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
        for flow in self._flows:
            if flow.phase == RESTING and flow.retry_at_ms <= now_ms:
                self._ask(flow)
            elif isinstance(flow, Inbox):
                flow.tick(now_ms)
        if self.is_draining and not self._is_busy():
            self._say_goodbye(now_ms)

    def take(self, now_ms: int) -> bytes:
        """Return bytes to write now; if there are any, ask again when they are written."""
        engine = self._engine
        if engine is None:
            return b""
        if self.is_open:
            for flow in self._flows:
                if flow.is_dirty and (not self.is_draining or isinstance(flow, Inbox)):
                    flow.pump(engine)
                    self._look_at(flow)
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
        reason = self._reason or reason
        self.is_open = self.is_draining = False
        self._engine = None
        self._login = None
        self._by_id.clear()
        for flow in self._flows[:]:
            if flow.phase == CLOSING:
                self._end(flow, ClientClosed("it was closed"))
            else:
                flow.interrupted(reason)
                flow.retry_at_ms = 0
                self._look_at(flow)
        if self._is_closing:
            self._fail(ClientClosed("the client was closed"))
        if self.error is not None:
            return reason
        if self._opened_ms > 0 and now_ms - self._opened_ms >= STEADY_MS:
            self._attempts_count = 0
        delay_ms = self._delay_ms()
        self._attempts_count += 1
        self.connect_at_ms = now_ms + delay_ms
        self.events.append(Disconnected(reason, delay_ms))
        return reason

    def _delay_ms(self) -> int:
        """Return how long to wait: doubled each time, and drawn from the upper half, so that clients spread out."""
        options = self.options
        doubled_s = options.reconnect_delay_s * (1 << min(self._attempts_count, DOUBLINGS_MAX))
        return int(min(doubled_s, options.reconnect_delay_max_s) * 1000 * (0.5 + 0.5 * self._jitter()))

    # --- what the gateway said ---

    def _handle(self, event: FlowEvent, now_ms: int) -> None:
        if isinstance(event, DeliveriesReceived):
            flow = self._by_id.get(event.flow_id)
            if isinstance(flow, Inbox) and flow.phase == OPEN:
                flow.delivered(event.deliveries)
                self._look_at(flow)
            # What was on its way when the flow was closed is the queue's again.
        elif isinstance(event, PubAck):
            flow = self._by_id.get(event.flow_id)
            if isinstance(flow, Outbox):
                flow.acknowledged(event)
                self._look_at(flow)
        elif isinstance(event, Credit | Settled | FlowState | PubOpened | Bound | FlowEnd):
            self._handle_flow(event, now_ms)
        elif isinstance(event, Error):
            self._handle_error(event, now_ms)
        else:
            self._handle_session(event, now_ms)

    def _handle_flow(self, event: Credit | Settled | FlowState | PubOpened | Bound | FlowEnd, now_ms: int) -> None:
        flow = self._by_id.get(event.flow_id)
        if flow is None:
            # The program was faster: what it has closed before the gateway opened it is closed there now.
            if isinstance(event, PubOpened | Bound) and self._engine is not None:
                kind = CLOSE_PUB if isinstance(event, PubOpened) else UNBIND
                self._engine.send(FlowEnd(kind, event.flow_id, self._take_id(), False).encode())
            return
        if isinstance(event, FlowEnd):
            self._end(flow, ClientClosed("it was closed"))
        elif isinstance(flow, Outbox):
            if isinstance(event, PubOpened):
                assert self._welcome is not None, "WELCOME comes before everything else"
                flow.frame_bytes_max = self._welcome.frame_bytes_max
                flow.opened(event)
        elif isinstance(flow, Inbox):
            if isinstance(event, Bound):
                flow.opened(event)
            elif isinstance(event, Credit):
                flow.credited(event)
            elif isinstance(event, Settled):
                flow.not_held(event)
            elif isinstance(event, FlowState):
                self._stands(flow, event, now_ms)
        if flow.phase == ENDED:
            self._forget(flow)
        self._look_at(flow)

    def _stands(self, flow: Inbox, state: FlowState, now_ms: int) -> None:
        if state.state != FLOW_ENDED:
            flow.stands(state)
            return
        ended = Error(flow.flow_id, NO_REQUEST, state.code, state.text, state.retry_after_ms)
        self._ended(flow, ended, now_ms)

    def _handle_error(self, error: Error, now_ms: int) -> None:
        flow = self._by_id.get(error.flow_id)
        if flow is not None:
            self._ended(flow, error, now_ms)
        elif error.flow_id == NO_FLOW and error.request_id == NO_REQUEST:
            self._broken(error.code, error.text)

    def _ended(self, flow: ClientFlow, error: Error, now_ms: int) -> None:
        """A flow was refused or has ended: try again when that makes sense, and the program has had it before."""
        self._by_id.pop(flow.flow_id, None)
        if flow.phase != CLOSING and flow.was_open and error.retry_after_ms is not None:
            flow.interrupted(error.text)
            flow.retry_at_ms = now_ms + error.retry_after_ms
            self._look_at(flow)
        elif flow.was_open:
            self._end(flow, flow.ended_by(error))
        else:
            self._end(flow, RequestRefused(error.code, error.text, error.retry_after_ms))

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
        """Say who we are, until the gateway has heard enough."""
        engine, login = self._engine, self._login
        assert engine is not None, "somebody was heard"
        assert login is not None, "the engine passes on what is due"
        try:
            if isinstance(event, Welcome):
                self._welcome = event
                next_word: Auth | None = login.begin(event.mechanisms)
            else:
                next_word = login.answer(event)
        except AuthenticationRefused as refusal:
            self._fail(refusal)
            self._say_goodbye(now_ms)
            return
        if next_word is not None:
            engine.send(next_word.encode())
        else:
            self._open(engine, now_ms)

    def _open(self, engine: FlowEngine, now_ms: int) -> None:
        assert self._welcome is not None, "WELCOME comes before everything else"
        engine.opened(self._welcome.keep_alive_ms)
        self.is_open = self.was_open = True
        self._opened_ms = now_ms
        self._login = None
        self.events.append(Connected(self._welcome.product))
        for flow in self._flows:
            self._ask(flow)

    # --- flows ---

    def _ask(self, flow: ClientFlow) -> None:
        """Ask the gateway for a publisher or consumer."""
        assert self._engine is not None, "there is a connection"
        flow.flow_id = self._take_id()
        flow.phase = OPENING
        self._by_id[flow.flow_id] = flow
        self._engine.send(flow.request(self._take_id(), flow.flow_id))

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _is_busy(self) -> bool:
        """Whether the gateway, which is about to stop, still owes us answers, or we it settlements."""
        for flow in self._flows:
            if isinstance(flow, Outbox) and flow.sent_count > 0:
                return True
            if isinstance(flow, Inbox) and flow.held:
                return True
        return False

    def _look_at(self, flow: ClientFlow) -> None:
        if isinstance(flow, Inbox) and flow.events:
            self.events += flow.events
            flow.events.clear()
        if flow.has_news and flow not in self._news:
            self._news.append(flow)

    def _end(self, flow: ClientFlow, error: FlowClientError) -> None:
        flow.end(error)
        self._forget(flow)
        self._look_at(flow)

    def _forget(self, flow: ClientFlow) -> None:
        self._by_id.pop(flow.flow_id, None)
        if flow in self._flows:
            self._flows.remove(flow)

    # --- ends ---

    def _broken(self, code: int, text: str) -> None:
        """The connection ends with an error."""
        self._reason = text
        if code in _LASTING:
            self._fail(ConnectionBroken(code, text))

    def _fail(self, error: FlowClientError) -> None:
        self.error = self.error or error
        for flow in self._flows[:]:
            self._end(flow, error)
