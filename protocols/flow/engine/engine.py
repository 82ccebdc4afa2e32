"""The wire engine of one flow connection, for both ends: bytes in, events out, bytes out. No socket, clock or actor.

The engine does prefaces, frames, the order of frames, compression, keep-alive, PONG, the response to CLOSE, and
reports every violation.
Its owner decides who is admitted (`welcome`, `authenticated`), what flows are, and which frames are sent (`send`).
"""

from typing import Final, final

from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.codes import (
    CRITICAL_UNKNOWN,
    FLOW_ID_UNUSABLE,
    LIMIT_EXCEEDED,
    MALFORMED,
    NONE,
    NOT_AUTHENTICATED,
    OUT_OF_TURN,
    TIMED_OUT,
    VERSION_UNKNOWN,
    PeerViolation,
)
from sluicegate.protocols.flow.codec.compression import DEFLATE, deflated, inflated
from sluicegate.protocols.flow.codec.frame import (
    COMPRESSED,
    CRITICAL,
    PREFACE,
    RESPONSE,
    SESSION,
    VERSION_MAJOR,
    Frame,
    cut_frame,
    frame_head,
    missing_bytes,
)
from sluicegate.protocols.flow.codec.frames.cursor import CURSOR_FRAMES, read_cursor_frame
from sluicegate.protocols.flow.codec.frames.deliver import read_deliver
from sluicegate.protocols.flow.codec.frames.flow import FLOW_FRAMES, read_flow_frame
from sluicegate.protocols.flow.codec.frames.link import LINK_FRAMES, read_link_frame
from sluicegate.protocols.flow.codec.frames.partition import read_partitions, read_partitions_ack
from sluicegate.protocols.flow.codec.frames.provision import PROVISION_FRAMES, read_provision_frame
from sluicegate.protocols.flow.codec.frames.publish import PublishesReceived, read_alike, read_pub_ack, read_publish
from sluicegate.protocols.flow.codec.frames.rows import read_read, read_rows
from sluicegate.protocols.flow.codec.frames.session import (
    AUTH_DONE,
    AUTH_FAILED,
    NO_REQUEST,
    AuthAnswer,
    Close,
    Error,
    Welcome,
    read_session_frame,
)
from sluicegate.protocols.flow.codec.frames.settle import Ping, read_settle_frame
from sluicegate.protocols.flow.codec.frames.stage import STAGING_FRAMES, read_staging_frame
from sluicegate.protocols.flow.codec.frames.subscription import SUBSCRIPTION_FRAMES, read_subscription_frame
from sluicegate.protocols.flow.codec.limits import (
    AUTHENTICATIONS_MAX,
    DEFLATED_BYTES_MAX,
    FRAME_BYTES_MAX,
    HEAD_BYTES,
    PREFACE_BYTES,
    SILENT_INTERVALS_MAX,
    UNAUTHENTICATED_FRAME_BYTES_MAX,
)
from sluicegate.protocols.flow.engine.events import DeliveriesReceived, FlowEvent, FramesRelayed, PeerViolated
from sluicegate.protocols.flow.engine.frame_rules import (
    AUTHENTICATING,
    CLOSED,
    CLOSING,
    GREETING,
    OF_EITHER,
    OF_SESSION,
    OPEN,
    PHASES,
    TO_CLIENT,
    TO_GATEWAY,
)
from sluicegate.protocols.flow.engine.frame_rules import PREFACE as BEFORE_PREFACE
from sluicegate.protocols.transport.interface import READ_INTO_BYTES_MIN, append_piece
from sluicegate.protocols.transport.loop.uninitialised_bytes import UninitialisedBytes

BUFFERED_BYTES_MAX: Final = 524_288  # of a client that sends on while its credentials are checked
CLOSE_TIMEOUT_MS: Final = 5_000  # how long the peer has to answer our CLOSE
NEVER_MS: Final = 1 << 48

# What was waited for when a connection is not open in time, by phase.
MISSING_AT_GATEWAY: Final = ("no preface of the flow protocol", "no HELLO", "no authentication")
MISSING_AT_CLIENT: Final = (
    "nothing at that port answers the flow protocol",
    "no WELCOME of the gateway",
    "no answer of the gateway to the authentication",
)

# The beginnings of other protocols, which may be at the other end.
_BY_FIRST_BYTES: Final = (
    (b"AMQP", "AMQP"),
    (b"HTTP", "HTTP"),
    (b"GET ", "HTTP"),
    (b"POST", "HTTP"),
    (b"SSH-", "SSH"),
    (b"\x15\x03", "TLS"),  # an alert: the server cannot read what was sent to it
    (b"\x16\x03", "TLS"),  # a handshake
    (b"\x10", "MQTT"),  # CONNECT
    (b"\x20\x02\x00", "MQTT"),  # CONNACK of MQTT 3
)


@final
class FlowEngine:
    """One connection. Its owner calls `feed`, `tick` and the verbs, and writes what `take` returns."""

    def __init__(
        self, *, is_gateway: bool, frame_bytes_max: int, connect_timeout_ms: int, keep_alive_ms: int, now_ms: int
    ) -> None:
        self.phase = BEFORE_PREFACE
        self.keep_alive_ms = keep_alive_ms  # in force once the connection is open
        self.silence_ms_max = 0  # of the peer, before it counts as gone; 0: three intervals
        self._is_gateway = is_gateway
        self.compresses = False  # bodies may be compressed, either way; once the connection is open
        self.relayed: frozenset[int] | None = None  # publishers whose PUBLISH frames are events as they are
        self.saved_received = 0  # bytes that compression has kept off the wire, since the owner took note of them
        self.saved_sent = 0
        self._deflated_bytes_max = DEFLATED_BYTES_MAX if is_gateway else FRAME_BYTES_MAX
        self._turns = TO_GATEWAY if is_gateway else TO_CLIENT
        self._welcome: Welcome | None = None  # the gateway's, at a client
        self._frame_bytes_max = frame_bytes_max  # of received frames, once the connection is open
        self._connect_timeout_ms = connect_timeout_ms
        self._topics: dict[bytes, str] = {}
        self._out: list[bytes] = []
        # An unfinished frame, or what waits for an answer. Joined once whole: 30 MB come in more than a hundred parts.
        self._parts: list[bytes] = []
        self.missing_bytes = 0  # of the frame that begins in `_parts`, as far as is known
        self.unfinished_bytes = 0  # that have come of it
        self._uninitialised: UninitialisedBytes | None = None  # that frame, once its rest is read to where it stays
        self._waits = False  # the owner has to answer before anything more is read
        self._failed_count = 0  # authentications
        self._began_ms = now_ms
        self._received_ms = now_ms
        self._sent_ms = now_ms
        self._ping_number = 0
        self._close_deadline_ms = 0
        if not is_gateway:
            self._out.append(PREFACE)

    # --- the three verbs of every engine ---

    def feed(self, data: bytes, now_ms: int, wall_ms: int) -> list[FlowEvent]:
        """Return the peer's frames as events, in wire order. A violation is answered here, and is the last event.

        `wall_ms` is what the times in messages, which are relative on the wire, count from. `data` is empty behind a
        frame that was placed.
        """
        self._received_ms = now_ms
        if self.phase == CLOSED:
            return []
        if self._parts:
            if data:  # a frame that was placed is whole, and joined it would be copied
                append_piece(self._parts, data)
            self.missing_bytes -= len(data)
            if self.missing_bytes > 0:
                self.unfinished_bytes += len(data)
                return []
            data = b"".join(self._parts)
            self._parts.clear()
            self.unfinished_bytes = 0
        return self._read_on(data, wall_ms)

    def buffer(self) -> memoryview | None:
        """Return where the next bytes of the frame belong that has begun, if so much of it is missing that it pays."""
        if self._uninitialised is None:
            if self.missing_bytes < READ_INTO_BYTES_MIN or not self._parts:
                return None
            begun = b"".join(self._parts)
            self._parts.clear()
            self._uninitialised = UninitialisedBytes(begun, self.missing_bytes)
        return self._uninitialised.room

    def filled(self, count: int) -> bool:
        """Note that so many bytes have come to `room`; return whether the frame is whole: then `feed` no bytes."""
        memory = self._uninitialised
        assert memory is not None, "who places bytes has asked for room"
        memory.filled(count)
        self.missing_bytes -= count
        self.unfinished_bytes += count
        if self.missing_bytes > 0:
            return False
        self._uninitialised = None
        self._parts.append(memory.whole())
        return True

    def take(self) -> list[bytes]:
        """Return the bytes to write."""
        pieces = self._out[:]
        self._out.clear()
        return pieces

    def tick(self, now_ms: int) -> list[FlowEvent]:
        """Bring time: keep-alive, silence, and steps that take too long."""
        events: list[FlowEvent] = []
        if self.phase == OPEN:
            if now_ms - self._received_ms > (self.silence_ms_max or SILENT_INTERVALS_MAX * self.keep_alive_ms):
                self._violated(TIMED_OUT, f"nothing received for {now_ms - self._received_ms} ms", events)
            elif now_ms - self._sent_ms >= self.keep_alive_ms:
                self._ping_number += 1
                self._out.append(Ping(self._ping_number, False).encode())
                self._sent_ms = now_ms
        elif self.phase == CLOSING:
            if now_ms >= self._close_deadline_ms:
                self.phase = CLOSED
                events.append(Close(TIMED_OUT, "the peer did not answer CLOSE"))
        elif self.phase < OPEN and now_ms - self._began_ms > self._connect_timeout_ms:
            missing = (MISSING_AT_GATEWAY if self._is_gateway else MISSING_AT_CLIENT)[self.phase]
            self._violated(TIMED_OUT, f"{missing} within {self._connect_timeout_ms / 1000:g} s", events)
        return events

    @property
    def has_output(self) -> bool:
        """Whether there is something to write."""
        return len(self._out) > 0

    def alive(self, now_ms: int) -> None:
        """Count the peer as alive: while we do not read from it, it cannot show that it is."""
        self._received_ms = now_ms

    def stalled(self, stall_ms: int, now_ms: int) -> None:
        """Do not count a time in which its owner read nothing: what the peer has sent may yet have to be read."""
        self._received_ms = min(now_ms, self._received_ms + stall_ms)
        self._began_ms += stall_ms
        self._close_deadline_ms += stall_ms

    def wrote(self, now_ms: int) -> None:
        """Note that bytes went out: the peer needs no PING for a while."""
        self._sent_ms = now_ms

    # --- commands of the owner ---

    def send(self, data: bytes) -> None:
        """Send whole frames. Nothing is sent behind CLOSE."""
        if self.phase == OPEN and self.compresses:
            smaller = deflated(data, self._deflated_bytes_max)
            self.saved_sent += len(data) - len(smaller)
            data = smaller
        if self.phase < CLOSING:
            self._out.append(data)

    def send_all(self, pieces: list[bytes]) -> None:
        """Send whole frames that are in pieces. They are joined only if they are compressed."""
        if self.phase == OPEN and self.compresses:
            self.send(b"".join(pieces))
        elif self.phase < CLOSING:
            self._out.extend(pieces)

    def welcome(self, ours: Welcome, wall_ms: int) -> list[FlowEvent]:
        """Gateway: answer HELLO; return the events of frames that the client has sent meanwhile."""
        if self.phase != GREETING:
            return []  # it took too long
        assert self._waits, "WELCOME answers HELLO"
        self.keep_alive_ms = ours.keep_alive_ms
        self.compresses = DEFLATE in ours.features
        self.phase = AUTHENTICATING
        self._out.append(ours.encode())
        return self._resume(wall_ms)

    def auth_answer(self, answer: AuthAnswer, wall_ms: int) -> list[FlowEvent]:
        """Gateway: answer AUTH; return the events of frames that the client has sent meanwhile."""
        if self.phase != AUTHENTICATING:
            return []  # it took too long
        assert self._waits, "the gateway answers AUTH"
        self._out.append(answer.encode())
        if answer.state == AUTH_DONE:
            self.phase = OPEN
        elif answer.state == AUTH_FAILED:
            self._failed_count += 1
            if self._failed_count >= AUTHENTICATIONS_MAX:
                events: list[FlowEvent] = []
                self._violated(NOT_AUTHENTICATED, f"{AUTHENTICATIONS_MAX} authentications failed", events)
                return events
        return self._resume(wall_ms)

    def join(self) -> None:
        """Gateway: begin open, and without keep-alive: another broker of this machine passes on frames of a client."""
        assert self.phase == BEFORE_PREFACE, "nothing was read"
        self.phase = OPEN
        self.keep_alive_ms = self.silence_ms_max = NEVER_MS

    def close(self, code: int, text: str, now_ms: int) -> None:
        """Close the connection; the peer's CLOSE, or the end of its patience, brings the event Close."""
        if self.phase in (CLOSING, CLOSED):
            return
        if self.phase == BEFORE_PREFACE or (self._is_gateway and self.phase == GREETING):
            self.phase = CLOSED
            return
        self._out.append(Close(code, text).encode())
        self.phase = CLOSING
        self._waits = False
        self._close_deadline_ms = now_ms + CLOSE_TIMEOUT_MS

    def fail(self, code: int, text: str) -> None:
        """End the connection at once with an ERROR: the peer broke a rule that only the owner knows, or we did."""
        self._violated(code, text, [])

    def drop(self) -> None:
        """Let go of what waits for more: nothing more is read."""
        self._parts.clear()
        self.missing_bytes = 0
        self.unfinished_bytes = 0
        self._uninitialised = None

    def _resume(self, wall_ms: int) -> list[FlowEvent]:
        self._waits = False
        data = b"".join(self._parts)
        self._parts.clear()
        self.unfinished_bytes = 0
        return self._read_on(data, wall_ms)

    # --- reading ---

    def _read_on(self, data: bytes, wall_ms: int) -> list[FlowEvent]:
        """Read all complete frames, up to one that needs a response first."""
        events: list[FlowEvent] = []
        try:
            self._read(data, events, wall_ms)
        except PeerViolation as violation:
            self._violated(violation.code, violation.text, events)
        return events

    def _read(self, data: bytes, events: list[FlowEvent], wall_ms: int) -> None:
        pos = 0
        end = len(data)
        if self.phase == BEFORE_PREFACE:
            pos = self._preface(data, events)
        run: PublishesReceived | None = None
        while BEFORE_PREFACE < self.phase < CLOSED and not self._waits:
            bytes_max = self._frame_bytes_max if self.phase >= OPEN else UNAUTHENTICATED_FRAME_BYTES_MAX
            frame = cut_frame(data, pos, end, bytes_max)
            if frame is None:
                break
            pos = frame.end
            self._check_turn(frame)
            its = data  # the bytes that it lies in
            if frame.flags & COMPRESSED:
                frame, its = self._inflated(frame, data)
            if frame.kind == frames.PUBLISH and self.phase == OPEN:
                if self.relayed is not None and frame.flow_id in self.relayed:
                    run = None
                    _relay(frame, its, events)
                    continue
                before = run
                run = read_publish(frame, its, wall_ms, before, self._topics)
                if run is not before:
                    events.append(run)
                if its is data:
                    pos = read_alike(run, frame, data, end)
            else:
                run = None
                self._receive(frame, its, events, wall_ms)
        if pos == end or self.phase == CLOSED:
            return
        if self._waits and end - pos > BUFFERED_BYTES_MAX:
            text = f"more than {BUFFERED_BYTES_MAX} bytes before the client is authenticated"
            raise PeerViolation(LIMIT_EXCEEDED, text)
        self._parts.append(data[pos:])
        self.unfinished_bytes = end - pos
        is_in_frame = self.phase > BEFORE_PREFACE and not self._waits
        self.missing_bytes = missing_bytes(data, pos, end) if is_in_frame else 0

    def _preface(self, data: bytes, events: list[FlowEvent]) -> int:
        """Read the peer's preface. One of another major version is answered with ours, and that is the end."""
        given = data[:PREFACE_BYTES]
        if not PREFACE[:4].startswith(given[:4]):
            raise PeerViolation(MALFORMED, _no_preface(data, self._is_gateway))
        if len(given) < PREFACE_BYTES:
            return 0
        if self._is_gateway:
            self._out.append(PREFACE)
        if given[4] != VERSION_MAJOR:
            self.phase = CLOSED
            text = f"major version {given[4]}; this is {VERSION_MAJOR}"
            events.append(PeerViolated(VERSION_UNKNOWN, text))
            return PREFACE_BYTES
        self.phase = GREETING
        return PREFACE_BYTES

    def _check_turn(self, frame: Frame) -> None:
        """Raise PeerViolation for a frame that may not come now, or from this side, or on this flow."""
        kind = frame.kind
        phase = OPEN if self.phase == CLOSING else self.phase
        is_response = frame.flags & RESPONSE != 0
        wanted = self._turns[phase].get(kind)
        if wanted is None or wanted != is_response:
            if kind not in frames.NAMES:
                if frame.flags & CRITICAL:
                    raise PeerViolation(CRITICAL_UNKNOWN, f"unknown critical frame type {kind:#04x}")
                if phase == OPEN:
                    return
            name = frames.NAMES.get(kind, f"type {kind:#04x}")
            raise PeerViolation(OUT_OF_TURN, f"{name}{' (an answer)' if is_response else ''} while {PHASES[phase]}")
        if kind not in OF_EITHER and (kind in OF_SESSION) != (frame.flow_id == SESSION):
            raise PeerViolation(FLOW_ID_UNUSABLE, f"{frames.NAMES[kind]} on flow {frame.flow_id}")

    def _inflated(self, frame: Frame, data: bytes) -> tuple[Frame, bytes]:
        """Return the frame that a compressed one stands for, and where it lies. Raises PeerViolation."""
        if self.phase < OPEN or not self.compresses:
            raise PeerViolation(MALFORMED, f"flags {frame.flags:#04x}: compression is not in force")
        whole, its = inflated(frame, data, self._frame_bytes_max)
        self.saved_received += len(its) - (frame.end - frame.fields_at)
        return whole, its

    def _receive(self, frame: Frame, data: bytes, events: list[FlowEvent], wall_ms: int) -> None:
        kind = frame.kind
        if self.phase == CLOSING:
            if kind == frames.CLOSE:
                self.phase = CLOSED
                events.append(Close(NONE, ""))
            return
        if kind == frames.DELIVER:
            self._deliver(frame, data, events, wall_ms)
        elif kind == frames.PUB_ACK:
            events.append(read_pub_ack(frame, data))
        elif kind == frames.ROWS:
            events.append(read_rows(frame, data))
        elif kind in LINK_FRAMES:
            events.append(read_link_frame(frame, data))
        elif kind in FLOW_FRAMES:
            events.append(read_flow_frame(frame, data))
        elif kind in STAGING_FRAMES:
            events.append(read_staging_frame(frame, data))
        elif kind in CURSOR_FRAMES:
            events.append(read_cursor_frame(frame, data))
        elif kind in PROVISION_FRAMES:
            events.append(read_provision_frame(frame, data))
        elif kind in SUBSCRIPTION_FRAMES:
            events.append(read_subscription_frame(frame, data))
        elif kind == frames.READ:
            events.append(read_read(frame, data))
        elif kind == frames.PARTITIONS:
            events.append(read_partitions(frame, data))
        elif kind == frames.PARTITIONS_ACK:
            events.append(read_partitions_ack(frame, data))
        elif kind in frames.NAMES:  # else it is passed over
            self._receive_rare(frame, data, events)

    def _deliver(self, frame: Frame, data: bytes, events: list[FlowEvent], wall_ms: int) -> None:
        delivered = read_deliver(frame, data, wall_ms)
        last = events[-1] if events else None
        if not isinstance(last, DeliveriesReceived) or last.flow_id != frame.flow_id:
            last = DeliveriesReceived(frame.flow_id)
            events.append(last)
        last.deliveries.append(delivered)

    def _receive_rare(self, frame: Frame, data: bytes, events: list[FlowEvent]) -> None:
        if frame.kind in (frames.PING, frames.PONG, frames.CREDIT, frames.SETTLE, frames.SETTLED):
            frame_read = read_settle_frame(frame, data)
            if not isinstance(frame_read, Ping):
                events.append(frame_read)
            elif not frame_read.is_pong:
                self._out.append(Ping(frame_read.number, True).encode())
            return
        event = read_session_frame(frame, data)
        if isinstance(event, Close):
            self._out.append(Close(NONE, "").encode())
            self.phase = CLOSED
        elif frame.kind in (frames.HELLO, frames.AUTH) and self._is_gateway:
            self._waits = True
        elif isinstance(event, Welcome):
            self.phase = AUTHENTICATING
            self._welcome = event
        elif isinstance(event, AuthAnswer) and event.state == AUTH_DONE:
            self._opened()
        events.append(event)

    def _opened(self) -> None:
        """Client: the gateway has let us in. What it sends behind its answer is read as of an open connection."""
        welcome = self._welcome
        assert welcome is not None, "WELCOME comes before every answer"
        self.keep_alive_ms = welcome.keep_alive_ms
        self.compresses = DEFLATE in welcome.features
        self.phase = OPEN

    def _violated(self, code: int, text: str, events: list[FlowEvent]) -> None:
        """Say why, if the peer is far enough to understand, and listen no more."""
        if BEFORE_PREFACE < self.phase < CLOSED:
            self._out.append(Error(SESSION, NO_REQUEST, code, text, None).encode())
        self.phase = CLOSED
        self.drop()
        events.append(PeerViolated(code, text))


def _relay(frame: Frame, data: bytes, events: list[FlowEvent]) -> None:
    """Add a frame that another broker decodes to the last event, if that is of the same flow, else to a new one."""
    last = events[-1] if events else None
    if not isinstance(last, FramesRelayed) or last.flow_id != frame.flow_id:
        last = FramesRelayed(frame.flow_id)
        events.append(last)
    if frame.fields_at >= HEAD_BYTES:
        last.frames.append(data[frame.fields_at - HEAD_BYTES : frame.end])
    else:  # it was compressed, and lies there without its head
        fields_bytes = frame.body_at - frame.fields_at
        head = frame_head(frame.kind, frame.flags, frame.flow_id, fields_bytes, frame.end - frame.body_at)
        last.frames.append(head + data[frame.fields_at : frame.end])


def _no_preface(data: bytes, is_gateway: bool) -> str:
    """Return the text for a peer whose first bytes are not those of the flow protocol."""
    found = _protocol_of(data)
    if is_gateway:
        named = f"they are of {found}" if found else "the protocol is unknown"
        return f"the first bytes are no preface of the flow protocol: {named}"
    if found == "TLS":
        return "that port uses TLS: its URL begins with flows://"
    named = found or "another protocol"
    return f"that port answers in {named}, not in the flow protocol: give the port of the flow listener"


def _protocol_of(first: bytes) -> str:
    """Return the name of the protocol that begins with these bytes; empty for one that is not known."""
    for begin, name in _BY_FIRST_BYTES:
        if first.startswith(begin):
            return name
    return ""
