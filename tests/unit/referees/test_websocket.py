"""The referee of WebSocket finds what it is there for: each case's last frame is against RFC 6455."""

import re

import pytest

from support.referees.violations import ClientViolation, WireViolation
from support.referees.websocket import WebSocketReferee

# The handshake of RFC 6455 1.3.
REQUEST = (
    b"GET /mqtt HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt, other\r\n\r\n"
)
ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)
REFUSED = (
    b"HTTP/1.1 404 Not Found\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 2\r\n"
    b"Content-Type: text/plain\r\nConnection: close\r\n\r\nno"
)
HELLO = b"\x82\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"  # 5.7: "Hello", masked
PING = b"\x89\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"


class Heard:
    """What is in the frames, as its referee hears it."""

    def __init__(self) -> None:
        self.gateway = b""
        self.client = b""

    def gateway_says(self, data: bytes) -> None:
        self.gateway += data

    def client_says(self, data: bytes) -> None:
        self.client += data


def judge(*frames: bytes, answer: bytes = ACCEPTED, asked: bytes = b"", step: int = 1000) -> Heard:
    heard = Heard()
    referee = WebSocketReferee(heard)
    referee.client_says(REQUEST + asked)
    said = answer + b"".join(frames)
    for start in range(0, len(said), step):
        referee.gateway_says(said[start : start + step])
    return heard


@pytest.mark.parametrize(
    ("section", "frames"),
    [
        ("5.1", [HELLO]),
        ("5.2", [b"\xc2\x01a"]),
        ("5.2", [b"\x82\x7e\x00\x01a"]),
        ("5.2", [b"\x8b\x00"]),
        ("6.0.0-1", [b"\x81\x01a"]),
        ("5.4", [b"\x80\x01a"]),
        ("5.4", [b"\x02\x01a", b"\x82\x01b"]),
        ("5.5", [b"\x09\x00"]),
        ("5.5", [b"\x89\x7e\x00\x7e" + bytes(126)]),
        ("5.5.3", [b"\x8a\x01a"]),
        ("5.5.1", [b"\x88\x00", b"\x82\x01a"]),
        ("7.4", [b"\x88\x01\x03"]),
        ("7.4", [b"\x88\x02\x03\xee"]),  # 1006 is never sent
    ],
)
def test_a_violation_is_reported_with_its_section(section: str, frames: list[bytes]) -> None:
    with pytest.raises(WireViolation, match=re.escape(section)):
        judge(*frames)


@pytest.mark.parametrize(
    "answer",
    [
        ACCEPTED.replace(b"s3pP", b"AAAA"),
        ACCEPTED.replace(b"mqtt", b"amqp"),
        ACCEPTED.replace(b"Upgrade: websocket\r\n", b""),
        ACCEPTED.replace(b"Sec-WebSocket-Protocol: mqtt", b"Sec-WebSocket-Extensions: permessage-deflate"),
        REFUSED.replace(b"Content-Length: 2\r\n", b"").replace(b"Connection: close\r\n", b""),
    ],
)
def test_the_upgrade_is_judged(answer: bytes) -> None:
    with pytest.raises(WireViolation):
        judge(answer=answer)


@pytest.mark.parametrize("step", [1, 1000])
def test_frames_are_passed_on_unwrapped(step: int) -> None:
    heard = judge(
        b"\x8a\x05Hello", b"\x02\x01a", b"\x89\x00", b"\x80\x01b", b"\x82\x7e\x00\x7e" + bytes(126), b"\x88\x00",
        asked=HELLO + PING + HELLO, step=step,
    )  # fmt: skip

    assert heard.gateway == b"ab" + bytes(126)
    assert heard.client == b"HelloHello"


def test_a_refusal_is_an_answer_of_http() -> None:
    judge(answer=REFUSED)


def test_a_client_that_does_not_mask_is_judged_no_further() -> None:
    with pytest.raises(ClientViolation):
        judge(asked=b"\x82\x01a")
