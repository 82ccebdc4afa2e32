"""Many messages in one request: as lines of JSON, or as the parts of a multipart body.

A line is `{"payload": ..., "headers": {...}}`, with `base64` instead of `payload` for bytes, and `destination` where a
message goes elsewhere than the request's path says. A part has the headers of a request of its own, and may name its
destination in `Sluicegate-Destination`. An error in a message concerns that message alone; an error in the form of the
body concerns the request.

A body is read some messages at a time, because all of a large one takes seconds.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, final

import orjson
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from sluicegate.protocols.http.codec.responses import BAD_REQUEST, TOO_LARGE, HttpProblem

NDJSON: Final = "ndjson"
MULTIPART: Final = "multipart"
DESTINATION_FIELD: Final = "sluicegate-destination"
HEADERS_MAX: Final = 200  # of one message
VALUES_MAX: Final = 50_000  # in one line, and in what is a list or an object there: 20 ms of the node
PIECE_BYTES: Final = 32 * 1024  # of a body that are read at a time, some milliseconds
LINE_COST: Final = 100  # bytes, as long as which a line takes whatever its length

# A text, to the end where it has none: else each quotation mark in it might begin one. Or what stands beside a value.
_VALUE: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[,\[{]', re.DOTALL)
_LINE_KEYS: Final = frozenset(("base64", "destination", "headers", "payload"))


@final
class BatchEntry:
    """One message of a batch, or what is wrong with it."""

    def __init__(self) -> None:
        self.destination = ""  # empty: that of the request
        self.fields: list[tuple[str, str]] = []
        self.payload = b""
        self.problem: HttpProblem | None = None


def read_batch(kind: str, content_type: str, body: bytes, messages_max: int) -> Iterator[list[BatchEntry]]:
    """Return the messages of a body, those of a piece of it at a time, maybe none. Raises HttpProblem, then too."""
    if kind == NDJSON:
        return _lines(body, messages_max)
    if kind == MULTIPART:
        return _parts(content_type, body, messages_max)
    raise HttpProblem(BAD_REQUEST, f"Sluicegate-Batch: {kind!r:.80} is neither {NDJSON} nor {MULTIPART}")


def _lines(body: bytes, messages_max: int) -> Iterator[list[BatchEntry]]:
    found: list[BatchEntry] = []
    left = messages_max
    empty_left = messages_max + 1  # one behind each, and one before them
    cost = 0
    pos = 0
    while pos < len(body):
        end = body.find(b"\n", pos)
        line = body[pos : end if end >= 0 else len(body)]
        pos += len(line) + 1
        if line.strip():
            found.append(_line(line))
            left -= 1
        else:
            empty_left -= 1
        if left < 0 or empty_left < 0:
            raise _too_many(messages_max)
        cost += len(line) + LINE_COST
        if cost > PIECE_BYTES:
            yield found
            found = []
            cost = 0
    yield found


def _line(line: bytes) -> BatchEntry:
    entry = BatchEntry()
    try:
        _fill(entry, line)
    except HttpProblem as problem:
        entry.problem = problem
    return entry


def _fill(entry: BatchEntry, line: bytes) -> None:
    if line.count(b",") + line.count(b"[") + line.count(b"{") > VALUES_MAX:
        _check_values(line)
    try:
        told = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise HttpProblem(BAD_REQUEST, f"the line is not JSON: {error}") from None
    if not isinstance(told, dict) or not _LINE_KEYS.issuperset(told):
        raise HttpProblem(BAD_REQUEST, f"the line is not an object of {', '.join(sorted(_LINE_KEYS))}")
    destination = told.get("destination", "")
    headers = told.get("headers", {})
    if not isinstance(destination, str):
        raise HttpProblem(BAD_REQUEST, "destination: not a text")
    if not isinstance(headers, dict):
        raise HttpProblem(BAD_REQUEST, "headers: not an object")
    if len(headers) > HEADERS_MAX:
        raise _too_many_headers()
    entry.destination = destination
    for name, value in headers.items():
        if not isinstance(value, str):
            raise HttpProblem(BAD_REQUEST, f"headers: the value of {name!r:.80} is not a text")
        entry.fields.append((name, value))
    if "base64" in told:
        if "payload" in told:
            raise HttpProblem(BAD_REQUEST, "payload and base64 are both there")
        entry.payload = _bytes_of(told["base64"])
        return
    payload = told.get("payload", "")
    if isinstance(payload, str):
        entry.payload = payload.encode()
        kind = "text/plain"
    else:
        entry.payload = _json_of(payload)
        kind = "application/json"
    if not any(name.lower() == "content-type" for name, _ in entry.fields):
        entry.fields.append(("content-type", kind))


def _check_values(line: bytes) -> None:
    """Refuse a line with too many values. What stands in texts is none."""
    if next(islice(_VALUE.finditer(line), 2 * VALUES_MAX, None), None) is not None:
        raise HttpProblem(TOO_LARGE, f"the line has more than {VALUES_MAX} values")


def _json_of(payload: object) -> bytes:
    try:
        return orjson.dumps(payload)
    except orjson.JSONEncodeError as error:  # what is read may be nested deeper than what is written
        raise HttpProblem(BAD_REQUEST, f"payload: {error}") from None


def _bytes_of(value: object) -> bytes:
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise HttpProblem(BAD_REQUEST, "base64: not the base64 of bytes")


@final
class _Parts:
    """Collects the parts that the parser calls back about."""

    def __init__(self, messages_max: int) -> None:
        self.found: list[BatchEntry] = []  # those that are whole
        self.ended = False
        self._entry = BatchEntry()  # that the parser is in
        self._count = 0
        self._messages_max = messages_max
        self._name = b""
        self._value = b""
        self._pieces: list[bytes] = []

    def on_part_begin(self) -> None:
        if self._count >= self._messages_max:
            raise _too_many(self._messages_max)
        self._count += 1
        self._entry = BatchEntry()
        self._pieces = []

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def on_header_end(self) -> None:
        entry = self._entry
        name, value = self._name.decode("latin-1"), self._value.decode("utf-8", "replace")
        self._name = self._value = b""
        if len(entry.fields) >= HEADERS_MAX:
            raise _too_many_headers()
        if name.lower() == DESTINATION_FIELD:
            entry.destination = value
        else:
            entry.fields.append((name, value))

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._pieces.append(data[start:end])

    def on_part_end(self) -> None:
        self._entry.payload = b"".join(self._pieces)
        self.found.append(self._entry)

    def take(self) -> list[BatchEntry]:
        """Return the parts that are whole since the last time."""
        found, self.found = self.found, []
        return found

    def on_end(self) -> None:
        self.ended = True


def _parts(content_type: str, body: bytes, messages_max: int) -> Iterator[list[BatchEntry]]:
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if not kind.startswith(b"multipart/") or not boundary:
        raise HttpProblem(BAD_REQUEST, f"Content-Type: {content_type!r:.200} is not a multipart type with a boundary")
    parts = _Parts(messages_max)
    parser = MultipartParser(
        boundary,
        {
            "on_part_begin": parts.on_part_begin,
            "on_header_field": parts.on_header_field,
            "on_header_value": parts.on_header_value,
            "on_header_end": parts.on_header_end,
            "on_part_data": parts.on_part_data,
            "on_part_end": parts.on_part_end,
            "on_end": parts.on_end,
        },
    )
    try:
        for start in range(0, len(body), PIECE_BYTES):
            parser.write(body[start : start + PIECE_BYTES])
            yield parts.take()
        parser.finalize()
    except MultipartParseError as error:
        raise HttpProblem(BAD_REQUEST, f"the multipart body is broken: {error}") from None
    if not parts.ended:
        raise HttpProblem(BAD_REQUEST, "the multipart body ends without its last boundary")


def _too_many_headers() -> HttpProblem:
    return HttpProblem(BAD_REQUEST, f"a message with more than {HEADERS_MAX} headers")


def _too_many(messages_max: int) -> HttpProblem:
    return HttpProblem(TOO_LARGE, f"more than {messages_max} messages in one request")
