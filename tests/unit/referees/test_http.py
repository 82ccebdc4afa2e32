"""The referee of HTTP finds what it is there for: each case's answer is against RFC 9110 or 9112."""

import re

import pytest

from support.referees.http import HttpReferee
from support.referees.violations import WireViolation

DATE = b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
GET = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"
HEAD = b"HEAD / HTTP/1.1\r\nhost: h\r\n\r\n"
OLD = b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nx: y\r\n\r\n"


def answer(*fields: bytes, status: int = 200, body: bytes = b"", date: bytes = DATE) -> bytes:
    lines = [b"HTTP/1.1 %d Some reason\r\n" % status, date, *(field + b"\r\n" for field in fields)]
    return b"".join(lines) + b"\r\n" + body


EMPTY = answer(b"content-length: 0")
TEXT = b"content-type: text/plain"
CHUNKED = answer(TEXT, b"transfer-encoding: chunked", body=b"2\r\nhi\r\n0\r\n\r\n")


def judge(asked: bytes, *answers: bytes, is_whole: bool = True) -> None:
    referee = HttpReferee()
    step = 10_000 if is_whole else 1
    for start in range(0, len(asked), step):
        referee.client_says(asked[start : start + step])
    for said in answers:
        for start in range(0, len(said), step):
            referee.gateway_says(said[start : start + step])


FOULS = {
    "a status line that is none": ("9112 4", GET, [b"HTTP/1.1 200\r\n\r\n"]),
    "a field that is none": ("9112 5", GET, [answer(b"a b: c")]),
    "no date": ("9110 6.6.1", GET, [answer(b"content-length: 0", date=b"")]),
    "a date in another form": ("9110 6.6.1", GET, [answer(b"content-length: 0", date=b"date: 1994-11-06\r\n")]),
    "two lengths": ("9110 5.3", GET, [answer(b"content-length: 0", b"content-length: 0")]),
    "a length and chunks": ("9112 6.2", GET, [answer(b"content-length: 0", b"transfer-encoding: chunked")]),
    "no length": ("9112 6.3", GET, [answer()]),
    "a length at 204": ("9110 8.6", GET, [answer(b"content-length: 0", status=204)]),
    "a body at 204": ("9112 4", GET + GET, [answer(status=204, body=b"hello\r\n\r\n")]),
    "a body to HEAD": ("9112 4", HEAD + GET, [answer(b"content-length: 6", TEXT, body=b"a\r\n\r\nb")]),
    "more than the length": ("9112 4", GET + GET, [answer(b"content-length: 1", TEXT, body=b"ab\r\n\r\n")]),
    "a body of no type": ("9110 8.3", GET, [answer(b"content-length: 1", body=b"a")]),
    "chunks for 1.0": ("9112 6.1", OLD, [CHUNKED]),
    "a chunk longer than its size": ("9112 7.1", GET, [CHUNKED.replace(b"hi", b"high")]),
    "the size of a chunk in words": ("9112 7.1", GET, [CHUNKED.replace(b"2\r\nhi", b"two\r\nhi")]),
    "an answer to nothing": ("9112 9.2", b"", [EMPTY]),
    "two answers": ("9112 9.2", GET, [EMPTY, EMPTY]),
    "an end that is not said": ("9112 9.6", LAST, [EMPTY]),
    "something behind the last": ("9112 9.6", LAST, [answer(b"content-length: 0", b"connection: close"), EMPTY]),
    "100 that nobody waits for": ("9110 15.2", POST, [b"HTTP/1.1 100 Continue\r\n\r\n"]),
    "401 without a challenge": ("9110 15.5", GET, [answer(b"content-length: 0", status=401)]),
    "405 without what is allowed": ("9110 15.5", GET, [answer(b"content-length: 0", status=405)]),
}


@pytest.mark.parametrize("what", FOULS)
def test_a_violation_is_reported_with_its_section(what: str) -> None:
    section, asked, answers = FOULS[what]
    with pytest.raises(WireViolation, match=re.escape(section)):
        judge(asked, *answers)


@pytest.mark.parametrize("is_whole", [True, False])
def test_permitted_exchanges_are_no_violations(*, is_whole: bool) -> None:
    waits = POST.replace(b"host: h", b"host: h\r\nexpect: 100-continue")
    judge(
        GET + HEAD + POST + waits + OLD + b"\r\n" + LAST,
        answer(b"content-length: 2", TEXT, body=b"hi"),
        answer(b"content-length: 2", TEXT),
        answer(status=204),
        b"HTTP/1.1 100 Continue\r\n\r\n",
        CHUNKED,
        EMPTY,
        answer(TEXT, b"connection: close", body=b"to the end"),
        is_whole=is_whole,
    )


def test_an_invalid_request_is_answered_once() -> None:
    refused = answer(b"content-length: 0", b"connection: close", status=400)
    judge(GET + b"no request\r\n\r\n" + GET, EMPTY, refused)
    with pytest.raises(WireViolation, match=r"9112 9\.6"):
        judge(b"no request\r\n\r\n", refused, refused)
    judge(b"GET / HTT", refused)
