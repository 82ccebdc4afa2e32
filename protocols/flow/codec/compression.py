"""Compressed frames: the body of a frame as a zlib stream, under the flag COMPRESSED. Header and fields are unchanged.

Flow: compression. The body is `u32 bytes | zlib stream` (RFC 1950). A compressed frame is inflated into the frame it
stands for before it is read, so no other module knows of compression.

See also: `engine` (whether compression is in force, and counters of the bytes it saves).
"""

import zlib
from typing import Final

from sluicegate.protocols.flow.codec.codes import FRAME_TOO_LARGE, LIMIT_EXCEEDED, MALFORMED, PeerViolation
from sluicegate.protocols.flow.codec.frame import COMPRESSED, NAMES, Frame, encode_frame, frame_bytes
from sluicegate.protocols.flow.codec.limits import DEFLATED_BODY_BYTES_MIN, HEAD_BYTES, INFLATED_RATIO_MAX

DEFLATE: Final = "deflate"  # the feature, as HTTP calls zlib streams

_SIZE_BYTES: Final = 4
_LEVEL: Final = 1  # of 9: half the time that 6 takes, for a quarter more bytes


def inflated(frame: Frame, data: bytes, frame_bytes_max: int) -> tuple[Frame, bytes]:
    """Return the frame that a compressed one stands for, and the buffer that it lies in. Raises PeerViolation.

    The buffer has no head. The size that the frame names is judged before anything is inflated, and inflating stops
    where that is reached.
    """
    at = frame.body_at
    stream_at = at + _SIZE_BYTES
    if stream_at >= frame.end:
        raise PeerViolation(MALFORMED, f"{_name(frame)}, compressed, with a body of {frame.end - at} bytes")
    size = int.from_bytes(data[at:stream_at], "big")
    whole_bytes = HEAD_BYTES + at - frame.fields_at + size
    if whole_bytes > frame_bytes_max:
        text = f"{_name(frame)} of {whole_bytes} bytes, were it not compressed; at most {frame_bytes_max} are taken"
        raise PeerViolation(FRAME_TOO_LARGE, text)
    if size > INFLATED_RATIO_MAX * (frame.end - stream_at):
        text = f"{_name(frame)} of {frame.end - stream_at} bytes for {size}; at most {INFLATED_RATIO_MAX} times as many"
        raise PeerViolation(LIMIT_EXCEEDED, text)
    inflater = zlib.decompressobj()
    try:
        # One byte of room more: the stream's end is seen, and so is a byte too many. No room at all would be no limit.
        body = inflater.decompress(data[stream_at : frame.end], size + 1)
    except zlib.error as error:
        raise PeerViolation(MALFORMED, f"{_name(frame)} with a body that is not a zlib stream: {error}") from None
    if len(body) != size or not inflater.eof or inflater.unused_data:
        text = f"{_name(frame)} whose body does not inflate to the {size} bytes that it names"
        raise PeerViolation(MALFORMED, text)
    fields_bytes = at - frame.fields_at
    if fields_bytes:
        body = data[frame.fields_at : at] + body
    return Frame(frame.kind, frame.flags & ~COMPRESSED, frame.flow_id, 0, fields_bytes, len(body)), body


def inflated_head(frame: Frame, data: bytes, bytes_max: int) -> tuple[Frame, bytes]:
    """Return the beginning of the frame that a compressed one stands for, at most `bytes_max` of its body.

    Of the compressed frame the beginning is enough. It is for who only looks on: nothing is judged but that the body
    is a zlib stream. Raises PeerViolation.
    """
    inflater = zlib.decompressobj()
    try:
        body = inflater.decompress(data[frame.body_at + _SIZE_BYTES : frame.end], bytes_max)
    except zlib.error as error:
        raise PeerViolation(MALFORMED, f"{_name(frame)} with a body that is not a zlib stream: {error}") from None
    body = data[frame.fields_at : frame.body_at] + body
    fields_bytes = frame.body_at - frame.fields_at
    return Frame(frame.kind, frame.flags & ~COMPRESSED, frame.flow_id, 0, fields_bytes, len(body)), body


def _name(frame: Frame) -> str:
    return NAMES.get(frame.kind, f"type {frame.kind:#04x}")


def deflated(data: bytes, bytes_max: int) -> bytes:
    """Return whole frames with the larger of their bodies compressed, as far as that makes them smaller.

    What lies behind the first `bytes_max` of such bodies stays as it is: compressing takes its time.
    """
    pieces: list[bytes] = []
    kept_from = 0
    pos = 0
    end = len(data)
    while pos < end:
        stop = pos + frame_bytes(data, pos)
        body_at = pos + HEAD_BYTES + (data[pos + 6] << 8 | data[pos + 7])
        size = stop - body_at
        if DEFLATED_BODY_BYTES_MIN <= size <= bytes_max:
            bytes_max -= size
            stream = zlib.compress(data[body_at:stop], _LEVEL)
            if _SIZE_BYTES + len(stream) < size <= INFLATED_RATIO_MAX * len(stream):
                pieces.append(data[kept_from:pos])
                pieces.append(_compressed(data, pos, body_at, size, stream))
                kept_from = stop
        pos = stop
    if not pieces:
        return data
    pieces.append(data[kept_from:])
    return b"".join(pieces)


def _compressed(data: bytes, pos: int, body_at: int, size: int, stream: bytes) -> bytes:
    """Return the frame at `pos` with its body replaced."""
    flow_id = int.from_bytes(data[pos + 8 : pos + HEAD_BYTES], "big")
    body = size.to_bytes(_SIZE_BYTES, "big") + stream
    return encode_frame(data[pos + 4], data[pos + 5] | COMPRESSED, flow_id, data[pos + HEAD_BYTES : body_at], body)
