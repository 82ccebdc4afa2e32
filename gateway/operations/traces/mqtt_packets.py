"""Words for MQTT packets. It reads what it can, and refuses nothing: the engine does that.

Passwords and authentication data are never shown, payloads only as far as they are asked for.
"""

from typing import Final

from sluicegate.gateway.operations.traces.words import BODY_BYTES_MAX, PacketWords, hidden
from sluicegate.protocols.mqtt.codec import fixed_header as packets
from sluicegate.protocols.mqtt.codec.packets.connect import read_protocol
from sluicegate.protocols.mqtt.codec.properties import (
    AUTHENTICATION_DATA,
    BINARY,
    PAIR,
    RULES,
    STRING,
    TOPIC_ALIAS,
    read_number,
)
from sluicegate.protocols.mqtt.codec.reason_codes import PeerViolation, name_of
from sluicegate.protocols.mqtt.codec.wire import read_binary, read_string, read_u8, read_u16, read_varint

RETURN_CODES: Final = (
    *("accepted", "unacceptable protocol version", "identifier rejected", "server unavailable"),
    *("bad user name or password", "not authorized"),
)


class PacketCutter:
    """Cuts one direction of a connection into packets. It keeps no more than the beginning of one."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._to_skip = 0  # bytes of a packet whose beginning is cut off already

    def cut(self, data: bytes) -> list[tuple[int, bytes, int]]:
        """Return first byte, body (its beginning, if it is long) and size of each packet that is known by now."""
        skipped = min(self._to_skip, len(data))
        self._to_skip -= skipped
        self._rest += data[skipped:]
        found: list[tuple[int, bytes, int]] = []
        while (packet := self._next()) is not None:
            found.append(packet)
        return found

    def _next(self) -> tuple[int, bytes, int] | None:
        length, at = 0, 1
        while True:
            if at >= len(self._rest) or at > 4:
                return None
            length |= (self._rest[at] & 0x7F) << (7 * (at - 1))
            at += 1
            if not self._rest[at - 1] & 0x80:
                break
        there = min(len(self._rest) - at, length)
        if there < min(length, BODY_BYTES_MAX):
            return None
        packet = self._rest[0], bytes(self._rest[at : at + min(there, BODY_BYTES_MAX)]), at + length
        self._to_skip = length - there
        del self._rest[: at + there]
        return packet


class MqttPackets:
    """The packets of one direction of a connection. `level` is that of its CONNECT."""

    def __init__(self, level: int) -> None:
        self._cutter = PacketCutter()
        self._reader = PacketReader(level)

    def read(self, data: bytes) -> list[tuple[PacketWords, int]]:
        """Return the packets that are known by now."""
        return [(self._reader.words(first, body), size) for first, body, size in self._cutter.cut(data)]


class PacketReader:
    """Reads the packets of one direction. It knows the topics behind aliases that it has seen set."""

    def __init__(self, level: int) -> None:
        self._level = level
        self._aliases: dict[int, str] = {}

    def words(self, first_byte: int, body: bytes) -> PacketWords:
        """Return a packet in words; what cannot be read is said to be so."""
        kind = first_byte >> 4
        found = PacketWords(packets.NAMES[kind])
        try:
            self._read(kind, first_byte & 0x0F, body, found)
        except (PeerViolation, IndexError, ValueError) as problem:
            found.fields["unreadable"] = str(problem)
        return found

    def _read(self, kind: int, flags: int, body: bytes, found: PacketWords) -> None:
        if kind == packets.CONNECT:
            self._connect(body, found)
        elif kind == packets.CONNACK:
            found.fields["session_present"] = bool(body[0] & 1)
            self._reason(body, 1, found)
        elif kind == packets.PUBLISH:
            self._publish(flags, body, found)
        elif kind in (packets.PUBACK, packets.PUBREC, packets.PUBREL, packets.PUBCOMP):
            found.fields["packet_id"] = int(read_u16(body, 0, len(body)))
            self._reason(body, 2, found)
        elif kind in (packets.SUBSCRIBE, packets.UNSUBSCRIBE):
            self._filters(kind == packets.SUBSCRIBE, body, found)
        elif kind in (packets.SUBACK, packets.UNSUBACK):
            self._codes(kind == packets.SUBACK, body, found)
        elif kind in (packets.DISCONNECT, packets.AUTH) and self._level == 5:
            self._reason(body, 0, found)

    def _reason(self, body: bytes, pos: int, found: PacketWords) -> None:
        code = body[pos] if pos < len(body) else 0
        found.reason_code = code
        if self._level == 5:
            found.reason = name_of(code)
            if pos + 1 < len(body):
                _properties(body, pos + 1, found)
        elif found.kind == "CONNACK":
            found.reason = RETURN_CODES[code] if code < len(RETURN_CODES) else None
        else:
            found.reason_code = None

    def _connect(self, body: bytes, found: PacketWords) -> None:
        end = len(body)
        protocol = read_protocol(body, 0, end)
        self._level = protocol.level
        pos = protocol.flags_at
        flags = read_u8(body, pos, end)
        found.fields |= {
            "protocol_level": protocol.announced,
            "clean_start": bool(flags & 2),
            "keep_alive_s": int(read_u16(body, pos + 1, end)),
        }
        pos += 3
        if self._level == 5:
            pos = _properties(body, pos, found)
        found.fields["client_id"], pos = read_string(body, pos, end)
        if flags & 4:
            if self._level == 5:
                length, start = read_varint(body, pos, end)
                pos = int(start + length)
            found.fields["will_topic"], pos = read_string(body, pos, end)
            will, pos = read_binary(body, pos, end)
            found.fields |= {"will_bytes": len(will), "will_qos": flags >> 3 & 3, "will_retain": bool(flags & 32)}
        if flags & 128:
            found.fields["user_name"], pos = read_string(body, pos, end)
        found.fields["password"] = "given, not shown" if flags & 64 else None

    def _publish(self, flags: int, body: bytes, found: PacketWords) -> None:
        end = len(body)
        topic, pos = read_string(body, 0, end)
        qos = flags >> 1 & 3
        found.fields |= {"topic": topic, "qos": qos, "retain": bool(flags & 1), "dup": bool(flags & 8)}
        if qos:
            found.fields["packet_id"] = int(read_u16(body, pos, end))
            pos += 2
        if self._level == 5:
            pos = _properties(body, pos, found)
            alias = next((value for name, value in found.properties if name == RULES[TOPIC_ALIAS].name), None)
            if isinstance(alias, int):
                if topic:
                    self._aliases[alias] = topic
                found.fields["topic"] = topic or self._aliases.get(alias, "")
        found.payload = body[pos:]

    def _filters(self, with_options: bool, body: bytes, found: PacketWords) -> None:
        end = len(body)
        found.fields["packet_id"] = int(read_u16(body, 0, end))
        pos = _properties(body, 2, found) if self._level == 5 else 2
        number = 0
        while pos < end:
            number += 1
            text, pos = read_string(body, pos, end)
            found.fields[f"filter_{number}"] = text
            if with_options:
                options = read_u8(body, pos, end)
                found.fields[f"qos_{number}"] = options & 3
                if options & 0x3C:
                    found.fields[f"options_{number}"] = _options(options)
                pos += 1

    def _codes(self, is_suback: bool, body: bytes, found: PacketWords) -> None:
        found.fields["packet_id"] = int(read_u16(body, 0, len(body)))
        pos = _properties(body, 2, found) if self._level == 5 else 2
        codes = list(body[pos:])
        found.fields["reason_codes"] = ", ".join(_granted(code, is_suback) for code in codes)
        refusals = [code for code in codes if code >= 0x80]
        if refusals:
            found.reason_code, found.reason = refusals[0], name_of(refusals[0])


def _options(options: int) -> str:
    names = ["no local"] if options & 4 else []
    names += ["retain as published"] if options & 8 else []
    names += [f"retain handling {options >> 4 & 3}"] if options & 0x30 else []
    return ", ".join(names)


def _granted(code: int, is_suback: bool) -> str:
    if code < 0x80:
        return f"QoS {code}" if is_suback else name_of(code)
    return f"0x{code:02x} {name_of(code)}"


def _properties(body: bytes, pos: int, found: PacketWords) -> int:
    """Read a section of properties; return the position behind it."""
    length, start = read_varint(body, pos, len(body))
    at, end = int(start), int(start + length)
    while at < end:
        identifier = body[at]
        rule = RULES.get(identifier)
        if rule is None:
            raise ValueError(f"unknown property {identifier}")
        at += 1
        if rule.kind == PAIR:
            key, at = read_string(body, at, end)
            text, at = read_string(body, at, end)
            found.properties.append((f"{rule.name} {key}", text))
        elif rule.kind == STRING:
            text, at = read_string(body, at, end)
            found.properties.append((rule.name, text))
        elif rule.kind == BINARY:
            value, at = read_binary(body, at, end)
            found.properties.append((rule.name, hidden(value) if identifier == AUTHENTICATION_DATA else value.hex()))
        else:
            number, at = read_number(body, at, end, rule.kind)
            found.properties.append((rule.name, int(number)))
    return end
