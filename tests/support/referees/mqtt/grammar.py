"""Packets of MQTT as a server may send them, decoded by the letter of its standards: 3.1 (level 3), 3.1.1 (4), 5.0 (5).

Written from the texts, without the gateway's decoders. The sections are those of 5.0, which contains the others.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from support.mqtt.packets import (
    AUTH,
    CONNACK,
    DISCONNECT,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
)
from support.referees.violations import expect

PropertyValue = int | bytes | str | tuple[str, str]

# Properties (2.2.2.2): the name, how it is encoded, and the packets of a server that may have it.
_PUBLISHED: Final = frozenset({PUBLISH})
_ACKNOWLEDGED: Final = frozenset({PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK})
_CONNECTED: Final = frozenset({CONNACK})
PROPERTIES: Final[dict[int, tuple[str, str, frozenset[int]]]] = {
    1: ("payload format indicator", "byte", _PUBLISHED),
    2: ("message expiry interval", "four", _PUBLISHED),
    3: ("content type", "text", _PUBLISHED),
    8: ("response topic", "text", _PUBLISHED),
    9: ("correlation data", "binary", _PUBLISHED),
    11: ("subscription identifier", "varint", _PUBLISHED),
    17: ("session expiry interval", "four", _CONNECTED),  # [3.14.2-2]: not in a DISCONNECT of a server
    18: ("assigned client identifier", "text", _CONNECTED),
    19: ("server keep alive", "two", _CONNECTED),
    21: ("authentication method", "text", frozenset({CONNACK, AUTH})),
    22: ("authentication data", "binary", frozenset({CONNACK, AUTH})),
    26: ("response information", "text", _CONNECTED),
    28: ("server reference", "text", frozenset({CONNACK, DISCONNECT})),
    31: ("reason string", "text", frozenset({CONNACK, DISCONNECT, AUTH, *_ACKNOWLEDGED})),
    33: ("receive maximum", "two", _CONNECTED),
    34: ("topic alias maximum", "two", _CONNECTED),
    35: ("topic alias", "two", _PUBLISHED),
    36: ("maximum qos", "byte", _CONNECTED),
    37: ("retain available", "byte", _CONNECTED),
    38: ("user property", "pair", frozenset({CONNACK, PUBLISH, DISCONNECT, AUTH, *_ACKNOWLEDGED})),
    39: ("maximum packet size", "four", _CONNECTED),
    40: ("wildcard subscription available", "byte", _CONNECTED),
    41: ("subscription identifier available", "byte", _CONNECTED),
    42: ("shared subscription available", "byte", _CONNECTED),
}
_MANY: Final = frozenset({11, 38})  # may be there more than once
_FLAGS: Final = frozenset({1, 36, 37, 40, 41, 42})  # 0 or 1
_NOT_ZERO: Final = frozenset({11, 33, 35, 39})

# Reason codes that each packet of a server may have (2.4), by level where it differs.
_REFUSED: Final = frozenset({0x80, 0x83, 0x87, 0x91, 0x97})
CODES: Final[dict[int, frozenset[int]]] = {
    CONNACK: frozenset({0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F}),
    PUBACK: _REFUSED | {0, 0x10, 0x90, 0x99},
    PUBREC: _REFUSED | {0, 0x10, 0x90, 0x99},
    PUBREL: frozenset({0, 0x92}),
    PUBCOMP: frozenset({0, 0x92}),
    SUBACK: _REFUSED | {0, 1, 2, 0x8F, 0x9E, 0xA1, 0xA2},
    UNSUBACK: frozenset({0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}),
    DISCONNECT: frozenset(
        {0, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, *range(0x93, 0xA3)},
    ),
    AUTH: frozenset({0, 0x18}),
}
CODES_3: Final = {CONNACK: frozenset(range(6)), SUBACK: frozenset({0, 1, 2, 0x80})}


class Packet(NamedTuple):
    """A packet: its first byte, and the rest behind the remaining length."""

    first_byte: int
    body: bytes
    size: int  # of all of it

    @property
    def kind(self) -> int:
        return self.first_byte >> 4


def cut(data: bytearray, expects: Callable[[bool, str, str], None] = expect) -> Iterator[Packet]:
    """Take whole packets off the front. Calls `expects` with the rule of the remaining length (1.5.5)."""
    while len(data) >= 2:
        length, pos = 0, 1
        while pos < len(data) and pos < 5:
            length |= (data[pos] & 0x7F) << 7 * (pos - 1)
            pos += 1
            if data[pos - 1] < 0x80:
                break
        if data[pos - 1] >= 0x80:
            expects(pos < 5, "1.5.5", "a remaining length of five bytes")
            return
        expects(pos == 2 or data[pos - 1] != 0, "1.5.5-1", "a remaining length with bytes too many")
        if len(data) < pos + length:
            return
        packet = Packet(data[0], bytes(data[pos : pos + length]), pos + length)
        del data[: pos + length]
        yield packet


class Body:
    """The rest of a packet that is being read."""

    __slots__ = ("_kind", "_raw", "pos")

    def __init__(self, packet: Packet) -> None:
        self._kind = packet.kind
        self._raw = packet.body
        self.pos = 0

    @property
    def is_empty(self) -> bool:
        return self.pos == len(self._raw)

    def rest(self) -> bytes:
        found = self._raw[self.pos :]
        self.pos = len(self._raw)
        return found

    def number(self, width: int) -> int:
        return int.from_bytes(self._take(width), "big")

    def varint(self) -> int:
        """1.5.5: a variable byte integer, in as few bytes as it needs."""
        value = 0
        for place in range(4):
            byte = self.number(1)
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                expect(place == 0 or byte != 0, "1.5.5-1", "a variable byte integer with bytes too many")
                return value
        expect(False, "1.5.5", "a variable byte integer of five bytes")
        return value

    def binary(self) -> bytes:
        return self._take(self.number(2))

    def text(self) -> str:
        """1.5.4: UTF-8 without surrogates and without U+0000."""
        raw = self.binary()
        try:
            found = raw.decode()
        except UnicodeDecodeError:
            found = "\0"
        expect("\0" not in found, "1.5.4-1, 1.5.4-2", "the text {!r:.80}", raw)
        return found

    def properties(self) -> list[tuple[int, PropertyValue]]:
        """2.2.2: the properties that this packet may have, most of them at most once."""
        length = self.varint()
        end = self.pos + length
        expect(end <= len(self._raw), "2.2.2.1", "properties of {} bytes end behind the packet", length)
        found: list[tuple[int, PropertyValue]] = []
        while self.pos < end:
            identifier = self.varint()
            expect(identifier in PROPERTIES, "2.2.2.2", "there is no property {}", identifier)
            name, form, kinds = PROPERTIES[identifier]
            expect(self._kind in kinds, "2.2.2.2", "a packet of kind {} with the property {}", self._kind, name)
            is_again = any(each == identifier for each, _ in found)
            expect(not is_again or identifier in _MANY, "2.2.2.2", "{} is there twice", name)
            value = self._property(form)
            expect(identifier not in _FLAGS or value in (0, 1), "2.2.2.2", "{} is {}", name, value)
            expect(identifier not in _NOT_ZERO or value != 0, "2.2.2.2", "{} is {}", name, value)
            found.append((identifier, value))
        expect(self.pos == end, "2.2.2.1", "properties end {} bytes behind their end", self.pos - end)
        return found

    def _property(self, form: str) -> PropertyValue:
        if form == "text":
            return self.text()
        if form == "binary":
            return self.binary()
        if form == "pair":
            return self.text(), self.text()
        return self.varint() if form == "varint" else self.number({"byte": 1, "two": 2, "four": 4}[form])

    def _take(self, size: int) -> bytes:
        found = self._raw[self.pos : self.pos + size]
        expect(len(found) == size, "2", "a packet of kind {} ends within a field", self._kind)
        self.pos += size
        return found
