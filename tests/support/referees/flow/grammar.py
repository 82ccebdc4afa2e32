"""Frames of the flow protocol, decoded by `docs/connect/flow-protocol.md` alone, without the gateway's decoders.

Names of frame types, fields and codes are read from the tables of that page.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from support.referees.violations import expect

PAGE: Final = (Path(__file__).parents[4] / "docs" / "connect" / "flow-protocol.md").read_text()
PREFACE: Final = bytes.fromhex("b547465001000000")
FRAME_BYTES_MAX: Final = 64 << 20  # of the gateway's own frames
RESPONSE, COMPRESSED, CRITICAL = 0x01, 0x08, 0x10
FIELDS_MAX: Final = 64


def _rows(heading: str) -> dict[int, str]:
    """Return number and second cell of the rows of the first table behind a heading."""
    table = re.search(r"(\| 0x\w+ \|.*\n)+", PAGE[PAGE.index(heading) :])
    assert table is not None
    return {int(row[1], 16): row[2] for row in re.finditer(r"\| (0x\w+) \| ([^|]+) \|", table[0])}


KINDS: Final = _rows("### Frame types")
CODES: Final = frozenset(_rows("## Errors"))
_FIELDS: Final = _rows("### Fields")
_FIELD_ROWS: Final = PAGE[PAGE.index("### Fields") : PAGE.index("### Frame types")]
_NUMBER_BYTES: Final = {
    int(row[1], 16): int(row[2]) // 8
    for row in re.finditer(r"\| (0x\w+) \| [^|]+ \| u(\d+)\b(?! each)(?![^|]* u\d)", _FIELD_ROWS)  # that, and no more
}
_BYTES_MAX: Final = {
    int(row[1], 16): int(row[2]) for row in re.finditer(r"\| (0x\w+) \| [^|]+ \|[^|]* at most (\d+) bytes", _FIELD_ROWS)
}

# The fields of what the gateway sends: `?` may be missing, `*` may be there several times or not at all.
_REQUEST: Final = "request id"
_OF_CURSOR: Final = f"{_REQUEST}, cursor epoch, incarnation, message VPN?, partition ids?"
FROM_GATEWAY: Final = {
    "WELCOME": "product, keep-alive, frame bytes, flows, feature*, mechanism*",
    "AUTH": "authentication state, SASL data?",
    "PING": "",
    "PONG": "",
    "GOAWAY": "code, text, drain time",
    "CLOSE": "code, text?",
    "ERROR": "request id?, code, text?, retry after?",
    "SUBSCRIBE": _REQUEST,
    "UNSUBSCRIBE": _REQUEST,
    "OPEN_PUB": f"{_REQUEST}, publisher epoch, stored through, stored highest, sequence limit, incarnation",
    "PUB_ACK": "",
    "CLOSE_PUB": _REQUEST,
    "BIND": f"{_REQUEST}, unsettled limit, incarnation, acknowledges?",
    "DELIVER": "",
    "CREDIT": "",
    "SETTLED": "",
    "FLOW_STATE": "state, state number, code, text?, retry after?",
    "UNBIND": _REQUEST,
    "PARTITIONS": "",
    "READ": f"{_REQUEST}, incarnation, chunk bytes",
    "ROWS": "",
    "QUEUE_STATUS": _OF_CURSOR,
    "CUT_RANGE": f"{_REQUEST}, end",
    "BIND_CURSOR": _OF_CURSOR,
    "ACK_CURSOR": _OF_CURSOR,
    "PIN_CURSOR": _OF_CURSOR,
    "CURSOR_STATUS": f"{_OF_CURSOR}, batch reference?",
    "UNBIND_CURSOR": _OF_CURSOR,
    "DELETE_CURSOR": _OF_CURSOR,
    "STAGE": f"{_REQUEST}, messages, already",
    "COMMIT_STAGED": f"{_REQUEST}, messages, already",
    "ABORT_STAGED": f"{_REQUEST}, messages, already",
    "PROVISION": f"{_REQUEST}, name",
    "ALTER": f"{_REQUEST}, name",
    "DEPROVISION": f"{_REQUEST}, name",
    "LINK": f"{_REQUEST}, broker, incarnation, network, link version, dead time, feature*",
    "LINK_DIGESTS": "",
    "LINK_INTERESTS": "",
    "LINK_ACK": "",
    "LINK_MESSAGES": "link group*",
    "LINK_STORE": "",
    "LINK_STORED": "",
    "LINK_NEIGHBORS": "",
    "LINK_RETAINED": "",
    "LINK_FLOW": "",
    "LINK_DELIVER": "",
    "LINK_CLIENTS": "",
}
WITH_BODY: Final = {
    "PING", "PONG", "PUB_ACK", "DELIVER", "CREDIT", "SETTLED", "PARTITIONS", "ROWS", "LINK",
    "LINK_INTERESTS", "LINK_ACK", "LINK_MESSAGES", "LINK_STORE", "LINK_STORED", "LINK_NEIGHBORS",
    "LINK_RETAINED",
    "LINK_FLOW", "LINK_DELIVER", "LINK_CLIENTS",
}  # fmt: skip
WITH_BODY_SOMETIMES: Final = {
    "QUEUE_STATUS", "BIND_CURSOR", "ACK_CURSOR", "PIN_CURSOR", "CURSOR_STATUS", "UNBIND_CURSOR", "DELETE_CURSOR",
    "PROVISION", "ALTER", "LINK_DIGESTS",
}  # fmt: skip

Fields = dict[str, list[int | bytes]]


class Frame(NamedTuple):
    """A frame; its body is what it was before it was compressed."""

    kind: str  # of the page's table; a number where it is none of them
    flags: int
    flow_id: int
    fields: bytes
    body: bytes

    def __str__(self) -> str:
        return f"{self.kind} {self.flags:#x} of flow {self.flow_id}, {self.fields.hex()} {self.body[:60].hex()}"


def cut(data: bytearray, require: Callable[..., None] = expect) -> Iterator[Frame]:
    """Take whole frames off the front. `require` judges their form; its first argument says whether a rule holds."""
    while len(data) >= 4:
        length = int.from_bytes(data[:4], "big")
        require(8 <= length <= FRAME_BYTES_MAX - 4, "Frames", "a length of {}", length)
        if len(data) < 4 + length:
            return
        raw = bytes(data[: 4 + length])
        del data[: 4 + length]
        kind, flags, size, flow_id = struct.unpack_from(">BBHI", raw, 4)
        require(size <= length - 8, "Frames", "{} bytes of fields in {}", size, length)
        body = raw[12 + size :]
        if flags & COMPRESSED:
            body = _inflated(body, require)
        yield Frame(KINDS.get(kind, f"{kind:#x}"), flags, flow_id, raw[12 : 12 + size], body)


def _inflated(body: bytes, require: Callable[..., None]) -> bytes:
    size = int.from_bytes(body[:4], "big")
    require(len(body) > 4 and size <= FRAME_BYTES_MAX, "Compression", "{} bytes of {}", len(body), size)
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(body[4:], size + 1)
    except zlib.error as error:
        require(False, "Compression", "{}", error)
    is_whole = stream.eof and not stream.unused_data and len(found) == size
    require(is_whole, "Compression", "{} bytes instead of {}", len(found), size)
    require(size <= 100 * (len(body) - 4), "Compression", "{} bytes of {}", size, len(body) - 4)
    return found


def fields_of(raw: bytes, require: Callable[..., None] = expect) -> Fields:
    """Read fields, by their names; a number as one, everything else as its bytes. What is not known is passed over."""
    found: Fields = {}
    pos = count = 0
    while pos < len(raw):
        require(len(raw) - pos >= 4, "Fields", "{} bytes are left", len(raw) - pos)
        number, length = struct.unpack_from(">HH", raw, pos)
        value = raw[pos + 4 : pos + 4 + length]
        require(len(value) == length, "Fields", "field {:#x} ends within its value", number)
        pos, count = pos + 4 + length, count + 1
        if number in _FIELDS:
            found.setdefault(_FIELDS[number], []).append(_value(number, value, require))
    require(count <= FIELDS_MAX, "Fields", "{} of them", count)
    return found


def _value(number: int, value: bytes, require: Callable[..., None]) -> int | bytes:
    size = _NUMBER_BYTES.get(number)
    if size is None:
        require(len(value) <= _BYTES_MAX.get(number, 0xFFFF), "Fields", "{}: {} bytes", _FIELDS[number], len(value))
        return value
    require(len(value) == size, "Fields", "{} of {!r}", _FIELDS[number], value)
    return int.from_bytes(value, "big")


def judge_form(frame: Frame) -> Fields:
    """Judge the fields of a gateway's frame, and whether it has a body; return the fields. Raises WireViolation."""
    expect(frame.flags & ~(RESPONSE | COMPRESSED | CRITICAL) == 0, "Frames", "the flags of {}", frame)
    expect(frame.kind in FROM_GATEWAY, "Frame types", "the gateway sent {}", frame)
    found = fields_of(frame.fields)
    count = 0
    for wanted in filter(None, FROM_GATEWAY[frame.kind].split(", ")):
        times = len(found.get(wanted.rstrip("?*"), ()))
        is_right = wanted.endswith("*") or times == 1 or (times == 0 and wanted.endswith("?"))
        expect(is_right, "Frame types", "{} times {} in {}", times, wanted, frame)
        count += times
    # No field that the page does not give this frame; where it has none, no bytes of them.
    is_all = count == sum(map(len, found.values())) and (count > 0 or not frame.fields)
    expect(is_all, "Frame types", "{} of {}", found, frame.kind)
    if frame.kind not in WITH_BODY_SOMETIMES:
        expect((frame.kind in WITH_BODY) == bool(frame.body), "Frame types", "the body of {}", frame)
    return found


def number_of(fields: Fields, name: str, default: int = 0) -> int:
    """Return the number in a field."""
    for value in fields.get(name, ()):
        assert isinstance(value, int)
        return value
    return default


def texts_of(fields: Fields, name: str) -> list[str]:
    """Return the texts of a field. Raises UnicodeDecodeError."""
    return [value.decode() for value in fields.get(name, ()) if isinstance(value, bytes)]
