"""The handshake before the first AMQP frame: protocol headers, and the SASL layer (2.2, 5.3).

A client may send everything at once: header, sasl-init, the next header, open. So this is a reader of one buffer that
stops where an answer is needed, and goes on when the answer is given.
"""

from collections.abc import Sequence
from typing import Final, final

from sluicegate.protocols.amqp.codec.frames import SASL_FRAME, cut_frame, sasl_frame
from sluicegate.protocols.amqp.codec.performatives import (
    INIT,
    RESPONSE,
    SASL_OK,
    challenge,
    mechanisms,
    outcome,
    read_init,
    read_response,
    sasl_code,
)
from sluicegate.protocols.amqp.engine.events import AmqpEvent, SaslInitReceived, SaslResponseReceived
from sluicegate.protocols.amqp.limits import SASL_FRAME_BYTES_MAX
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.errors import CONNECTION, DECODE_ERROR, FRAMING_ERROR, DecodeError, PeerViolation
from sluicegate.protocols.amqp.types.values import Described

HEADER_BYTES: Final = 8
AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"

# What comes to the wrong port most, by its first bytes.
_OTHERS: Final = (
    (b"AMQP\x00\x00\x09\x01", "AMQP 0-9-1 at a port for AMQP 1.0"),
    (b"\x16\x03", "TLS at a port for AMQP 1.0 without it"),
    (b"\x10", "MQTT at a port for AMQP 1.0"),
    (b"GET ", "HTTP at a port for AMQP 1.0"),
    (b"POST ", "HTTP at a port for AMQP 1.0"),
)

# Where a handshake is.
HEADER: Final = 0  # the first protocol header is to come
SASL: Final = 1  # a SASL frame is to come
ANSWER: Final = 2  # the client waits for our answer, and is not read from
PLAIN_HEADER: Final = 3  # the AMQP header behind SASL is to come
DONE: Final = 4
REFUSED: Final = 5  # nothing more is read


@final
class Handshake:
    """The handshake of one connection, up to its first frame."""

    def __init__(self, offered: Sequence[str], *, allows_bare: bool) -> None:
        self.step = HEADER
        self.refusal = ""  # why nothing more is read
        self._offered = list(offered)  # mechanisms, best first
        self._allows_bare = allows_bare  # a client may do without SASL, as an anonymous one
        self._is_begun = False  # sasl-init was seen

    def feed(self, data: bytes, pos: int, out: list[bytes], events: list[AmqpEvent]) -> int:
        """Read as far as possible; return the position of what is not read yet. Raises PeerViolation, DecodeError."""
        while True:
            step = self.step
            if step in (HEADER, PLAIN_HEADER):
                stop = self._header(data, pos, out)
            elif step == SASL:
                stop = self._frame(data, pos, events)
            else:
                return pos
            if stop == pos:
                return pos
            pos = stop

    def challenge(self, data: bytes, out: list[bytes]) -> None:
        """Send a challenge; the client's response is read next."""
        assert self.step == ANSWER, "a challenge answers the client"
        out.append(sasl_frame(challenge(data)))
        self.step = SASL

    def outcome(self, code: int, data: bytes | None, out: list[bytes]) -> None:
        """Send the outcome; behind a good one the client begins anew with a header."""
        assert self.step == ANSWER, "an outcome answers the client"
        out.append(sasl_frame(outcome(code, data)))
        self.step = PLAIN_HEADER
        if code != SASL_OK:
            self._refuse("SASL has failed")

    def _header(self, data: bytes, pos: int, out: list[bytes]) -> int:
        """Read a protocol header. An unsupported one is answered with the supported one, and a close (2.2)."""
        given = data[pos : pos + HEADER_BYTES]
        if AMQP_HEADER.startswith(given) or SASL_HEADER.startswith(given):
            if len(given) < HEADER_BYTES:
                return pos
            if given == AMQP_HEADER and (self.step == PLAIN_HEADER or self._allows_bare):
                out.append(AMQP_HEADER)
                self.step = DONE
                return pos + HEADER_BYTES
            if given == SASL_HEADER and self.step == HEADER and self._offered:
                out.append(SASL_HEADER)
                out.append(sasl_frame(mechanisms(self._offered)))
                self.step = SASL
                return pos + HEADER_BYTES
        out.append(SASL_HEADER if self.step == HEADER and self._offered else AMQP_HEADER)
        self._refuse(_unwanted(given))
        return pos

    def _refuse(self, why: str) -> None:
        self.step = REFUSED
        self.refusal = why

    def _frame(self, data: bytes, pos: int, events: list[AmqpEvent]) -> int:
        """Read a SASL frame, and wait for the answer to it."""
        frame = cut_frame(data, pos, len(data), SASL_FRAME_BYTES_MAX)
        if frame is None:
            return pos
        if frame.kind != SASL_FRAME:
            raise PeerViolation(CONNECTION, FRAMING_ERROR, "an AMQP frame before SASL is complete")
        value, stop = decode(data, frame.body_at, frame.end)
        if stop != frame.end or not isinstance(value, Described) or not isinstance(value.value, list):
            raise DecodeError("a SASL frame holds one performative")
        code = sasl_code(value.descriptor)
        if code == INIT and not self._is_begun:
            self._is_begun = True
            init = read_init(value.value)
            events.append(SaslInitReceived(init.mechanism, init.initial_response, init.hostname))
        elif code == RESPONSE and self._is_begun:
            events.append(SaslResponseReceived(read_response(value.value)))
        else:
            raise PeerViolation(CONNECTION, DECODE_ERROR, f"SASL performative {code:#x} at the wrong time")
        self.step = ANSWER
        return frame.end


def _unwanted(given: bytes) -> str:
    """Return the client's first bytes for the log, where they show a wrong port or library."""
    if given == AMQP_HEADER:
        return "AMQP without SASL, where clients have to show who they are"
    for first, told in _OTHERS:
        if given.startswith(first):
            return told
    return f"{given!r} is no protocol header of AMQP 1.0 that is wanted here"
