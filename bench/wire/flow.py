"""The flow protocol for the load generator: frames prepared in advance, and minimal decoding of the replies.

Independent of the gateway's own codec, like `mqtt`. Frames of one kind and size are adjacent, so numbers are written
into many frames, and read from many, one byte of all frames at a time.
"""

import struct
from typing import Final

PREFACE: Final = b"\xb5GFP\x01\x00\x00\x00"
HEAD_BYTES: Final = 12
RESPONSE: Final = 0x01

WELCOME: Final = 0x02
AUTH: Final = 0x03
ERROR: Final = 0x08
OPEN_PUB: Final = 0x20
PUB_ACK: Final = 0x22
BIND: Final = 0x30
DELIVER: Final = 0x31

FLOW: Final = 1  # each connection has one
PUBLISH_SEQUENCE_AT: Final = HEAD_BYTES  # u64
DELIVER_ID_AT: Final = HEAD_BYTES  # u64
_PUBLISH_FIXED_BYTES: Final = 20
_DELIVER_FIXED_BYTES: Final = 44

# The two low bytes of each number up to 65536: what stands in a row of frames that count.
RUN: Final = 1 << 16
LOW_BYTES: Final = bytes(range(256)) * 256
HIGH_BYTES: Final = b"".join(bytes((high,)) * 256 for high in range(256))

_U32: Final = struct.Struct(">I")
_PUB_ACK: Final = struct.Struct(">QQH")
_SETTLE: Final = struct.Struct(">QH")


class FlowError(Exception):
    """An unexpected frame, or bytes that are not the flow protocol."""


def greeting(client_name: str) -> bytes:
    """Return preface, HELLO and AUTH of an anonymous client."""
    hello = _field(0x10, client_name.encode()) + _field(0x11, b"bench") + _field(0x12, _U32.pack(30_000))
    return PREFACE + _frame(0x01, 0, hello) + _frame(AUTH, 0, _field(0x16, b"ANONYMOUS"))


def open_publisher(name: str, window: int) -> bytes:
    """Return OPEN_PUB; the gateway remembers nothing of a publisher without a name."""
    fields = _field(0x01, _U32.pack(1)) + (_field(0x20, name.encode()) if name else b"")
    return _frame(OPEN_PUB, FLOW, fields + _field(0x21, _U32.pack(window)))


def bind(queue: str) -> bytes:
    """Return BIND with unlimited credit: the number of unsettled messages is the limit."""
    fields = _field(0x01, _U32.pack(1)) + _field(0x20, queue.encode()) + _field(0x31, (1 << 62).to_bytes(8, "big"))
    return _frame(BIND, FLOW, fields)


def publish_template(topic: str, payload_bytes: int) -> bytes:
    """Return a PUBLISH of a guaranteed message, as a template for sequence and payload."""
    name = topic.encode()
    fixed = bytes(8) + b"\x01\x04\x00\x00" + len(name).to_bytes(2, "big") + bytes(6)
    return _frame(0x21, FLOW, b"", fixed + name + bytes(payload_bytes))


def deliver_bytes(topic: str, payload_bytes: int) -> int:
    """Return the size of a DELIVER without key and properties."""
    return HEAD_BYTES + _DELIVER_FIXED_BYTES + len(topic.encode()) + payload_bytes


def settle_through(delivery_id: int) -> bytes:
    """Return the SETTLE that accepts everything up to a delivery."""
    return _frame(0x33, FLOW, b"", _SETTLE.pack(delivery_id, 0))


def put_numbers(frames: bytearray, count: int, size: int, at: int, first: int) -> None:
    """Write ascending numbers from `first` into frames: the low 32 bits of the number that ends at `at`."""
    done = 0
    while done < count:
        low = (first + done) % RUN
        run = min(count - done, RUN - low)
        upper = (first + done) >> 16
        start = done * size + at
        stop = start + (run - 1) * size
        frames[start - 4 : stop : size] = bytes(((upper >> 8) & 0xFF,)) * run
        frames[start - 3 : stop : size] = bytes((upper & 0xFF,)) * run
        frames[start - 2 : stop : size] = HIGH_BYTES[low : low + run]
        frames[start - 1 : stop : size] = LOW_BYTES[low : low + run]
        done += run


def numbers_follow(data: bytes, count: int, size: int, at: int, first: int) -> bool:
    """Return whether the numbers that end at `at` ascend from `first` in all frames, in their low 16 bits."""
    done = 0
    while done < count:
        low = (first + done) % RUN
        run = min(count - done, RUN - low)
        start = done * size + at
        stop = start + (run - 1) * size
        if data[start - 2 : stop : size] != HIGH_BYTES[low : low + run]:
            return False
        if data[start - 1 : stop : size] != LOW_BYTES[low : low + run]:
            return False
        done += run
    return True


def deliveries_in_front(data: bytes, size: int) -> int:
    """Return the number of whole DELIVER frames of a size at the beginning."""
    count = len(data) // size
    head = data[:5]
    if count == 0 or head != _U32.pack(size - 4) + bytes((DELIVER,)):
        return 0
    for index in range(5):
        column = data[index : count * size : size]
        if column != head[index : index + 1] * count:
            count = len(column) - len(column.lstrip(head[index : index + 1]))
    return count


def frame_end(data: bytes, at: int) -> int:
    """Return where the frame at `at` ends, or -1 while part of it is missing."""
    if at + HEAD_BYTES > len(data):
        return -1
    stop: int = at + 4 + _U32.unpack_from(data, at)[0]
    return stop if stop <= len(data) else -1


def answered_through(data: bytes, at: int) -> int:
    """Return the last sequence that a PUB_ACK confirms. Raises FlowError when it has refusals."""
    through, _, refusals = _PUB_ACK.unpack_from(data, at + HEAD_BYTES)
    if refusals:
        raise FlowError(f"a message was refused: {data[at:][:200]!r}")
    return int(through)


def sequence_limit(opened: bytes) -> int:
    """Return the highest sequence that the answer to OPEN_PUB allows."""
    at = HEAD_BYTES
    while at < len(opened):
        field_id, size = int.from_bytes(opened[at : at + 2], "big"), int.from_bytes(opened[at + 2 : at + 4], "big")
        if field_id == 0x24:
            return int.from_bytes(opened[at + 4 : at + 4 + size], "big")
        at += 4 + size
    raise FlowError("an answer to OPEN_PUB without a limit")


def _field(field_id: int, value: bytes) -> bytes:
    return field_id.to_bytes(2, "big") + len(value).to_bytes(2, "big") + value


def _frame(kind: int, flow_id: int, fields: bytes, body: bytes = b"") -> bytes:
    size = HEAD_BYTES - 4 + len(fields) + len(body)
    head = _U32.pack(size) + bytes((kind, 0)) + len(fields).to_bytes(2, "big") + _U32.pack(flow_id)
    return head + fields + body
