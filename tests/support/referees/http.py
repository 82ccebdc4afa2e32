"""The referee of HTTP/1.1: which responses a server may send on one connection (RFC 9110, RFC 9112).

It does not judge the meaning of a response, but its header fields, where it ends, and whether a request asked for it.
"""

import re
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from support.referees.violations import ClientViolation, WireViolation, expect

CHUNKED, TO_THE_END = -1, -2  # how a body ends, where it is not a number of bytes
_REQUEST_LINE: Final = re.compile(r"([A-Z]+) \S+ HTTP/1\.([01])")
_STATUS_LINE: Final = re.compile(r"HTTP/1\.1 ([1-5]\d\d) [\t \x21-\x7e]*")
_FIELD: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\xff](?:[\t \x21-\xff]*[\x21-\xff])?)?[ \t]*")
_DATE: Final = re.compile(  # 9110 5.6.7
    r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d\d:\d\d:\d\d GMT"
)
_ONCE: Final = ("date", "content-length", "transfer-encoding", "content-type", "location", "retry-after", "etag")
_HEAD_BYTES_MAX: Final = 1 << 20
_NEEDED: Final = {401: "www-authenticate", 405: "allow", 426: "upgrade"}  # 9110 15.5.2, 15.5.6, 15.5.22


class Head(NamedTuple):
    """The head of a message."""

    first_line: str
    fields: list[tuple[str, str]]  # names in small letters

    def values(self, name: str) -> list[str]:
        return [value for found, value in self.fields if found == name]

    def words(self, name: str) -> set[str]:
        """Return the members of a list."""
        return {word.strip().lower() for value in self.values(name) for word in value.split(",")}


def head_of(raw: bytes, broken: Callable[[str], Exception]) -> Head:
    """Read a head, without the empty line behind it. Raises what `broken` makes of a text."""
    first_line, *lines = raw.decode("latin-1").split("\r\n")
    fields = []
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise broken(f"9112 5: the field {line!r:.200}")
        fields.append((found[1].lower(), found[2] or ""))
    return Head(first_line, fields)


class _Messages:
    """Cuts a stream into messages. `begun` judges a head, and returns how its body ends."""

    def __init__(self, begun: Callable[[Head], int], broken: Callable[[str], Exception]) -> None:
        self._begun = begun
        self._broken = broken
        self._data = bytearray()
        self._left: int | None = None  # of a body, CHUNKED or TO_THE_END; None: a head is to come
        self._chunk: int | None = None  # bytes left of a chunk and its line's end; None: its size is to come
        self._is_trailer = False

    @property
    def is_between(self) -> bool:
        return self._left is None and not self._data

    def feed(self, data: bytes) -> None:
        self._data += data
        while self._data and (self._head() if self._left is None else self._body()):
            pass

    def _head(self) -> bool:
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            if len(self._data) > _HEAD_BYTES_MAX:
                raise self._broken("9112 3: a head without an end")
            return False
        raw = bytes(self._data[:end])
        del self._data[: end + 4]
        size = self._begun(head_of(raw, self._broken))
        self._left, self._chunk, self._is_trailer = (size or None), None, False
        return True

    def _body(self) -> bool:
        assert self._left is not None
        if self._left == CHUNKED:
            return self._chunked()
        size = len(self._data) if self._left == TO_THE_END else min(self._left, len(self._data))
        del self._data[:size]
        if self._left != TO_THE_END:
            self._left = self._left - size or None
        return True

    def _chunked(self) -> bool:
        """9112 7.1."""
        if self._chunk is not None:
            size = min(self._chunk, len(self._data))
            is_end = size == self._chunk
            if is_end and not self._data[:size].endswith(b"\r\n"):
                raise self._broken("9112 7.1: a chunk that is longer than its size")
            if not is_end and self._chunk - size < 2:
                return False  # half of a line's end: it is looked at when it is whole
            del self._data[:size]
            self._chunk = None if is_end else self._chunk - size
            return True
        end = self._data.find(b"\r\n")
        if end < 0:
            return False
        line = bytes(self._data[:end])
        del self._data[: end + 2]
        if self._is_trailer:
            if not line:
                self._left = None
            return True
        if re.fullmatch(rb"[0-9A-Fa-f]{1,16}([ \t]*;.*)?", line) is None:
            raise self._broken(f"9112 7.1: the size of a chunk, {line!r:.80}")
        size = int(line.partition(b";")[0], 16)
        self._is_trailer = size == 0
        self._chunk = size + 2 if size else None
        return True


class _Asked(NamedTuple):
    """A request without a final answer."""

    method: str  # empty: the client said what is no request
    is_http_1_0: bool
    is_last: bool
    expects: bool  # to be told to go on


class HttpReferee:
    """Judges one connection."""

    def __init__(self) -> None:
        self._from_gateway = _Messages(self._answered, WireViolation)
        self._from_client = _Messages(self._asks, ClientViolation)
        self._asked: deque[_Asked] = deque()
        self._client_is_over = False
        self._is_over = False

    def gateway_says(self, data: bytes) -> None:
        """Judge what the gateway writes. Raises WireViolation."""
        expect(not self._is_over or not self._from_gateway.is_between, "9112 9.6", "{!r} behind the last", data[:80])
        self._from_gateway.feed(data)

    def client_says(self, data: bytes) -> None:
        """Take the client's bytes. An invalid request, with all after it, gets one response."""
        if self._client_is_over:
            return
        try:
            if self._from_client.is_between:
                data = data.lstrip(b"\r\n")  # 9112 2.2
            self._from_client.feed(data)
        except ClientViolation:
            self._client_is_over = True
            self._asked.append(_Asked("", is_http_1_0=False, is_last=True, expects=True))

    def _asks(self, head: Head) -> int:
        line = _REQUEST_LINE.fullmatch(head.first_line)
        lengths, encodings = head.values("content-length"), head.values("transfer-encoding")
        if line is None or len(lengths) + len(encodings) > 1 or not all(map(str.isdigit, lengths)):
            raise ClientViolation("9112 3, 6.3")
        if encodings and encodings[0].lower() != "chunked":
            raise ClientViolation("9112 6.1")
        options = head.words("connection")
        is_http_1_0 = line[2] == "0"
        is_last = "close" in options or (is_http_1_0 and "keep-alive" not in options)
        expects = "100-continue" in head.words("expect")
        self._asked.append(_Asked(line[1], is_http_1_0, is_last, expects))
        return CHUNKED if encodings else int(lengths[0]) if lengths else 0

    def _answered(self, head: Head) -> int:
        line = _STATUS_LINE.fullmatch(head.first_line)
        expect(line is not None, "9112 4", "the status line {!r:.200}", head.first_line)
        assert line is not None
        expect(not self._is_over, "9112 9.6", "{} behind the last answer", head)
        status = int(line[1])
        # What has not come to the end of its head may be answered too, as the last.
        asked = self._asked[0] if self._asked else _Asked("", is_http_1_0=False, is_last=True, expects=False)
        expect(bool(self._asked) or status >= 400, "9112 9.2", "{} answers nothing", head)
        if status < 200:
            expect(status == 100 and asked.expects and not asked.is_http_1_0, "9110 15.2", "{} to {}", head, asked)
            expect(not head.values("content-length") and not head.values("transfer-encoding"), "9110 8.6", "{}", head)
            return 0
        if self._asked:
            self._asked.popleft()
        self._judge_fields(status, head)
        self._is_over = "close" in head.words("connection")
        expect(self._is_over or not asked.is_last, "9112 9.6", "{} to {}", head, asked)
        return self._body_of(status, head, asked)

    def _judge_fields(self, status: int, head: Head) -> None:
        for name in _ONCE:
            expect(len(head.values(name)) <= 1, "9110 5.3", "{} in {}", name, head)
        dates = head.values("date")
        expect(len(dates) == 1 and _DATE.fullmatch(dates[0]) is not None, "9110 6.6.1", "the date of {}", head)
        needed = _NEEDED.get(status)
        expect(needed is None or bool(head.values(needed or "")), "9110 15.5", "{} without {}", head, needed)
        expect(all(map(str.isdigit, head.values("retry-after"))), "9110 10.2.3", "{}", head)

    def _body_of(self, status: int, head: Head, asked: _Asked) -> int:
        """9112 6.3: judge what says how the body ends, and return it."""
        lengths, encodings = head.values("content-length"), head.values("transfer-encoding")
        expect(not (lengths and encodings), "9112 6.2", "{}", head)
        expect(all(map(str.isdigit, lengths)), "9110 8.6", "{}", head)
        expect(status != 204 or not (lengths or encodings), "9110 8.6, 9112 6.1", "{}", head)
        if asked.method == "HEAD" or status in (204, 304):
            return 0
        if encodings:
            expect(encodings == ["chunked"] and not asked.is_http_1_0, "9112 6.1", "{} to {}", head, asked)
            return CHUNKED
        expect(bool(lengths) or self._is_over, "9112 6.3", "{} does not say where it ends", head)
        size = int(lengths[0]) if lengths else TO_THE_END
        expect(size == 0 or bool(head.values("content-type")), "9110 8.3", "{}", head)
        return size
