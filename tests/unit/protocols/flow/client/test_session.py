"""The core of a client over a pretend wire: keep-alive, delays, goodbyes, and answers that come late."""

from collections.abc import Sequence

from sluicegate.protocols.flow.client.errors import (
    AuthenticationRefused,
    ClientClosed,
    ConnectionBroken,
    MessageTooLarge,
    RequestRefused,
)
from sluicegate.protocols.flow.client.events import ClientEvent, Connected, Disconnected, FlowInterrupted
from sluicegate.protocols.flow.client.messages import Message
from sluicegate.protocols.flow.client.options import ClientOptions
from sluicegate.protocols.flow.client.session.flow import OPEN
from sluicegate.protocols.flow.client.session.inbox import Inbox
from sluicegate.protocols.flow.client.session.outbox import Outbox
from sluicegate.protocols.flow.client.session.requests import Request
from sluicegate.protocols.flow.client.session.session import ClientSession
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.frames.flow import ACTIVE, Bind, Bound, FlowEnd, FlowState, OpenPub, PubOpened
from sluicegate.protocols.flow.codec.frames.publish import PubAck, PublishesReceived
from sluicegate.protocols.flow.codec.frames.session import (
    AUTH_DONE,
    Auth,
    AuthAnswer,
    Close,
    Error,
    Goaway,
    Hello,
    Welcome,
)
from sluicegate.protocols.flow.codec.frames.stage import AbortRows, CommitRows, StagingAnswer
from sluicegate.protocols.flow.codec.limits import FRAME_BYTES_MAX
from sluicegate.protocols.flow.engine.engine import FlowEngine
from sluicegate.protocols.flow.engine.events import FlowEvent

SPOOL = 0x5B001  # its incarnation
WELCOME = Welcome("test 1.0", 5_000, 65_536, 10, (), ("ANONYMOUS",))


class PretendWire:
    """A client's core and the gateway's end of its connection. `says` is one round trip."""

    def __init__(self, options: ClientOptions = ClientOptions(), welcome: Welcome = WELCOME) -> None:  # noqa: B008
        self.session = ClientSession(options, random_bytes=bytes, jitter=lambda: 1.0, now_ms=0)
        self.now_ms = 1_000
        self._welcome = welcome

    def connects(self) -> list[FlowEvent]:
        """Let the client in; return what it says then."""
        self.gateway = FlowEngine(
            is_gateway=True,
            frame_bytes_max=FRAME_BYTES_MAX,
            connect_timeout_ms=10_000,
            keep_alive_ms=5_000,
            now_ms=self.now_ms,
        )
        self.session.connected(self.now_ms, is_encrypted=False)
        assert isinstance(self.hears()[0], Hello)
        self.gateway.welcome(self._welcome, 0)
        said = self.says()
        if said and isinstance(said[0], Auth):
            self.gateway.auth_answer(AuthAnswer(AUTH_DONE, None), 0)
            return self.says()
        return said

    def says(self, *sent: bytes) -> list[FlowEvent]:
        """Send frames of the gateway; return what the client answers."""
        for each in sent:
            self.gateway.send(each)
        self.session.feed(b"".join(self.gateway.take()), self.now_ms, 0)
        return self.hears()

    def hears(self) -> list[FlowEvent]:
        return self.gateway.feed(self.session.take(self.now_ms), self.now_ms, 0)

    def passes(self, milliseconds: int) -> list[FlowEvent]:
        self.now_ms += milliseconds
        self.session.tick(self.now_ms)
        return self.hears()

    def breaks(self) -> None:
        self.session.disconnected("it broke", self.now_ms)

    def events(self) -> Sequence[ClientEvent]:
        return self.session.take_events()


def outbox(name: str = "till") -> Outbox:
    return Outbox(name, window=10, bytes_max=1_000_000)


def inbox(window: int = 10) -> Inbox:
    return Inbox("q", window=window, window_bytes=1_000_000, unsettled_max=0, renew_every_ms=0)


def opened(request: FlowEvent, stored: int = 0) -> bytes:
    """Return the answer to a request for a publisher."""
    assert isinstance(request, OpenPub)
    return PubOpened(request.flow_id, request.request_id, 1, stored, stored, stored + 10, SPOOL).encode()


def test_delays_double_up_to_a_limit_and_begin_anew_after_a_steady_connection() -> None:
    """Flow: sessions. The first attempt comes soon, a gateway that is down is not run over."""
    wire = PretendWire(ClientOptions(reconnect_delay_s=0.1, reconnect_delay_max_s=1.0))
    delays: list[int] = []
    for _ in range(6):
        wire.connects()
        wire.passes(100)
        wire.breaks()
        delays.append(wire.session.connect_at_ms - wire.now_ms)
    assert delays == [100, 200, 400, 800, 1_000, 1_000]
    wire.connects()
    wire.passes(5_000)
    wire.breaks()
    assert wire.session.connect_at_ms - wire.now_ms == 100
    assert isinstance(wire.events()[-1], Disconnected)


def test_a_gateway_that_falls_silent_is_given_up() -> None:
    """Flow: sessions, keep-alive: PING after one interval, the end after three."""
    wire = PretendWire()
    wire.connects()
    wire.now_ms += 5_000
    wire.session.tick(wire.now_ms)
    assert wire.session.take(wire.now_ms)[4] == frames.PING
    wire.now_ms += 10_001
    wire.session.tick(wire.now_ms)
    assert wire.session.wants_hangup
    wire.breaks()
    connected, disconnected = wire.events()
    assert connected == Connected("test 1.0")
    assert isinstance(disconnected, Disconnected)
    assert "nothing received" in disconnected.reason


def test_a_gateway_that_stops_gets_settlements_and_no_new_messages() -> None:
    """Flow: sessions, the end: after GOAWAY the client waits for its answers, and closes."""
    wire = PretendWire()
    publisher = outbox()
    wire.session.add(publisher, wire.now_ms)
    (request,) = wire.connects()
    wire.says(opened(request))
    publisher.put(Message(b"1", topic="t"), 0, is_awaited=False)
    (published,) = wire.hears()
    assert isinstance(published, PublishesReceived)

    assert wire.says(Goaway(codes.SHUTTING_DOWN, "the gateway stops", 2_000).encode()) == []
    publisher.put(Message(b"2", topic="t"), 0, is_awaited=False)
    assert wire.passes(250) == [], "an answer is due"
    assert wire.says(PubAck(published.flow_id, 1, 11, []).encode()) == []
    assert isinstance(wire.passes(250)[0], Close)
    wire.says()
    assert wire.session.wants_hangup
    wire.breaks()
    (again,) = wire.connects()
    (published,) = wire.says(opened(again, stored=1))
    assert isinstance(published, PublishesReceived)
    assert published.payloads == [b"2"]


def test_a_flow_closed_before_it_was_open_is_closed_when_it_opens() -> None:
    """Flow: frame types. The gateway must not keep a flow that nobody has."""
    wire = PretendWire()
    consumer = inbox()
    wire.session.add(consumer, wire.now_ms)
    (bind,) = wire.connects()
    assert isinstance(bind, Bind)
    wire.session.remove(consumer)
    (end,) = wire.says(Bound(bind.flow_id, bind.request_id, 100, SPOOL).encode())
    assert isinstance(end, FlowEnd)
    assert (end.kind, end.flow_id) == (frames.UNBIND, bind.flow_id)


def test_a_bind_that_is_refused_for_now_is_tried_again() -> None:
    """Flow: errors, retry after. The first time the program decides, later the client does."""
    wire = PretendWire()
    consumer = inbox()
    wire.session.add(consumer, wire.now_ms)
    (bind,) = wire.connects()
    assert isinstance(bind, Bind)
    active = FlowState(bind.flow_id, ACTIVE, 1, codes.NONE, "", None).encode()
    wire.says(Bound(bind.flow_id, bind.request_id, 100, SPOOL).encode(), active)
    wire.breaks()
    (bind,) = wire.connects()
    assert isinstance(bind, Bind)
    wire.says(Error(bind.flow_id, bind.request_id, codes.TOO_MANY, "all taken", 1_000).encode())
    assert wire.passes(999) == []
    (bind,) = wire.passes(1)
    assert isinstance(bind, Bind)
    wire.says(Bound(bind.flow_id, bind.request_id, 100, SPOOL).encode())
    assert consumer.phase == OPEN
    assert [each for each in wire.events() if isinstance(each, FlowInterrupted)] == [
        FlowInterrupted("q", "it broke", 0)
    ]


def test_a_fault_that_another_connection_would_repeat_is_the_end() -> None:
    """Flow: errors. Whoever waits hears so."""
    wire = PretendWire()
    publisher = outbox()
    wire.session.add(publisher, wire.now_ms)
    wire.connects()
    wire.says(Error(0, 0, codes.MALFORMED, "no frame", None).encode())
    assert isinstance(wire.session.error, ConnectionBroken)
    assert publisher.error is wire.session.error


def test_a_password_is_not_sent_where_anybody_can_read_it() -> None:
    """Flow: sessions, authentication. A gateway that offers PLAIN only, without TLS, may be somebody else."""
    options = ClientOptions(username="ada", password="engine")
    wire = PretendWire(options, Welcome("test", 5_000, 65_536, 10, (), ("PLAIN",)))
    (goodbye,) = wire.connects()
    assert isinstance(goodbye, Close)
    assert isinstance(wire.session.error, AuthenticationRefused)


def test_a_request_that_no_frame_of_the_gateway_holds_fails_by_itself_and_the_connection_goes_on() -> None:
    """Flow: frames. The gateway would end the connection with 0x0102, and the client ask the others again."""
    wire = PretendWire()
    wire.connects()
    wide = Request(lambda request_id: CommitRows(request_id, "t", ((0, 0),) * 5_000).encode())
    other = Request(lambda request_id: AbortRows(request_id, "t").encode())
    for each in (wide, other):
        wire.session.ask(each)
    (asked,) = wire.hears()
    assert isinstance(asked, AbortRows)
    assert wire.session.requests.done == [wide]
    assert isinstance(wide.error, MessageTooLarge)
    assert "more than the 65536 of a frame" in str(wide.error)
    wire.says(StagingAnswer(frames.ABORT_STAGED, asked.request_id, 0, already=False).encode())
    assert other.answer is not None


def test_a_request_is_repeated_while_the_queues_broker_is_away_until_the_client_would_give_up() -> None:
    """As after a lost connection. Rows that would be kept twice are not, and what else is refused is the program's."""
    wire = PretendWire(ClientOptions(give_up_after_s=3))
    wire.connects()
    polled = Request(lambda request_id: AbortRows(request_id, "t").encode())
    staged = Request(lambda request_id: AbortRows(request_id, "s").encode(), is_stage=True)
    busy = Request(lambda request_id: AbortRows(request_id, "b").encode())
    for each in (polled, staged, busy):
        wire.session.ask(each)
    first, second, third = wire.hears()
    assert isinstance(first, AbortRows)
    assert isinstance(second, AbortRows)
    assert isinstance(third, AbortRows)
    wire.says(Error(0, first.request_id, codes.DISABLED, "the link is down", 1_000).encode())
    wire.says(Error(0, second.request_id, codes.DISABLED, "the link is down", 1_000).encode())
    wire.says(Error(0, third.request_id, codes.TOO_MANY, "too many", 1_000).encode())
    assert wire.session.requests.done == [staged, busy]
    assert wire.passes(999) == []
    for _ in range(3):
        (again,) = wire.passes(1_000)
        assert isinstance(again, AbortRows)
        assert again.transaction == "t"
        assert polled.error is None
        wire.says(Error(0, again.request_id, codes.DISABLED, "the link is down", 1_000).encode())
    assert isinstance(polled.error, RequestRefused)
    assert wire.passes(5_000) == []


def test_a_request_that_was_refused_for_now_ends_with_its_client() -> None:
    wire = PretendWire()
    wire.connects()
    polled = Request(lambda request_id: AbortRows(request_id, "t").encode())
    wire.session.ask(polled)
    (asked,) = wire.hears()
    assert isinstance(asked, AbortRows)
    wire.says(Error(0, asked.request_id, codes.DISABLED, "the link is down", 1_000).encode())
    wire.session.close(wire.now_ms)
    wire.breaks()
    assert isinstance(polled.error, ClientClosed)
