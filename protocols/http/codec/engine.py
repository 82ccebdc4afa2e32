"""HTTP/1.1 of one connection without its socket: bytes in, requests out; and their responses as bytes, in their order.

The parser is httptools, Node's, set to refuse what a proxy before the broker might read otherwise. The connection takes
requests from `next_request`, begins them, and decides what they mean.
"""

from typing import Any, Final, final

import httptools

from sluicegate.protocols.http.codec.requests import Request, problem_of
from sluicegate.protocols.http.codec.responses import (
    BAD_REQUEST,
    HEAD_TOO_LARGE,
    VERSION_NOT_SUPPORTED,
    HttpProblem,
    ResponseHeads,
)
from sluicegate.protocols.transport.origins import authority_of

# Of a request line and its headers, and of trailers; parsers have no limit of their own, and put together a header's
# pieces at a cost that grows with the square of its length.
HEAD_BYTES_MAX: Final = 32 * 1024
FIELD_BYTES: Final = 256  # of a header beside its bytes: its objects, and its places in a table and a list
AHEAD_REQUESTS_MAX: Final = 100  # of one client that wait for their answers; those behind them are not looked at
SLICE_BYTES: Final = 16 * 1024  # parsed in one go: some 900 of the smallest requests
HTTP_2_METHOD: Final = b"PRI"  # of clients that know beforehand that their server speaks it (RFC 9113 3.4), reserved


@final
class HttpEngine:
    """The requests of one client that are not answered, oldest first.

    Invariants: the first `begun_count` requests have been begun; nothing is read behind a request that is the last.
    """

    def __init__(self, heads: ResponseHeads) -> None:
        self.begun_count = 0
        self.in_head = False  # of a request that has begun to come
        self.in_body = False
        self.is_over = False  # what `take` returned was the last: the connection ends
        self.violation = ""  # what the client did, for which nothing else is read
        self.traces_count = 0  # that ask for `answered`
        self.answered: list[Request] = []  # whose responses end in what `take` returned last, if a trace asks for them
        self._heads = heads
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._line: list[Request] = []
        self._request = Request(heads)  # that comes
        self._target = b""
        self._head_bytes = 0  # of its names and values
        self._has_yielded = False  # the slice at hand: the end of a head, or some of a body
        self._unyielding_bytes = 0  # that have come of a head without its end, or between two pieces of a body
        self._body_follows_upgrade = False
        self._takes_no_more = False  # but for the body at hand
        self._ahead = b""  # read, and not looked at

    # --- bytes of the client ---

    def feed(self, data: bytes) -> None:
        """Take bytes of the client. Malformed input is answered in its turn, and nothing behind it is read."""
        self._ahead = self._ahead + data if self._ahead else data
        self.proceed()

    def proceed(self) -> None:
        """Parse what was read, unless too many requests wait for their responses."""
        data = self._ahead
        start = 0
        while start < len(data) and self._may_parse():
            self._parse(data[start : start + SLICE_BYTES])
            start += SLICE_BYTES
        if start:
            self._ahead = data[start:] if self._may_come() else b""

    def refuse(self, problem: HttpProblem, violation: str) -> None:
        """Answer an unfinished request, in its turn, and take no other."""
        self.violation = violation
        if not self.in_body:  # nothing is known of it
            self._request = Request(self._heads)
            self._line.append(self._request)
        self._request.is_last = True
        self._request.answer_problem(problem)
        self.in_head = self.in_body = False
        self._take_no_more()

    def shut(self) -> None:
        """Begin no more requests; the connection is over with the answers to those that are begun."""
        del self._line[self.begun_count :]
        self._take_no_more()

    def end(self) -> None:
        """Drop everything: the client has left."""
        self._take_no_more()
        self._ahead = b""
        self.in_body = False
        self._parser = None  # it holds us, and we it
        for request in self._line:
            request.client_left()
        self._line.clear()
        self.begun_count = 0

    @property
    def is_idle(self) -> bool:
        """Whether all requests are answered."""
        return not self._line and not self.in_head and not self.in_body

    @property
    def has_unparsed(self) -> bool:
        """Whether bytes were read that are not looked at."""
        return len(self._ahead) > 0

    def unanswered(self) -> tuple[Request, ...]:
        """Return the requests whose responses are not complete, oldest first."""
        return tuple(self._line)

    @property
    def unfinished_bytes(self) -> int:
        """The number of bytes of an unfinished request, with the memory of its headers' objects."""
        request = self._request
        if self.in_body:
            return len(self._ahead) + (0 if request.is_answered else request.body_bytes)
        if self.in_head:
            return len(self._ahead) + len(self._target) + self._head_bytes + FIELD_BYTES * len(request.fields)
        return len(self._ahead)

    @property
    def incoming(self) -> Request | None:
        """The request whose body is being received."""
        return self._request if self.in_body else None

    @property
    def awaits_continue(self) -> bool:
        """Whether the client waits for 100 Continue before it sends the body."""
        return self.in_body and self._request.is_awaited and not self._request.is_answered

    @property
    def holds_back(self) -> bool:
        """Whether enough requests wait that the client should not be read from."""
        not_begun_count = len(self._line) - self.begun_count
        if self._ahead or not_begun_count > 1:
            return True
        return (not_begun_count == 1 and self._request.is_whole) or (self.in_body and self._request.is_ahead)

    # --- requests and their answers ---

    def next_request(self) -> Request | None:
        """Return the oldest request that can be begun, and is not: none behind the last (RFC 9112 9.6)."""
        line = self._line
        if self.begun_count > 0 and line[self.begun_count - 1].is_last:
            return None
        while self.begun_count < len(line):
            request = line[self.begun_count]
            if not request.is_answered:
                may_begin = request.is_whole or request.is_awaited or request.is_large
                return request if may_begin else None
            self.begun_count += 1  # it was refused
        return None

    def begin(self) -> None:
        """Note that the next request is begun."""
        self.begun_count += 1

    def take(self) -> bytes:
        """Return the bytes to write: responses in the order of the requests, each as far as it is ready."""
        pieces: list[bytes] = []
        line = self._line
        done_count = 0
        while done_count < len(line):
            request = line[done_count]
            if request.output:
                pieces += request.output
                request.output.clear()
            if not request.is_answered:
                break
            done_count += 1
            if request.is_last:
                self.is_over = True
                done_count = len(line)
        if self.traces_count:
            self.answered = line[:done_count]
        if done_count:
            del line[:done_count]
            self.begun_count = max(0, self.begun_count - done_count)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    # --- what the parser says ---

    def on_message_begin(self) -> None:
        """Begin a request."""
        if not self._body_follows_upgrade:
            self.in_head = True
            self._request = Request(self._heads)
            self._target = b""
            self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those behind a body are ignored."""
        if self.in_head:
            self._head_bytes += len(name) + len(value)
            self._request.field(name, value)

    def on_headers_complete(self) -> None:
        """Queue the request; its body follows."""
        if self._body_follows_upgrade:
            return
        parser = self._parser
        assert parser is not None, "nobody feeds a connection that has ended"
        request = self._request
        try:
            url: Any = httptools.parse_url(self._target)  # its stubs deny that a query may be None
        except httptools.HttpParserInvalidURLError:
            self.in_head = False
            if not self._takes_no_more:
                self.refuse(HttpProblem(BAD_REQUEST, "the target of the request is not a URL"), "malformed")
            return
        request.method = parser.get_method().decode("ascii")
        request.raw_path = url.path or b"/"  # "http://host" has none (RFC 9112 3.2.2)
        request.raw_query = url.query or b""
        request.host = request.header("host")
        if url.host is not None:  # it counts, whatever Host says (RFC 9112 3.2.2)
            request.host = authority_of(self._target.decode("latin-1"))
        version = parser.get_http_version()
        request.is_http_1_0 = version == "1.0"
        request.is_last = request.is_http_1_0 or not parser.should_keep_alive()
        request.headers_complete()
        self._has_yielded = True
        self.in_head = False
        self.in_body = True
        # A client that asks for another protocol is answered in this one. The parser takes no body of such a request.
        if parser.should_upgrade() and (request.content_length > 0 or request.header("transfer-encoding")):
            self._body_follows_upgrade = True
        if self._takes_no_more:
            return
        self._line.append(request)
        if self._head_bytes + len(self._target) > HEAD_BYTES_MAX:
            self._refuse_head()
        elif (problem := problem_of(request, self._target, version)) is not None:
            self.refuse(problem, "malformed")

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._has_yielded = True
        self._request.came(body)

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        parser = self._parser
        assert parser is not None, "nobody feeds a connection that has ended"
        if self._body_follows_upgrade and parser.should_upgrade():
            return
        self._body_follows_upgrade = False
        self.in_body = False
        self._request.complete()
        if self._request.is_last:
            self._takes_no_more = True

    def _refuse_head(self) -> None:
        detail = f"the head, or what stands beside the bytes of a chunked body, is larger than {HEAD_BYTES_MAX} bytes"
        self.refuse(HttpProblem(HEAD_TOO_LARGE, detail), "head_too_large")

    def _may_come(self) -> bool:
        return self.in_body or not self._takes_no_more

    def _may_parse(self) -> bool:
        return self.in_body or (not self._takes_no_more and len(self._line) < AHEAD_REQUESTS_MAX)

    def _take_no_more(self) -> None:
        self._takes_no_more = True
        if self._line:
            self._line[-1].is_last = True
        else:
            self.is_over = True

    def _parse(self, data: bytes) -> None:
        parser = self._parser
        assert parser is not None, "nobody feeds a connection that has ended"
        self._has_yielded = False
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._parse_behind_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserCallbackError:  # a fault of ours
            raise
        except httptools.HttpParserError as failed:
            if not self._takes_no_more:  # else it comes behind the last request, and is ignored
                self.refuse(_malformed(parser.get_method(), failed), "malformed")
        if self._has_yielded or not (self.in_head or self.in_body):
            self._unyielding_bytes = 0
            return
        self._unyielding_bytes += len(data)
        if self._unyielding_bytes > HEAD_BYTES_MAX:
            self._refuse_head()

    def _parse_behind_upgrade(self, data: bytes) -> None:
        """Parse the body of such a request, behind a substitute head that only gives its length."""
        request = self._request
        if self._body_follows_upgrade:
            # Another parser: this one has ended with the head, if that says that the connection is to.
            parser = self._parser = httptools.HttpRequestParser(self)
            length = request.header("content-length")
            framing = f"content-length: {length}" if length else "transfer-encoding: chunked"
            parser.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode())
        if data:
            self._parse(data)


def _malformed(method: bytes, failed: httptools.HttpParserError) -> HttpProblem:
    """Return the error for bytes that are no request, with the parser's own text."""
    if method == HTTP_2_METHOD:
        return HttpProblem(VERSION_NOT_SUPPORTED, "HTTP/2 is not supported; use HTTP/1.1")
    return HttpProblem(BAD_REQUEST, f"not a request of HTTP/1.1: {failed}")
