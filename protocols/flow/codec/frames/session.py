"""Frames of the session: handshake, authentication, keep-alive and close. They have fields and no body.

Flow: sessions. See also: `flow` (frames of publishers and consumers).
"""

from dataclasses import dataclass
from typing import Final, TypeAlias, final

from sluicegate.protocols.flow.codec import fields as f
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.fields import FieldWriter, control_fields
from sluicegate.protocols.flow.codec.frame import RESPONSE, SESSION, Frame, encode_frame
from sluicegate.protocols.flow.codec.limits import NAME_BYTES_MAX, TEXT_BYTES_MAX

# States of an authentication.
AUTH_CHALLENGE: Final = 0
AUTH_DONE: Final = 1
AUTH_FAILED: Final = 2

NO_REQUEST: Final = 0  # the request id of frames that answer none


@final
@dataclass(frozen=True)
class Hello:
    """The client's first frame."""

    client_name: str
    product: str
    keep_alive_ms: int  # the requested interval; 0: the gateway's default
    features: tuple[str, ...]
    vpn: str = ""  # the message VPN that it is to be in; empty: the listener's

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.text(f.CLIENT_NAME, self.client_name)
        out.text(f.PRODUCT, self.product)
        out.number(f.KEEP_ALIVE_MS, self.keep_alive_ms, 4)
        for feature in self.features:
            out.text(f.FEATURE, feature)
        if self.vpn:
            out.text(f.MESSAGE_VPN, self.vpn)
        return encode_frame(frames.HELLO, 0, SESSION, out.encoded(), b"")


@final
@dataclass(frozen=True)
class Welcome:
    """The gateway's response to HELLO: limits and features in force, and the mechanisms."""

    product: str
    keep_alive_ms: int  # the interval in force, for both sides
    frame_bytes_max: int  # the largest frame that the gateway takes
    flows_max: int  # of this connection
    features: tuple[str, ...]  # those that both know
    mechanisms: tuple[str, ...]  # of SASL, best first

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.text(f.PRODUCT, self.product)
        out.number(f.KEEP_ALIVE_MS, self.keep_alive_ms, 4)
        out.number(f.FRAME_BYTES_MAX, self.frame_bytes_max, 4)
        out.number(f.FLOWS_MAX, self.flows_max, 4)
        for feature in self.features:
            out.text(f.FEATURE, feature)
        for mechanism in self.mechanisms:
            out.text(f.MECHANISM, mechanism)
        return encode_frame(frames.WELCOME, 0, SESSION, out.encoded(), b"")


@final
@dataclass(frozen=True)
class Auth:
    """The client's part of a SASL exchange: with a mechanism it begins one."""

    mechanism: str
    data: bytes | None

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.text(f.MECHANISM, self.mechanism)
        if self.data is not None:
            out.data(f.SASL_DATA, self.data)
        return encode_frame(frames.AUTH, 0, SESSION, out.encoded(), b"")


@final
@dataclass(frozen=True)
class AuthAnswer:
    """The gateway's part of a SASL exchange."""

    state: int  # AUTH_CHALLENGE, AUTH_DONE or AUTH_FAILED
    data: bytes | None

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.AUTH_STATE, self.state, 1)
        if self.data is not None:
            out.data(f.SASL_DATA, self.data)
        return encode_frame(frames.AUTH, RESPONSE, SESSION, out.encoded(), b"")


@final
@dataclass(frozen=True)
class Goaway:
    """The client should finish what is in flight, settle, disconnect, and reconnect elsewhere or later."""

    code: int
    text: str
    drain_ms: int  # until the gateway closes the connection

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.CODE, self.code, 2)
        out.text(f.TEXT, self.text)
        out.number(f.DRAIN_MS, self.drain_ms, 4)
        return encode_frame(frames.GOAWAY, 0, SESSION, out.encoded(), b"")


@final
@dataclass(frozen=True)
class Close:
    """The sender's last frame; the other side responds with its own and closes the stream."""

    code: int
    text: str

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.CODE, self.code, 2)
        out.text(f.TEXT, self.text)
        return encode_frame(frames.CLOSE, 0, SESSION, out.encoded(), b"")


@final
@dataclass(frozen=True)
class Error:
    """Something has failed: a request, a flow, or with neither id the connection, which then ends."""

    flow_id: int
    request_id: int  # NO_REQUEST: no request is answered with it
    code: int
    text: str
    retry_after_ms: int | None  # None: it makes no sense to try again

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        if self.request_id != NO_REQUEST:
            out.number(f.REQUEST_ID, self.request_id, 4)
        out.number(f.CODE, self.code, 2)
        out.text(f.TEXT, self.text)
        if self.retry_after_ms is not None:
            out.number(f.RETRY_AFTER_MS, self.retry_after_ms, 4)
        return encode_frame(frames.ERROR, 0, self.flow_id, out.encoded(), b"")


SessionFrame: TypeAlias = Hello | Welcome | Auth | AuthAnswer | Goaway | Close | Error

SESSION_FRAMES: Final = frozenset(
    {frames.HELLO, frames.WELCOME, frames.AUTH, frames.GOAWAY, frames.CLOSE, frames.ERROR}
)


def read_session_frame(frame: Frame, data: bytes) -> SessionFrame:
    """Return a frame whose type is one of SESSION_FRAMES. Raises PeerViolation."""
    kind = frame.kind
    reader = control_fields(frame, data)
    if kind == frames.HELLO:
        return Hello(
            reader.text(f.CLIENT_NAME, NAME_BYTES_MAX),
            reader.text(f.PRODUCT, NAME_BYTES_MAX),
            reader.number(f.KEEP_ALIVE_MS, 4, 0),
            reader.texts(f.FEATURE, NAME_BYTES_MAX),
            reader.text(f.MESSAGE_VPN, NAME_BYTES_MAX),
        )
    if kind == frames.WELCOME:
        return Welcome(
            reader.text(f.PRODUCT, NAME_BYTES_MAX),
            reader.number_required(f.KEEP_ALIVE_MS, 4),
            reader.number_required(f.FRAME_BYTES_MAX, 4),
            reader.number_required(f.FLOWS_MAX, 4),
            reader.texts(f.FEATURE, NAME_BYTES_MAX),
            reader.texts(f.MECHANISM, NAME_BYTES_MAX),
        )
    if kind == frames.AUTH:
        if frame.flags & RESPONSE:
            return AuthAnswer(reader.number_required(f.AUTH_STATE, 1), reader.data(f.SASL_DATA))
        return Auth(reader.text(f.MECHANISM, NAME_BYTES_MAX), reader.data(f.SASL_DATA))
    if kind == frames.ERROR:
        return Error(
            frame.flow_id,
            reader.number(f.REQUEST_ID, 4, NO_REQUEST),
            reader.number_required(f.CODE, 2),
            reader.text(f.TEXT, TEXT_BYTES_MAX),
            reader.number_or_none(f.RETRY_AFTER_MS, 4),
        )
    code, text = reader.number_required(f.CODE, 2), reader.text(f.TEXT, TEXT_BYTES_MAX)
    if kind == frames.GOAWAY:
        return Goaway(code, text, reader.number(f.DRAIN_MS, 4, 0))
    return Close(code, text)
