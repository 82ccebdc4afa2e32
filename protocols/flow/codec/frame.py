"""Frames: their types and flags, splitting a byte stream into frames, and writing frame headers.

Flow: frames. `u32 length | u8 type | u8 flags | u16 bytes of fields | u32 flow id`, then fields, then the body. The
length counts what comes after it. All numbers are big-endian.
"""

from typing import Final, final

from sluicegate.protocols.flow.codec.codes import FRAME_TOO_LARGE, MALFORMED, LocalMisuse, PeerViolation
from sluicegate.protocols.flow.codec.limits import HEAD_BYTES

VERSION_MAJOR: Final = 1
VERSION_MINOR: Final = 0
# The first byte tells the protocol from TLS (0x16), MQTT (0x10), and HTTP and AMQP (letters).
PREFACE: Final = bytes((0xB5, 0x47, 0x46, 0x50, VERSION_MAJOR, VERSION_MINOR, 0, 0))

HELLO: Final = 0x01
WELCOME: Final = 0x02
AUTH: Final = 0x03
PING: Final = 0x04
PONG: Final = 0x05
GOAWAY: Final = 0x06
CLOSE: Final = 0x07
ERROR: Final = 0x08

SUBSCRIBE: Final = 0x10
UNSUBSCRIBE: Final = 0x11

OPEN_PUB: Final = 0x20
PUBLISH: Final = 0x21
PUB_ACK: Final = 0x22
CLOSE_PUB: Final = 0x23

BIND: Final = 0x30
DELIVER: Final = 0x31
CREDIT: Final = 0x32
SETTLE: Final = 0x33
SETTLED: Final = 0x34
FLOW_STATE: Final = 0x35
UNBIND: Final = 0x36
PARTITIONS: Final = 0x37
PARTITIONS_ACK: Final = 0x38

READ: Final = 0x40
ROWS: Final = 0x41
QUEUE_STATUS: Final = 0x42
CUT_RANGE: Final = 0x43
BIND_CURSOR: Final = 0x44
ACK_CURSOR: Final = 0x45
PIN_CURSOR: Final = 0x46
CURSOR_STATUS: Final = 0x47
UNBIND_CURSOR: Final = 0x48
DELETE_CURSOR: Final = 0x49
STAGE: Final = 0x50
COMMIT_STAGED: Final = 0x51
ABORT_STAGED: Final = 0x52

PROVISION: Final = 0x60
ALTER: Final = 0x61
DEPROVISION: Final = 0x62

# Between brokers.
LINK: Final = 0x70
LINK_DIGESTS: Final = 0x71
LINK_INTERESTS: Final = 0x72
LINK_ACK: Final = 0x73
LINK_MESSAGES: Final = 0x74
LINK_STORE: Final = 0x75
LINK_STORED: Final = 0x76
LINK_NEIGHBORS: Final = 0x77
LINK_RETAINED: Final = 0x78
LINK_FLOW: Final = 0x79
LINK_DELIVER: Final = 0x7A
LINK_CLIENTS: Final = 0x7B

OF_LINKS: Final[tuple[int, ...]] = (  # once LINK is answered
    LINK_DIGESTS,
    LINK_INTERESTS,
    LINK_ACK,
    LINK_MESSAGES,
    LINK_STORE,
    LINK_STORED,
    LINK_NEIGHBORS,
    LINK_RETAINED,
    LINK_FLOW,
    LINK_DELIVER,
    LINK_CLIENTS,
)

# Requests that need no flow; the answer is a RESPONSE of the same type.
REQUESTS_OF_SESSION: Final[tuple[int, ...]] = (
    PROVISION,
    ALTER,
    DEPROVISION,
    SUBSCRIBE,
    UNSUBSCRIBE,
    QUEUE_STATUS, CUT_RANGE, BIND_CURSOR, ACK_CURSOR, PIN_CURSOR, CURSOR_STATUS, UNBIND_CURSOR, DELETE_CURSOR, STAGE,
    COMMIT_STAGED, ABORT_STAGED, LINK,
)  # fmt: skip

NAMES: Final[dict[int, str]] = {
    HELLO: "HELLO",
    WELCOME: "WELCOME",
    AUTH: "AUTH",
    PING: "PING",
    PONG: "PONG",
    GOAWAY: "GOAWAY",
    CLOSE: "CLOSE",
    ERROR: "ERROR",
    SUBSCRIBE: "SUBSCRIBE",
    UNSUBSCRIBE: "UNSUBSCRIBE",
    OPEN_PUB: "OPEN_PUB",
    PUBLISH: "PUBLISH",
    PUB_ACK: "PUB_ACK",
    CLOSE_PUB: "CLOSE_PUB",
    BIND: "BIND",
    DELIVER: "DELIVER",
    CREDIT: "CREDIT",
    SETTLE: "SETTLE",
    SETTLED: "SETTLED",
    FLOW_STATE: "FLOW_STATE",
    UNBIND: "UNBIND",
    PARTITIONS: "PARTITIONS",
    PARTITIONS_ACK: "PARTITIONS_ACK",
    READ: "READ",
    ROWS: "ROWS",
    QUEUE_STATUS: "QUEUE_STATUS",
    CUT_RANGE: "CUT_RANGE",
    BIND_CURSOR: "BIND_CURSOR",
    ACK_CURSOR: "ACK_CURSOR",
    PIN_CURSOR: "PIN_CURSOR",
    CURSOR_STATUS: "CURSOR_STATUS",
    UNBIND_CURSOR: "UNBIND_CURSOR",
    DELETE_CURSOR: "DELETE_CURSOR",
    STAGE: "STAGE",
    COMMIT_STAGED: "COMMIT_STAGED",
    ABORT_STAGED: "ABORT_STAGED",
    PROVISION: "PROVISION",
    ALTER: "ALTER",
    DEPROVISION: "DEPROVISION",
    LINK: "LINK",
    LINK_DIGESTS: "LINK_DIGESTS",
    LINK_INTERESTS: "LINK_INTERESTS",
    LINK_ACK: "LINK_ACK",
    LINK_MESSAGES: "LINK_MESSAGES",
    LINK_STORE: "LINK_STORE",
    LINK_STORED: "LINK_STORED",
    LINK_NEIGHBORS: "LINK_NEIGHBORS",
    LINK_RETAINED: "LINK_RETAINED",
    LINK_FLOW: "LINK_FLOW",
    LINK_DELIVER: "LINK_DELIVER",
    LINK_CLIENTS: "LINK_CLIENTS",
}

RESPONSE: Final = 0x01  # it answers a request
COMPRESSED: Final = 0x08  # its body is a zlib stream; where that is in force only
CRITICAL: Final = 0x10  # who does not know the type must not pass it over
FLAGS_KNOWN: Final = RESPONSE | COMPRESSED | CRITICAL

SESSION: Final = 0  # the flow id of what concerns the connection as a whole

_LENGTH_BYTES: Final = 4
_BODY_LENGTH_MIN: Final = HEAD_BYTES - _LENGTH_BYTES


@final
class Frame:
    """Where one frame lies in the buffer it was cut from."""

    __slots__ = ("body_at", "end", "fields_at", "flags", "flow_id", "kind")

    def __init__(self, kind: int, flags: int, flow_id: int, fields_at: int, body_at: int, end: int) -> None:
        self.kind = kind
        self.flags = flags
        self.flow_id = flow_id
        self.fields_at = fields_at
        self.body_at = body_at
        self.end = end

    def __repr__(self) -> str:
        return f"Frame({NAMES.get(self.kind, hex(self.kind))}, flow {self.flow_id}, {self.end - self.body_at} bytes)"


def cut_frame(data: bytes, pos: int, end: int, frame_bytes_max: int) -> Frame | None:
    """Return the frame at `pos`, or None while part of it is missing.

    The size is checked as soon as its four bytes are there, so no oversize frame is buffered. Raises
    PeerViolation.
    """
    if pos + _LENGTH_BYTES > end:
        return None
    size = _LENGTH_BYTES + (data[pos] << 24 | data[pos + 1] << 16 | data[pos + 2] << 8 | data[pos + 3])
    if size < HEAD_BYTES:
        raise PeerViolation(MALFORMED, f"a frame of {size} bytes; its head alone has {HEAD_BYTES}")
    if size > frame_bytes_max:
        raise PeerViolation(FRAME_TOO_LARGE, f"a frame of {size} bytes; at most {frame_bytes_max} are taken")
    if pos + size > end:
        return None
    flags = data[pos + 5]
    if flags & ~FLAGS_KNOWN:
        raise PeerViolation(MALFORMED, f"flags {flags:#04x}; known are {FLAGS_KNOWN:#04x}")
    fields_at = pos + HEAD_BYTES
    body_at = fields_at + (data[pos + 6] << 8 | data[pos + 7])
    if body_at > pos + size:
        raise PeerViolation(MALFORMED, f"{body_at - fields_at} bytes of fields in a frame of {size}")
    flow_id = data[pos + 8] << 24 | data[pos + 9] << 16 | data[pos + 10] << 8 | data[pos + 11]
    return Frame(data[pos + 4], flags, flow_id, fields_at, body_at, pos + size)


def missing_bytes(data: bytes, pos: int, end: int) -> int:
    """Return how many bytes of the frame at `pos` are missing; 0 if that is not known."""
    if pos + _LENGTH_BYTES > end:
        return 0
    return max(0, pos + frame_bytes(data, pos) - end)


def frame_bytes(data: bytes, pos: int) -> int:
    """Return the size of the frame at `pos`, its head included, by its first four bytes."""
    return _LENGTH_BYTES + (data[pos] << 24 | data[pos + 1] << 16 | data[pos + 2] << 8 | data[pos + 3])


def encode_frame(kind: int, flags: int, flow_id: int, fields: bytes, body: bytes) -> bytes:
    """Return an encoded frame. Raises LocalMisuse for values the protocol cannot express."""
    return b"".join((frame_head(kind, flags, flow_id, len(fields), len(body)), fields, body))


def frame_head(kind: int, flags: int, flow_id: int, fields_bytes: int, body_bytes: int) -> bytes:
    """Return what stands before the fields and the body of a frame. Raises LocalMisuse as `encode_frame`."""
    if fields_bytes > 0xFFFF:
        raise LocalMisuse(f"{fields_bytes} bytes of fields in {NAMES[kind]}; at most 65535 fit")
    head = (fields_bytes + body_bytes + _BODY_LENGTH_MIN).to_bytes(_LENGTH_BYTES, "big")
    return b"".join((head, bytes((kind, flags)), fields_bytes.to_bytes(2, "big"), flow_id.to_bytes(4, "big")))
