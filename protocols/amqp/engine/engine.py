"""The wire engine of one AMQP connection: bytes in, events out, bytes out. No socket, clock or actor.

It handles by itself: protocol headers, frames, begin and end, handles, windows, credit, the order of ids, heartbeats
and idle timeouts, echoes, and every violation at the scope the standard gives it. It leaves to its owner: who is let in
(`sasl_challenge`, `sasl_outcome`), the broker's open (`open`), and the verbs of `sessions`: what links lead to
(`attach`, `refuse`, `detach`), the credit of senders (`grant`), messages (`send`) and their outcomes (`settle`).
"""

from typing import Final, final

from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.codec.frames import AMQP_FRAME, HEARTBEAT, Frame, cut_frame, frame
from sluicegate.protocols.amqp.codec.performatives import (
    CLOSE,
    OPEN,
    PERFORMATIVES,
    Open,
    encode_ending,
    performative_code,
    read_ending,
    read_open,
)
from sluicegate.protocols.amqp.engine.events import (
    AmqpEvent,
    CloseReceived,
    OpenAnnounced,
    OpenReceived,
    PeerViolated,
)
from sluicegate.protocols.amqp.engine.handshake import DONE, REFUSED, Handshake
from sluicegate.protocols.amqp.engine.sessions import Sessions
from sluicegate.protocols.amqp.limits import IDLE_TIMEOUT_MS_MIN, MIN_MAX_FRAME_SIZE, AmqpLimits
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.amqp.types.decoding import decode, read_fields
from sluicegate.protocols.amqp.types.errors import CONNECTION, DecodeError, PeerViolation
from sluicegate.protocols.amqp.types.values import AmqpValue, Described

# How far the connection is.
HANDSHAKE: Final = 0
OPENING: Final = 1  # the peer's open is to come
OPENED: Final = 2
CLOSING: Final = 3  # we sent close; whatever comes before the peer's is dropped
CLOSED: Final = 4

BUFFERED_BYTES_MAX: Final = 262_144  # of a client that sends on while its credentials are checked
FRAME_BYTES_OUT_MAX: Final = 1 << 20  # of what we send, whatever the peer takes: links take turns between frames
CLOSE_TIMEOUT_MS: Final = 5_000  # how long the peer has to answer our close


@final
class AmqpEngine:
    """One connection. Its owner calls `feed`, `tick` and the verbs, and writes what `take` returns."""

    def __init__(
        self, limits: AmqpLimits, now_ms: int, *, container_id: str, mechanisms: list[str], allows_bare: bool
    ) -> None:
        self.state = HANDSHAKE
        self._limits = limits
        self._container_id = container_id  # ours
        self._handshake: Handshake | None = Handshake(mechanisms, allows_bare=allows_bare)  # None once it is over
        self._stops_at_open = False  # the owner asks first who opens
        self._out: list[bytes] = []
        self.sessions = Sessions(limits, self._out)
        self._rest = b""  # of the last feed: an unfinished frame, or what waits for an answer
        self._has_opened = False  # our open is written
        self._open_at = 0  # where it goes among what waits to be written; known when the peer's has come
        self._end_at = -1  # where what waits to be written ends, once we have said close; negative: nowhere
        self._received_ms = now_ms
        self._sent_ms = now_ms
        self._began_ms = now_ms  # of the step that has a timeout
        self._heartbeat_ms = 0  # silence after which we send something; 0: never
        self._close_deadline_ms = 0

    # --- the three verbs of every engine ---

    def feed(self, data: bytes, now_ms: int) -> list[AmqpEvent]:
        """Return the peer's events, in wire order. A violation is answered here, and is the last event."""
        self._received_ms = now_ms
        if self.state == CLOSED:
            return []
        events: list[AmqpEvent] = []
        self._rest = self._rest + data if self._rest else data
        self._read_on(events, now_ms)
        return events

    def take(self) -> list[bytes]:
        """Return the bytes to write, with the outcomes of this turn in as few dispositions as they need."""
        if self.sessions.has_output:
            self.sessions.write_dispositions()
        pieces = self._out[: self._end_at] if self._end_at >= 0 else self._out[:]
        self._end_at = min(self._end_at, 0)
        self._out.clear()
        return pieces

    @property
    def has_output(self) -> bool:
        """Whether there is something to write."""
        return bool(self._out) or self.sessions.has_output

    def tick(self, now_ms: int) -> list[AmqpEvent]:
        """Bring time: heartbeats, silence, and steps that take too long."""
        events: list[AmqpEvent] = []
        if self.state in (HANDSHAKE, OPENING):
            if now_ms - self._began_ms > self._limits.connect_timeout_ms:
                self._end_by_violation("", "the handshake took too long", now_ms, events)
        elif self.state == CLOSING:
            if now_ms >= self._close_deadline_ms:
                self.state = CLOSED
                events.append(CloseReceived(None))
        elif self.state == OPENED:
            silence_max_ms = self._limits.idle_timeout_ms
            if silence_max_ms and now_ms - self._received_ms > silence_max_ms:
                text = f"idle timeout: nothing received for {now_ms - self._received_ms} ms"
                self._end_by_violation(conditions.RESOURCE_LIMIT_EXCEEDED, text, now_ms, events)
            elif self._heartbeat_ms and now_ms - self._sent_ms >= self._heartbeat_ms:
                self._out.append(HEARTBEAT)
                self._sent_ms = now_ms
        return events

    @property
    def heartbeat_ms(self) -> int:
        """The silence after which we send something; 0: never."""
        return self._heartbeat_ms

    @property
    def unfinished_bytes(self) -> int:
        """The number of bytes of an unfinished frame and of unfinished deliveries."""
        return len(self._rest) + self.sessions.unfinished_bytes

    def fail(self, condition: str, text: str, now_ms: int) -> list[AmqpEvent]:
        """End the connection at once for a reason of the owner's, and drop what is not whole."""
        events: list[AmqpEvent] = []
        self._end_by_violation(condition, text, now_ms, events)
        self.drop()
        return events

    def drop(self) -> None:
        """Drop unfinished input: nothing more is read."""
        self._rest = b""
        self.sessions.drop_unfinished()

    def alive(self, now_ms: int) -> None:
        """Count the peer as alive: it cannot show that while the broker does not read from it."""
        self._received_ms = now_ms

    def stalled(self, stall_ms: int, now_ms: int) -> None:
        """Do not count a time in which its owner read nothing: what the peer has sent may yet have to be read."""
        self._received_ms = min(now_ms, self._received_ms + stall_ms)
        self._began_ms += stall_ms
        self._close_deadline_ms += stall_ms

    def wrote(self, now_ms: int) -> None:
        """Note that bytes went out: the peer needs no heartbeat for a while."""
        self._sent_ms = now_ms

    # --- SASL ---

    def sasl_challenge(self, data: bytes, now_ms: int) -> list[AmqpEvent]:
        """Answer the client's last SASL frame with a challenge; return what it had sent on meanwhile."""
        self._in_handshake().challenge(data, self._out)
        return self._resume(now_ms)

    def sasl_outcome(self, code: int, data: bytes | None, now_ms: int) -> list[AmqpEvent]:
        """Answer the client's last SASL frame with an outcome; return what it had sent on meanwhile."""
        self._in_handshake().outcome(code, data, self._out)
        return self._resume(now_ms)

    def _in_handshake(self) -> Handshake:
        handshake = self._handshake
        assert handshake is not None, "the client waits for the answer to a SASL frame"
        return handshake

    def _resume(self, now_ms: int) -> list[AmqpEvent]:
        events: list[AmqpEvent] = []
        self._began_ms = now_ms
        self._read_on(events, now_ms)
        return events

    # --- a connection that another process may go on with ---

    def stop_at_open(self) -> None:
        """Have the peer's open announced before it is read; the owner then calls `go_on`, or takes `unread`."""
        self._stops_at_open = True

    @property
    def unread(self) -> bytes:
        """What has come and is not read yet."""
        return self._rest

    def go_on(self, now_ms: int) -> list[AmqpEvent]:
        """Read on behind the announcement of an open."""
        self._stops_at_open = False
        events: list[AmqpEvent] = []
        self._read_on(events, now_ms)
        return events

    def join(self) -> None:
        """Begin at the peer's open: another process has done the handshake, and has read nothing behind it."""
        self.state = OPENING
        self._handshake = None

    # --- the connection ---

    def open(self, ours: Open) -> None:
        """Answer the peer's open, before anything else is taken: in the turn in which it came.

        One that came with a violation behind it was answered when the violation was.
        """
        if self._has_opened:
            return
        ours.max_frame_size = self._limits.frame_bytes_max
        ours.channel_max = self._limits.channel_max
        # Half of what we bear: a peer that sends at the last moment is not cut off (2.4.5).
        ours.idle_timeout_ms = self._limits.idle_timeout_ms // 2
        self._has_opened = True
        # A client need not wait for our open (2.4.1), and what came behind its own may have been answered already.
        self._out.insert(self._open_at, frame(0, ours.encode()))

    def close(self, error: AmqpError | None, now_ms: int) -> None:
        """Close the connection; the peer's close, or a timeout, brings CloseReceived."""
        if self.state in (CLOSING, CLOSED):
            return
        if self.state == HANDSHAKE:
            self.state = CLOSED
            return
        self._write_close(error)
        self.state = CLOSING
        self._close_deadline_ms = now_ms + CLOSE_TIMEOUT_MS

    def _write_close(self, error: AmqpError | None) -> None:
        """Write the close. Nothing that is written behind it goes out (2.4.3)."""
        self.sessions.write_dispositions()
        self._open_anyway()
        self._out.append(frame(0, encode_ending(CLOSE, error)))
        self._end_at = len(self._out)

    def _open_anyway(self) -> None:
        """Open before a close: a close alone confuses clients (2.4.1)."""
        if not self._has_opened:
            if self.state == OPENING:  # theirs has not come, or cannot be read
                self._open_at = len(self._out)
            self.open(Open(self._container_id))

    # --- reading ---

    def _read_on(self, events: list[AmqpEvent], now_ms: int) -> None:
        """Read what is there, up to where something is missing or an answer is due."""
        try:
            self._read(events)
        except PeerViolation as violation:
            self._end_by_violation(violation.condition, violation.text, now_ms, events)
        except DecodeError as error:
            self._end_by_violation(conditions.DECODE_ERROR, str(error), now_ms, events)

    def _read(self, events: list[AmqpEvent]) -> None:
        data = self._rest
        pos = 0
        if self.state == HANDSHAKE:
            handshake = self._in_handshake()
            pos = handshake.feed(data, pos, self._out, events)
            step = handshake.step
            if step == DONE:
                self.state = OPENING
                self._handshake = None
            elif step == REFUSED:
                self.state = CLOSED
                self._rest = b""
                events.append(PeerViolated("", handshake.refusal))
                return
            elif len(data) - pos > BUFFERED_BYTES_MAX:
                text = f"more than {BUFFERED_BYTES_MAX} bytes before the handshake is over"
                raise PeerViolation(CONNECTION, conditions.FRAMING_ERROR, text)
        end = len(data)
        frame_bytes_max = self._limits.frame_bytes_max
        if self._stops_at_open and self.state == OPENING:
            container_id = _container_of_open(data, pos, end, frame_bytes_max)
            if container_id is not None:
                self._rest = data[pos:]
                events.append(OpenAnnounced(container_id))
                return
        while self.state not in (HANDSHAKE, CLOSED):
            cut = cut_frame(data, pos, end, frame_bytes_max)
            if cut is None:
                break
            pos = cut.end
            if cut.body_at != cut.end:  # else a heartbeat
                self._receive(cut, data, events)
        self._rest = data[pos:] if pos < end and self.state != CLOSED else b""

    def _receive(self, cut: Frame, data: bytes, events: list[AmqpEvent]) -> None:
        if cut.kind != AMQP_FRAME:
            raise PeerViolation(CONNECTION, conditions.FRAMING_ERROR, "a SASL frame after SASL is complete")
        body_at = cut.body_at
        if cut.end - body_at >= 4 and data[body_at] == 0x00 and data[body_at + 1] == 0x53:  # as everybody writes it
            code = data[body_at + 2]
            body_at += 3
        else:
            if data[body_at] != 0x00:
                raise DecodeError("a frame without a performative")
            descriptor: AmqpValue
            descriptor, body_at = decode(data, body_at + 1, cut.end)
            code = performative_code(descriptor)
        if code not in PERFORMATIVES:
            raise DecodeError(f"a frame with the unknown performative {code:#x}")
        if self.state == CLOSING:
            if code == CLOSE:
                self.state = CLOSED
                events.append(CloseReceived(None))
        elif code == OPEN:
            self._open_received(data, body_at, cut.end, events)
        elif self.state == OPENING:
            text = f"{PERFORMATIVES[code]} before open"
            raise PeerViolation(CONNECTION, conditions.ILLEGAL_STATE, text)
        elif code == CLOSE:
            self._close_received(data, body_at, cut.end, events)
        else:
            self.sessions.receive(code, cut, data, body_at, events)

    def _open_received(self, data: bytes, body_at: int, end: int, events: list[AmqpEvent]) -> None:
        if self.state != OPENING:
            raise PeerViolation(CONNECTION, conditions.ILLEGAL_STATE, "a second open")
        peer = read_open(read_fields(data, body_at, end))
        if peer.max_frame_size < MIN_MAX_FRAME_SIZE:
            text = f"max-frame-size {peer.max_frame_size}; the smallest allowed is {MIN_MAX_FRAME_SIZE}"
            raise PeerViolation(CONNECTION, conditions.INVALID_FIELD, text)
        if 0 < peer.idle_timeout_ms < IDLE_TIMEOUT_MS_MIN:
            text = f"idle-time-out {peer.idle_timeout_ms} ms; the shortest allowed is {IDLE_TIMEOUT_MS_MIN}"
            raise PeerViolation(CONNECTION, conditions.NOT_ALLOWED, text)
        self.sessions.frame_bytes_max = min(peer.max_frame_size, FRAME_BYTES_OUT_MAX)
        self._heartbeat_ms = peer.idle_timeout_ms // 2
        self.state = OPENED
        self._open_at = len(self._out)
        events.append(OpenReceived(peer))

    def _close_received(self, data: bytes, body_at: int, end: int, events: list[AmqpEvent]) -> None:
        error = read_ending(read_fields(data, body_at, end))
        self._write_close(None)
        self.state = CLOSED
        events.append(CloseReceived(error))

    def _end_by_violation(self, condition: str, text: str, now_ms: int, events: list[AmqpEvent]) -> None:
        """Send the reason, if the peer is far enough to read it, and read no more."""
        if self.state in (OPENING, OPENED):
            self._write_close(AmqpError(condition, text))
        self.state = CLOSED
        self._rest = b""
        events.append(PeerViolated(condition, text))


def _container_of_open(data: bytes, pos: int, end: int, frame_bytes_max: int) -> str | None:
    """Return the container id of the open that begins at `pos`; None: it is not whole, or something else is there.

    Heartbeats may be before it. What is wrong is found when it is read.
    """
    try:
        cut = cut_frame(data, pos, end, frame_bytes_max)
        while cut is not None and cut.body_at == cut.end:
            cut = cut_frame(data, cut.end, end, frame_bytes_max)
        if cut is None or cut.kind != AMQP_FRAME:
            return None
        value, _ = decode(data, cut.body_at, cut.end)
        if not isinstance(value, Described) or not isinstance(value.value, list):
            return None
        if performative_code(value.descriptor) != OPEN:
            return None
        return read_open(value.value).container_id
    except (DecodeError, PeerViolation):
        return None
