"""HTTP/1.1 without a socket: requests out of bytes, and answers in the order of the requests."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.http.codec.engine import AHEAD_REQUESTS_MAX, HEAD_BYTES_MAX, HttpEngine
from sluicegate.protocols.http.codec.requests import AHEAD_BYTES_MAX, Request
from sluicegate.protocols.http.codec.responses import CONTINUE, HttpProblem, ResponseHeads

BODY_MAX = 1_000_000
GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


def post(path: bytes, body: bytes, *headers: bytes) -> bytes:
    lines = b"".join(each + b"\r\n" for each in headers)
    return b"POST %b HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n%b" % (path, lines, len(body), body)


def new_engine() -> HttpEngine:
    return HttpEngine(ResponseHeads())


def begun(engine: HttpEngine) -> list[Request]:
    """Begin whatever can be begun."""
    found: list[Request] = []
    while True:
        engine.proceed()
        request = engine.next_request()
        if request is None:
            return found
        engine.begin()
        found.append(request)


def statuses(written: bytes) -> list[int]:
    return [int(each[:3]) for each in written.split(b"HTTP/1.1 ")[1:]]


@dataclass(frozen=True)
class Sent:
    """A request as a client means it."""

    target: bytes
    body: bytes
    chunks: int  # 0: with its length
    upgrades: bool

    def encoded(self) -> bytes:
        head = b"POST /%b?q=%b HTTP/1.1\r\nHost: h\r\n" % (self.target, self.target)
        if self.upgrades:
            head += b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
        if not self.chunks:
            return head + b"Content-Length: %d\r\n\r\n" % len(self.body) + self.body
        size = max(1, len(self.body) // self.chunks)
        pieces = [self.body[at : at + size] for at in range(0, len(self.body), size)]
        framed = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces)
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\nX-Trailer: t\r\n\r\n"


SENT = st.builds(
    Sent,
    target=st.sampled_from([b"a", b"TOPIC/b", b"QUEUE/c"]),
    body=st.binary(max_size=60),
    chunks=st.integers(0, 3),
    upgrades=st.booleans(),
)


@given(sent=st.lists(SENT, min_size=1, max_size=6), cuts=st.lists(st.integers(0, 2000), max_size=12))
def test_requests_are_the_same_wherever_the_network_cuts_them(sent: list[Sent], cuts: list[int]) -> None:
    """RFC 9112 6, RFC 9110 7.8. Method: any requests, cut anywhere, against the list of them."""
    stream = b"".join(each.encoded() for each in sent)
    engine = new_engine()
    found: list[Request] = []
    places = sorted({0, len(stream), *[cut for cut in cuts if cut < len(stream)]})
    for start, end in pairwise(places):
        engine.feed(stream[start:end])
        found += begun(engine)
    assert [(each.raw_path, each.raw_query) for each in found] == [
        (b"/" + each.target, b"q=" + each.target) for each in sent
    ]
    assert [each.body(BODY_MAX) for each in found] == [each.body for each in sent]
    assert not any(each.header("x-trailer") for each in found)
    assert (engine.in_head, engine.in_body, engine.holds_back) == (False, False, False)


@given(order=st.permutations(range(8)), takes=st.sets(st.integers(0, 7)))
def test_answers_come_in_the_order_of_requests(order: list[int], takes: set[int]) -> None:
    """RFC 9112 9.3.2. Method: answers given in any order, taken now and then."""
    engine = new_engine()
    engine.feed(b"".join(post(b"/%d" % number, b"") for number in range(8)))
    requests = begun(engine)
    written = b""
    for number in order:
        requests[number].answer(200 + number)
        if number in takes:
            written += engine.take()
    written += engine.take()
    assert statuses(written) == list(range(200, 208))
    assert engine.is_idle
    assert not engine.is_over


def test_a_small_body_is_waited_for_and_a_large_one_is_not() -> None:
    """So a request that is refused for its path or its size hears that before it has sent much."""
    engine = new_engine()
    engine.feed(post(b"/a", b"12345")[:-2])
    assert engine.next_request() is None
    engine.feed(b"45")
    [small] = begun(engine)
    assert small.body(5) == b"12345"
    small.answer_ok()
    engine.feed(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (AHEAD_BYTES_MAX + 1))
    [large] = begun(engine)
    with pytest.raises(HttpProblem) as refused:
        large.check_size(5)
    large.answer_problem(refused.value)
    assert statuses(engine.take()) == [200, 413]
    assert engine.is_over


def test_a_client_that_expects_100_continue_gets_it() -> None:
    """RFC 9110 10.1.1: 100 (Continue), once somebody wants the body."""
    engine = new_engine()
    engine.feed(b"POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    [request] = begun(engine)
    assert engine.take() == b""
    request.read()
    assert engine.take() == CONTINUE
    engine.feed(b"ab")
    assert request.body(2) == b"ab"


def test_an_unread_body_pauses_its_client() -> None:
    engine = new_engine()
    engine.feed(post(b"/a", bytes(AHEAD_BYTES_MAX + 2))[:-1])
    [request] = begun(engine)
    assert engine.holds_back
    request.read()
    assert not engine.holds_back


def test_more_requests_than_may_wait_are_not_looked_at() -> None:
    """One client's requests that wait for the disk have a limit, and nothing of what it sent is lost."""
    engine = new_engine()
    count = AHEAD_REQUESTS_MAX + 2000
    engine.feed(GET * count)
    found = begun(engine)
    assert AHEAD_REQUESTS_MAX <= len(found) < count
    assert engine.holds_back
    answered = 0
    while found:
        for request in found:
            request.answer_ok()
        answered += len(found)
        engine.take()
        found = begun(engine)
    assert answered == count
    assert not engine.holds_back


@pytest.mark.parametrize("reads", [1, 3, 1000])
def test_a_head_has_a_largest_size(reads: int) -> None:
    """RFC 6585 5; whether its end has come or not."""
    head = b"GET /a HTTP/1.1\r\nX: " + b"x" * (HEAD_BYTES_MAX + 20_000) + b"\r\n\r\n"
    engine = new_engine()
    size = len(head) // reads + 1
    for start in range(0, len(head), size):
        engine.feed(head[start : start + size])
    assert begun(engine) == []
    assert statuses(engine.take()) == [431]
    assert (engine.is_over, engine.violation) == (True, "head_too_large")


@pytest.mark.parametrize("behind", [b"1;", b"1\r\na\r\n0\r\nX: ", b"0\r\n" + b"X: y\r\n" * 100])
def test_chunk_extensions_and_trailers_are_limited(behind: bytes) -> None:
    """RFC 9112 7.1.1, 7.1.2: extensions of a chunk, and trailers, of which the parser keeps what has no end."""
    engine = new_engine()
    engine.feed(GET + b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + behind)
    [request] = begun(engine)
    piece = b"X: y\r\n" if behind.endswith(b"X: y\r\n") else b"abc"
    engine.feed(piece * (2 * HEAD_BYTES_MAX // len(piece)))
    assert engine.violation == "head_too_large"
    engine.feed(piece * HEAD_BYTES_MAX)
    assert engine.holds_back  # nothing behind it is looked at
    request.answer_ok()
    assert statuses(engine.take()) == [200, 431]
    assert engine.is_over


def test_a_body_whose_request_is_answered_may_go_on_for_as_long_as_it_is() -> None:
    """RFC 9110 15.5: its client may not have seen the answer yet."""
    engine = new_engine()
    size = 4 * HEAD_BYTES_MAX
    engine.feed(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size)
    [request] = begun(engine)
    request.answer(401)
    engine.feed(bytes(size) + GET)
    assert statuses(engine.take()) == [401]
    assert len(begun(engine)) == 1


def test_an_invalid_request_is_answered_after_those_before_it() -> None:
    """RFC 9112 2.2, 9.3.2."""
    engine = new_engine()
    engine.feed(GET + b"no http at all\r\n\r\n" + GET)
    [request] = begun(engine)
    assert engine.take() == b""
    request.answer_ok()
    assert statuses(engine.take()) == [200, 400]
    assert (engine.is_over, engine.violation) == (True, "malformed")


@pytest.mark.parametrize(
    ("words", "status", "detail"),
    [
        (b"FETCH /a HTTP/1.1\r\n\r\n", 400, b"not a request of HTTP/1.1: Invalid method encountered"),
        (b"GET /\xc3\xa9 HTTP/1.1\r\n\r\n", 400, b"not a request of HTTP/1.1: Invalid char in url path"),
        (b"GET http://[::1 HTTP/1.1\r\n\r\n", 400, b"the target of the request is not a URL"),
        (b"POST /a HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400, b"Invalid character in Content-Length"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), 505, b"HTTP/2 is not supported; use HTTP/1.1"),
        (b"GET /a HTTP/1.1\r\nX: " + b"x" * 40_000, 431, b"is larger than 32768 bytes"),
    ],
)
def test_an_invalid_request_gets_the_reason(words: bytes, status: int, detail: bytes) -> None:
    """RFC 9110 15.5, 15.6.6; an empty answer leaves its client guessing."""
    engine = new_engine()
    engine.feed(words)
    answer = engine.take()
    assert statuses(answer) == [status]
    assert detail in answer.partition(b"\r\n\r\n")[2]


def test_what_follows_an_unusable_target_is_ignored() -> None:
    """RFC 9112 9.6: the connection is over with the answer."""
    engine = new_engine()
    head = b"POST http://[::1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n"
    engine.feed(head + b"12345" + head + b"12345GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
    engine.feed(head)
    assert begun(engine) == []
    assert statuses(engine.take()) == [400]
    assert engine.is_over


def test_a_request_is_refused_as_well_while_an_exception_is_handled() -> None:
    """The exceptions of the parser have it as their context."""
    engine = new_engine()
    try:
        raise KeyError
    except KeyError:
        engine.feed(b"GET http://[::1 HTTP/1.1\r\n\r\n")
    assert statuses(engine.take()) == [400]


@pytest.mark.parametrize("cut", range(1, 24))
def test_http_2_gets_505_wherever_its_first_bytes_are_cut(cut: int) -> None:
    """RFC 9113 3.4: a stream has no packets."""
    engine = new_engine()
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    engine.feed(preface[:cut])
    engine.feed(preface[cut:])
    assert statuses(engine.take()) == [505]


@pytest.mark.parametrize(
    "head",
    [
        b"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET a HTTP/1.1\r\nHost: h\r\n\r\n",
        b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: h\r\nX : y\r\n\r\n",
        b"GET /a HTTP/9.9\r\nHost: h\r\n\r\n",
        b"GET /a HTTP/1.1\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: h\r\nhost: h\r\n\r\n",
        b"GET /a HTTP/1.0\r\nHost: h\r\nHost: i\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: h/a\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: u@h\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: h:p\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: [::1\r\n\r\n",
        b"GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n",
    ],
)
def test_ambiguous_requests_are_refused(head: bytes) -> None:
    """RFC 9112 3.2, 3.2.3, 5.1, 6.3: no guesses about where a request ends, or whom it is for."""
    engine = new_engine()
    engine.feed(head)
    assert begun(engine) == []
    assert statuses(engine.take()) == [400]
    assert engine.is_over


@pytest.mark.parametrize(
    "host", [b"", b"h", b"h:8080", b"h:", b"192.0.2.1", b"[2001:db8::1]:80", b"a-b.c_d~%2f", b"x,y"]
)
def test_any_host_of_a_valid_form_will_do(host: bytes) -> None:
    """RFC 9112 3.2. We have no names; a proxy before us may."""
    engine = new_engine()
    engine.feed(b"GET /a HTTP/1.1\r\nHost: %b\r\n\r\nGET /b HTTP/1.0\r\n\r\n" % host)
    assert [request.raw_path for request in begun(engine)] == [b"/a", b"/b"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n", 501),
        (b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity, chunked\r\n", 501),
        (b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", 501),
        (b"POST /a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: gzip\r\n", 501),
        (b"POST /a HTTP/2.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n", 505),
        (b"POST /a HTTP/0.9\r\nHost: h\r\nTransfer-Encoding: chunked\r\n", 505),
    ],
)
def test_an_unknown_coding_or_version_gets_a_status_of_its_own(head: bytes, status: int) -> None:
    """RFC 9112 6.1: a coding that nobody undoes would be published. RFC 9110 15.6.6."""
    engine = new_engine()
    engine.feed(head + b"\r\n5\r\nhello\r\n0\r\n\r\n" + GET)
    assert begun(engine) == []
    assert statuses(engine.take()) == [status]
    assert engine.is_over


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize(
    "framing", [b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
)
def test_the_last_request_may_ask_for_another_protocol(version: bytes, framing: bytes) -> None:
    """RFC 9110 7.8: it is answered in this one, and nothing behind it is read."""
    engine = new_engine()
    head = b"POST /a HTTP/%b\r\nHost: h\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n" % version
    engine.feed(head + framing + GET)
    [request] = begun(engine)
    assert request.body(BODY_MAX) == b"hello"
    request.answer_ok()
    assert statuses(engine.take()) == [200]
    assert (engine.is_over, engine.violation) == (True, "")


def test_a_target_counts_as_part_of_its_head() -> None:
    """RFC 9110 15.5.15: it has no limit of its own."""
    engine = new_engine()
    engine.feed(b"GET /%b HTTP/1.1\r\nHost: h\r\n\r\n" % (b"a" * HEAD_BYTES_MAX))
    assert begun(engine) == []
    assert statuses(engine.take()) == [431]


def test_the_last_request_of_a_connection_is_the_last() -> None:
    """RFC 9112 9.6: what comes behind `Connection: close` is for nobody."""
    engine = new_engine()
    engine.feed(GET + b"GET /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" + GET)
    first, last = begun(engine)
    first.answer_ok()
    last.answer_ok()
    written = engine.take()
    assert statuses(written) == [200, 200]
    assert written.endswith(b"connection: close\r\n\r\n")
    assert (engine.is_over, engine.violation) == (True, "")


def test_nothing_behind_a_request_that_is_too_large_is_begun() -> None:
    """RFC 9112 9.6: it is answered with `Connection: close`, so its client sends again what came behind it."""
    engine = new_engine()
    engine.feed(post(b"/a", b"large") + post(b"/b", b"behind"))
    request = engine.next_request()
    assert request is not None
    with pytest.raises(HttpProblem) as refused:
        request.body(4)
    request.answer_problem(refused.value)
    engine.begin()
    assert engine.next_request() is None
    engine.feed(GET)
    assert engine.next_request() is None
    assert statuses(engine.take()) == [413]
    assert engine.is_over


def test_a_target_without_a_path_is_the_root() -> None:
    """RFC 9112 3.2.2, RFC 9110 4.2.3: as clients of proxies send it."""
    engine = new_engine()
    engine.feed(b"POST http://h?a=b HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
    [request] = begun(engine)
    assert (request.raw_path, request.raw_query) == (b"/", b"a=b")


def test_an_answer_that_lasts_is_written_as_it_comes() -> None:
    """RFC 9112 7.1; a client of HTTP/1.0 knows no chunks, and its connection ends."""
    for version, pieces, is_over in (
        (b"1.1", [b"2\r\nab\r\n", b"0\r\n\r\n"], False),
        (b"1.0", [b"ab", b""], True),
    ):
        engine = new_engine()
        engine.feed(b"GET /a HTTP/%b\r\nHost: h\r\n\r\n" % version)
        [request] = begun(engine)
        request.begin_stream([])
        assert statuses(engine.take()) == [200]
        request.stream(b"ab")
        assert engine.take() == pieces[0]
        request.end_stream()
        assert engine.take() == pieces[1]
        assert engine.is_over is is_over


def test_an_answer_that_breaks_off_ends_the_connection() -> None:
    """RFC 9112 8: the client must not take what it has for the whole."""
    engine = new_engine()
    engine.feed(GET)
    [request] = begun(engine)
    request.begin_stream([])
    request.stream(b"ab")
    request.answer_problem(HttpProblem(500, "a fault"))
    assert not engine.take().endswith(b"0\r\n\r\n")
    assert engine.is_over


def test_head_has_no_body_in_its_answer() -> None:
    """RFC 9110 9.3.2."""
    engine = new_engine()
    engine.feed(b"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n")
    [request] = begun(engine)
    request.answer_problem(HttpProblem(405, "not here"))
    assert engine.take().endswith(b"\r\n\r\n")


def test_requests_that_are_begun_are_finished_before_the_end() -> None:
    """A gateway that stops: what is begun is answered, what is not is sent again by its client elsewhere."""
    engine = new_engine()
    engine.feed(GET + post(b"/b", b"12")[:-1])
    [request] = begun(engine)
    engine.shut()
    assert not engine.is_over
    request.answer_ok()
    assert engine.take().endswith(b"connection: close\r\n\r\n")
    assert engine.is_over


def test_the_body_of_a_request_that_is_begun_is_read_to_its_end() -> None:
    engine = new_engine()
    engine.feed(b"POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    [request] = begun(engine)
    engine.shut()
    engine.feed(b"ab" + GET)
    assert request.is_whole
    request.answer_ok()
    assert statuses(engine.take()) == [200]
    assert engine.is_over
