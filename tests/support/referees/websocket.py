"""The referee of WebSocket (RFC 6455): the upgrade, and which frames a server may send; it passes on their content."""

import base64
import hashlib
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from support.referees.http import HttpReferee, head_of
from support.referees.violations import ClientViolation, Referee, WireViolation, expect

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # 1.3
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_CODES: Final = {*range(1000, 1004), *range(1007, 1012), *range(3000, 5000)}  # 7.4: that a server may send


class _Frame(NamedTuple):
    first_byte: int
    is_masked: bool
    is_shortest: bool  # 5.2: its length is written in as few bytes as it can be
    payload: bytes


class WebSocketReferee:
    """Judges one connection."""

    def __init__(self, inside: Referee) -> None:
        self._inside = inside
        self._http = HttpReferee()
        self._from_gateway = bytearray()
        self._from_client = bytearray()
        self._request = b""  # its head, once it is there
        self._is_open = False
        self._is_refused = False
        self._is_over = False
        self._is_fragmented = False
        self._pings: deque[bytes] = deque()

    # --- the gateway ---

    def gateway_says(self, data: bytes) -> None:
        """Judge what the gateway writes. Raises WireViolation."""
        self._from_gateway += data
        if not self._is_open and not self._upgraded():
            return
        for frame in _cut(self._from_gateway):
            self._judge(frame)

    def _upgraded(self) -> bool:
        """4.2.2: judge the answer to the upgrade, as far as it is there; return whether frames follow."""
        end = self._from_gateway.find(b"\r\n\r\n")
        if self._is_refused or (end >= 0 and not self._from_gateway.startswith(b"HTTP/1.1 101 ")):
            self._is_refused = True
            self._http.gateway_says(bytes(self._from_gateway))
            self._from_gateway.clear()
        if self._is_refused or end < 0:
            return False
        answer, asked = head_of(bytes(self._from_gateway[:end]), WireViolation), head_of(self._request, ClientViolation)
        del self._from_gateway[: end + 4]
        is_upgrade = answer.words("upgrade") == {"websocket"} and "upgrade" in answer.words("connection")
        expect(is_upgrade, "4.2.2", "{}", answer)
        key = "".join(asked.values("sec-websocket-key")).encode()
        accept = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()
        expect(answer.values("sec-websocket-accept") == [accept], "4.2.2", "{} to {}", answer, asked)
        chosen = set(answer.values("sec-websocket-protocol"))
        offered = {word.strip() for value in asked.values("sec-websocket-protocol") for word in value.split(",")}
        expect(len(chosen) <= 1 and chosen <= offered, "4.2.2", "{} of {}", chosen, offered)
        expect(not answer.values("sec-websocket-extensions"), "4.2.2, 9.1", "{}", answer)
        self._is_open = True
        return True

    def _judge(self, frame: _Frame) -> None:
        is_final, opcode, payload = bool(frame.first_byte & 0x80), frame.first_byte & 15, frame.payload
        expect(not self._is_over, "5.5.1", "a frame {:#x} behind Close", frame.first_byte)
        expect(not frame.first_byte & 0x70, "5.2", "reserved bits in {:#x}", frame.first_byte)
        expect(not frame.is_masked, "5.1", "a server masks a frame {:#x}", frame.first_byte)
        expect(frame.is_shortest, "5.2", "the length of {} bytes", len(payload))
        if opcode >= _CLOSE:
            expect(is_final and len(payload) <= 125, "5.5", "{:#x} of {} bytes", frame.first_byte, len(payload))
            self._control(opcode, payload)
            return
        expect(opcode in (_BINARY, _CONTINUATION), "MQTT-6.0.0-1", "a frame {:#x}", frame.first_byte)
        expect((opcode == _CONTINUATION) == self._is_fragmented, "5.4", "a frame {:#x}", frame.first_byte)
        self._is_fragmented = not is_final
        self._inside.gateway_says(payload)

    def _control(self, opcode: int, payload: bytes) -> None:
        expect(opcode in (_CLOSE, _PING, _PONG), "5.2", "opcode {}", opcode)
        if opcode == _PONG:
            expect(payload in self._pings, "5.5.3", "a Pong of {!r}, and no such Ping", payload)
            while self._pings.popleft() != payload:  # 5.5.3: it may answer the last of several
                pass
        elif opcode == _CLOSE:
            self._is_over = True
            code = int.from_bytes(payload[:2], "big")
            expect(not payload or (len(payload) > 1 and code in _CODES), "7.4", "Close with {!r}", payload)
            expect("\ufffd" not in payload[2:].decode(errors="replace"), "5.5.1", "Close with {!r}", payload)

    # --- the client ---

    def client_says(self, data: bytes) -> None:
        """Take the client's bytes. Raises ClientViolation, after which the gateway cannot be judged."""
        self._from_client += data
        if not self._request:
            self._http.client_says(data)
            end = self._from_client.find(b"\r\n\r\n")
            if end < 0:
                return
            self._request = bytes(self._from_client[:end])
            del self._from_client[: end + 4]
        for frame in _cut(self._from_client):
            self._learn(frame)

    def _learn(self, frame: _Frame) -> None:
        opcode = frame.first_byte & 15
        if (
            not frame.is_masked
            or frame.first_byte & 0x70
            or opcode not in (_CONTINUATION, _BINARY, _CLOSE, _PING, _PONG)
        ):
            raise ClientViolation(f"5.1, 5.2: {frame!r:.80}")
        if opcode == _PING:
            self._pings.append(frame.payload)
        elif opcode < _CLOSE:
            self._inside.client_says(frame.payload)


def _cut(data: bytearray) -> Iterator[_Frame]:
    """Take whole frames off the front (5.2)."""
    while len(data) >= 2:
        first_byte, size, is_masked, at = data[0], data[1] & 0x7F, bool(data[1] & 0x80), 2
        is_shortest = True
        if size > 125:
            at = 4 if size == 126 else 10
            least = 126 if size == 126 else 0x1_0000
            if len(data) < at:
                return
            size = int.from_bytes(data[2:at], "big")
            is_shortest = size >= least
        key = bytes(data[at : at + 4]) if is_masked else b""
        at += len(key)
        if len(data) < at + size or len(key) not in (0, 4):
            return
        payload = bytes(data[at : at + size])
        if is_masked and size:
            mask = int.from_bytes((key * (size // 4 + 1))[:size], "big")
            payload = (int.from_bytes(payload, "big") ^ mask).to_bytes(size, "big")
        del data[: at + size]
        yield _Frame(first_byte, is_masked, is_shortest, payload)
