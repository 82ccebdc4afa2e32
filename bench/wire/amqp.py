"""AMQP 1.0 for the load generator: frames prepared in advance, and minimal decoding of the replies.

Independent of the gateway's own codec, like `mqtt`. A client is one connection with one session and one link.
"""

import struct
from typing import Final

HEADER: Final = b"AMQP\x00\x01\x00\x00"
HEAD_BYTES: Final = 8  # of a frame
SEQUENCE_AT: Final = 4  # in a payload, behind the number of its stream
WINDOW: Final = 0x7FFF_FFFF  # of a session: never in the way

OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15

_NAMES: Final = {OPEN: "open", BEGIN: "begin", ATTACH: "attach", FLOW: "flow", DISPOSITION: "disposition"}
_U32: Final = struct.Struct(">I")
_DURABLE: Final = b"\x00\x53\x70\xc0\x02\x01\x41"
_ACCEPTED: Final = b"\x00\x53\x24\x45"


class AmqpError(Exception):
    """An unexpected frame, or bytes that are not AMQP."""


def opening(container_id: str) -> bytes:
    """Return header, open and begin, without SASL: the client is anonymous."""
    begin = b"\x40" + _uint(0) + _uint(WINDOW) + _uint(WINDOW)
    return HEADER + _frame(OPEN, 2, _text(container_id) + _text("localhost")) + _frame(BEGIN, 4, begin)


def attach(name: str, address: str, *, is_receiver: bool, settled: bool = False) -> bytes:
    """Return an attach on handle 0: unsettled with a durable terminus, or settled with a volatile one."""
    terminus = _list(2, _text(address) + _uint(0 if settled else 2))
    source = b"\x00\x53\x28" + (terminus if is_receiver else b"\x45")
    target = b"\x00\x53\x29" + (b"\x45" if is_receiver else terminus)
    role = b"\x41" if is_receiver else b"\x42"
    mode = b"\x50\x01" if settled else b"\x50\x00"
    fields = _text(name) + b"\x43" + role + mode + b"\x50\x00" + source + target
    if is_receiver:
        return _frame(ATTACH, 7, fields)
    return _frame(ATTACH, 10, fields + b"\x40\x40\x43")


def flow(received: int, credit: int) -> bytes:
    """Return a flow on handle 0 of a receiver, with its delivery count and link credit."""
    body = _uint(received) + _uint(WINDOW) + _uint(0) + _uint(WINDOW) + b"\x43" + _uint(received) + _uint(credit)
    return _frame(FLOW, 7, body)


def accepted(first: int, last: int) -> bytes:
    """Return the outcome of the deliveries `first` to `last`, settled."""
    return _frame(DISPOSITION, 5, b"\x41" + _uint(first) + _uint(last) + b"\x41" + _ACCEPTED)


def transfer_template(payload_bytes: int, *, settled: bool = False) -> tuple[bytes, int, int, int]:
    """Return a transfer, and where its delivery id, its tag and its payload's sequence are.

    The three are four bytes each, to be overwritten for each message. Unsettled it is durable, settled it is not.
    """
    fields = b"\x43" + b"\x70\0\0\0\0" + b"\xa0\x04\0\0\0\0" + b"\x43" + (b"\x41" if settled else b"\x42")
    performative = b"\x00\x53\x14" + _list(5, fields)
    id_at = HEAD_BYTES + performative.index(b"\x70\0\0\0\0") + 1
    tag_at = HEAD_BYTES + performative.index(b"\xa0\x04\0\0\0\0") + 2
    length = b"\xa0" + bytes((payload_bytes,)) if payload_bytes <= 0xFF else b"\xb0" + _U32.pack(payload_bytes)
    message = (b"" if settled else _DURABLE) + b"\x00\x53\x75" + length + bytes(payload_bytes)
    data = _head(HEAD_BYTES + len(performative) + len(message)) + performative + message
    return data, id_at, tag_at, len(data) - payload_bytes + SEQUENCE_AT


def performative(data: bytes, at: int, end: int) -> int:
    """Return the performative's code of the frame at `at`, 0 for an empty one. Raises AmqpError for an ending."""
    body = at + 4 * data[at + 4]
    if body == end:
        return 0
    code = data[body + 2]
    if data[body] != 0x00 or data[body + 1] != 0x53 or code > DISPOSITION:
        raise AmqpError(f"the broker sent {data[body:end][:200]!r}")
    return code


def fields(data: bytes, at: int, count: int) -> list[int]:
    """Return the first fields of the performative at `at`; a field that is no number or boolean is -1."""
    pos = at + 4 * data[at + 4] + 3
    wide = data[pos] == 0xD0
    given = _U32.unpack_from(data, pos + 5)[0] if wide else data[pos + 2]
    pos += 9 if wide else 3
    values: list[int] = []
    for _ in range(min(count, given)):
        code = data[pos]
        if code in (0x52, 0x53, 0x50):
            values.append(data[pos + 1])
            pos += 2
        elif code == 0x70:
            values.append(_U32.unpack_from(data, pos + 1)[0])
            pos += 5
        elif code in (0x43, 0x44, 0x42):
            values.append(0)
            pos += 1
        elif code == 0x41:
            values.append(1)
            pos += 1
        elif code == 0xA0:
            values.append(-1)
            pos += 2 + data[pos + 1]
        elif code == 0x60:
            values.append(data[pos + 1] << 8 | data[pos + 2])
            pos += 3
        elif code == 0x40:
            values.append(-1)
            pos += 1
        else:
            raise AmqpError(f"constructor {code:#x} in the field {len(values)} of {_NAMES.get(data[at + 10], '')}")
    return values + [-1] * (count - len(values))


def _frame(code: int, count: int, body: bytes) -> bytes:
    content = bytes((0x00, 0x53, code)) + _list(count, body)
    return _head(HEAD_BYTES + len(content)) + content


def _head(size: int) -> bytes:
    return _U32.pack(size) + b"\x02\x00\x00\x00"


def _list(count: int, body: bytes) -> bytes:
    if len(body) <= 0xFE:
        return bytes((0xC0, len(body) + 1, count)) + body
    return b"\xd0" + _U32.pack(len(body) + 4) + _U32.pack(count) + body


def _uint(value: int) -> bytes:
    return b"\x70" + _U32.pack(value)


def _text(text: str) -> bytes:
    raw = text.encode()
    return bytes((0xA1, len(raw))) + raw
