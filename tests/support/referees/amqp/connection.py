"""The referee of AMQP 1.0: which frames a gateway may send on one connection, and when (parts 2, 4 and 5).

This module checks protocol headers, framing, SASL, and the connection as a whole. `session` checks sessions, `grammar`
the form of each frame.
"""

from collections.abc import Iterator
from typing import Final

from support.referees.amqp.grammar import Malformed, Said, check, read
from support.referees.amqp.session import SessionReferee, Transactions
from support.referees.violations import ClientViolation, WireViolation, expect

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
MIN_MAX_FRAME_SIZE: Final = 512  # 2.8.19
CLIENT_FRAME_BYTES_MAX: Final = 1 << 25
AMQP_FRAME, SASL_FRAME = 0, 1
PERFORMATIVES: Final = {"open", "begin", "attach", "flow", "transfer", "disposition", "detach", "end", "close"}

# How far what the gateway says has come.
START, SASL, REFUSED, AUTHENTICATED, HEADER, OPEN, CLOSED = (
    "start", "sasl", "refused", "authenticated", "header", "open", "closed",
)  # fmt: skip

# The conditions of 2.8.15 to 2.8.18, and of 4.5.8.
CONDITIONS: Final = {
    *(
        f"amqp:{name}"
        for name in (
            "internal-error", "not-found", "unauthorized-access", "decode-error", "resource-limit-exceeded",
            "not-allowed", "invalid-field", "not-implemented", "resource-locked", "precondition-failed",
            "resource-deleted", "illegal-state", "frame-size-too-small",
        )
    ),
    *(f"amqp:connection:{name}" for name in ("forced", "framing-error", "redirect")),
    *(f"amqp:session:{name}" for name in ("window-violation", "errant-link", "handle-in-use", "unattached-handle")),
    *(
        f"amqp:link:{name}"
        for name in ("detach-forced", "transfer-limit-exceeded", "message-size-exceeded", "redirect", "stolen")
    ),
    *(f"amqp:transaction:{name}" for name in ("unknown-id", "rollback", "timeout")),
}  # fmt: skip


class AmqpReferee:
    """Judges one connection."""

    def __init__(self) -> None:
        self._from_gateway = bytearray()
        self._from_client = bytearray()
        self._state = START
        self._client_headers: list[bytes] = []  # that are not answered
        self._client_open: Said | None = None
        self._client_has_closed = False
        self._sasl_answers_due = 0  # the mechanisms, and one for each SASL frame of the client
        self._has_mechanisms = False  # were sent
        self._by_client: dict[int, SessionReferee] = {}  # by the client's channel
        self._by_gateway: dict[int, SessionReferee] = {}
        self._transactions = Transactions()

    # --- the gateway ---

    def gateway_says(self, data: bytes) -> None:
        """Judge what the gateway writes. Raises WireViolation."""
        self._from_gateway += data
        for piece in _cut(self._from_gateway, WireViolation):
            expect(
                self._state not in (REFUSED, CLOSED), "2.2, 2.4.3, 5.3.3.6", "{}, and then {!r:.80}", self._state, piece
            )
            if piece.startswith(b"AMQP"):
                self._gateway_header(piece)
            else:
                self._gateway_frame(piece)

    def _gateway_header(self, header: bytes) -> None:
        expect(self._state in (START, AUTHENTICATED), "2.2", "{}, and then {!r}", self._state, header)
        expect(header in (AMQP_HEADER, SASL_HEADER), "2.2, 5.3.1", "{!r} is of no protocol", header)
        asked = self._client_headers.pop(0) if self._client_headers else b""
        if header != asked:  # 2.2: so it says what it speaks, and closes
            self._state = REFUSED
        elif header == SASL_HEADER:
            expect(self._state == START, "5.3.1", "security layers are negotiated twice")
            self._state = SASL
            self._sasl_answers_due += 1
        else:
            self._state = HEADER

    def _gateway_frame(self, frame: bytes) -> None:
        doff, kind, channel = frame[4], frame[5], int.from_bytes(frame[6:8], "big")
        start = 4 * doff
        expect(doff >= 2 and start <= len(frame), "2.3.1", "a doff of {} in a frame of {} bytes", doff, len(frame))
        expect(kind == (SASL_FRAME if self._state == SASL else AMQP_FRAME), "2.3.2, 5.3.2", "{}: {}", self._state, kind)
        limit = MIN_MAX_FRAME_SIZE
        if kind == AMQP_FRAME and self._client_open is not None:
            limit = self._client_open.number("max-frame-size", 0xFFFF_FFFF)
        expect(len(frame) <= limit, "2.3.1, 2.7.1", "a frame of {} bytes, where {} are taken", len(frame), limit)
        if start == len(frame):
            expect(self._state == OPEN, "2.4.5, 5.3.2", "{}, and then an empty frame", self._state)
            return
        try:
            value, pos = read(frame, start, len(frame))
            expect(isinstance(value.it, Said), "2.3.2", "a frame of {}", value)
            assert isinstance(value.it, Said)
            check(value.it)
        except Malformed as malformed:
            raise WireViolation(f"{malformed}, in {frame[:200].hex()}") from None
        self._gateway_performative(channel, value.it, frame[pos:])

    def _gateway_performative(self, channel: int, said: Said, payload: bytes) -> None:
        expect(not payload or said.name == "transfer", "2.3.2", "{} and {} bytes", said, len(payload))
        if self._state == SASL:
            self._gateway_sasl(said)
            return
        expect(said.name in PERFORMATIVES, "2.7", "{}", said)
        error = said.composite("error")
        condition = "" if error is None else error.text("condition")
        expect(not condition or condition in CONDITIONS, "2.8.14", "the condition {}", condition)
        expect((self._state == OPEN) == (said.name != "open"), "2.4.1", "{}, and then {}", self._state, said)
        if said.name == "open":
            expect(channel == 0, "2.4.1", "open on channel {}", channel)
            expect(said.number("max-frame-size", MIN_MAX_FRAME_SIZE) >= MIN_MAX_FRAME_SIZE, "2.7.1", "{}", said)
            self._state = OPEN
        elif said.name == "close":
            self._judge_open_echoes(said)
            self._state = CLOSED
        elif said.name == "begin":
            self._gateway_begin(channel, said)
        else:
            session = self._by_gateway.get(channel)
            if session is None:
                raise WireViolation(f"2.5: {said} on channel {channel}, where no session is")
            session.gateway_says(said, payload)
            if said.name == "end":
                del self._by_gateway[channel]

    def _judge_open_echoes(self, close: Said) -> None:
        if self._client_has_closed and not close.has("error"):
            for session in self._by_gateway.values():
                session.judge_echo()

    def _gateway_begin(self, channel: int, said: Said) -> None:
        expect(channel not in self._by_gateway, "2.5.1", "begin on channel {}, where a session is", channel)
        limit = 0 if self._client_open is None else self._client_open.number("channel-max", 0xFFFF)
        expect(channel <= limit, "2.7.1", "channel {}, and the client takes {}", channel, limit)
        session = self._by_client.get(said.number("remote-channel"))
        if session is None or session.begun is not None:
            raise WireViolation(f"2.7.2: {said} answers no begin")
        session.gateway_begins(said)
        self._by_gateway[channel] = session

    def _gateway_sasl(self, said: Said) -> None:
        """5.3.2: mechanisms, then challenges that are answered, and an outcome."""
        expect(self._sasl_answers_due > 0, "5.3.2", "{} answers nothing", said)
        self._sasl_answers_due -= 1
        if not self._has_mechanisms:
            expect(said.name == "sasl-mechanisms", "5.3.2", "{} before the mechanisms", said)
            expect(bool(said.symbols("sasl-server-mechanisms")), "5.3.3.1", "{}", said)
            self._has_mechanisms = True
        elif said.name == "sasl-outcome":
            self._state = REFUSED if said.number("code") else AUTHENTICATED
        else:
            expect(said.name == "sasl-challenge", "5.3.2", "{}", said)

    # --- the client ---

    def client_says(self, data: bytes) -> None:
        """Take the client's bytes. Raises ClientViolation, after which the gateway cannot be judged."""
        self._from_client += data
        if self._client_has_closed:
            return
        for piece in _cut(self._from_client, ClientViolation):
            if piece.startswith(b"AMQP"):
                self._client_headers.append(piece)
            elif len(piece) > 4 * piece[4] >= 8:
                try:
                    value, pos = read(piece, 4 * piece[4], len(piece))
                except Malformed as malformed:
                    raise ClientViolation(str(malformed)) from None
                if not isinstance(value.it, Said):
                    raise ClientViolation(f"2.3.2: {value}")
                self._client_performative(int.from_bytes(piece[6:8], "big"), value.it, piece[pos:])

    def _client_performative(self, channel: int, said: Said, payload: bytes) -> None:
        if said.name in ("sasl-init", "sasl-response"):
            self._sasl_answers_due += 1
        elif said.name == "open":
            self._client_open = said
        elif said.name == "close":
            self._client_has_closed = True
        elif said.name == "begin":
            if channel in self._by_client:
                raise ClientViolation(f"2.5.1: {said} on channel {channel}, where a session is")
            self._by_client[channel] = SessionReferee(said, self._transactions)
        elif channel not in self._by_client:
            raise ClientViolation(f"2.5: {said} on channel {channel}, where no session is")
        elif said.name == "end":
            self._by_client.pop(channel).client_ends()
        else:
            self._by_client[channel].client_says(said, payload)


def _cut(data: bytearray, violation: type[Exception]) -> Iterator[bytes]:
    """Take protocol headers and whole frames off the front. Raises `violation` for a size that is none (2.3.1)."""
    while len(data) >= 8:
        size = 8 if data.startswith(b"AMQP") else int.from_bytes(data[:4], "big")
        if not 8 <= size <= CLIENT_FRAME_BYTES_MAX:
            raise violation(f"2.3.1: a frame of {size} bytes")
        if len(data) < size:
            return
        piece = bytes(data[:size])
        del data[:size]
        yield piece
