"""Frames (2.3): cutting a stream of bytes into them, and putting a head before a body."""

from typing import Final, final

from sluicegate.protocols.amqp.limits import FRAME_HEAD_BYTES
from sluicegate.protocols.amqp.types.errors import CONNECTION, FRAMING_ERROR, PeerViolation

AMQP_FRAME: Final = 0
SASL_FRAME: Final = 1

HEARTBEAT: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"


@final
class Frame:
    """Where one frame's body lies in the buffer it was cut from."""

    __slots__ = ("body_at", "channel", "end", "kind")

    def __init__(self, kind: int, channel: int, body_at: int, end: int) -> None:
        self.kind = kind
        self.channel = channel
        self.body_at = body_at
        self.end = end


def cut_frame(data: bytes, pos: int, end: int, frame_bytes_max: int) -> Frame | None:
    """Return the frame at `pos`, or None while part of it is missing.

    The size is judged as soon as its four bytes are there, so no peer makes the broker hold an oversize frame. Raises
    PeerViolation.
    """
    if pos + 4 > end:
        return None
    size = data[pos] << 24 | data[pos + 1] << 16 | data[pos + 2] << 8 | data[pos + 3]
    if size < FRAME_HEAD_BYTES:
        raise PeerViolation(CONNECTION, FRAMING_ERROR, f"a frame of {size} bytes; its head alone has 8")
    if size > frame_bytes_max:
        raise PeerViolation(CONNECTION, FRAMING_ERROR, f"a frame of {size} bytes; at most {frame_bytes_max} are taken")
    if pos + size > end:
        return None
    offset = 4 * data[pos + 4]
    kind = data[pos + 5]
    if not FRAME_HEAD_BYTES <= offset <= size:
        raise PeerViolation(CONNECTION, FRAMING_ERROR, f"a data offset of {offset} bytes in a frame of {size}")
    if kind not in (AMQP_FRAME, SASL_FRAME):
        raise PeerViolation(CONNECTION, FRAMING_ERROR, f"a frame of the unknown type {kind}")
    return Frame(kind, data[pos + 6] << 8 | data[pos + 7], pos + offset, pos + size)


def frame(channel: int, body: bytes) -> bytes:
    """Return an AMQP frame."""
    return (len(body) + FRAME_HEAD_BYTES).to_bytes(4, "big") + bytes((2, 0, channel >> 8, channel & 0xFF)) + body


def answer_bytes(pieces: list[bytes]) -> int:
    """Return how many bytes the frames have that are in one piece: all but transfers, behind which stands a payload."""
    count = 0
    is_payload = False
    for piece in pieces:
        if is_payload:
            is_payload = False
        elif int.from_bytes(piece[:4], "big") > len(piece):
            is_payload = True
        else:
            count += len(piece)
    return count


def sasl_frame(body: bytes) -> bytes:
    """Return a SASL frame."""
    return (len(body) + FRAME_HEAD_BYTES).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body
