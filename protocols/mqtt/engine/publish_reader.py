"""Read incoming PUBLISH packets as runs: the hot path of a publisher.

Consecutive packets of equal QoS and RETAIN become one batch of columns, or, where subscribers get the bytes unchanged,
one `WireBatch` that is not even split into messages. Devices repeat themselves: packets of equal length and topic have
an equal head, so all but the first cost one comparison of that head.
Measured in `bench/cores/bench_mqtt_engine.py`.

See also: the session (duplicates, permissions, acknowledgements); `engine` (other packets).
"""

from typing import Final, final

from mypy_extensions import i64

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.usage import text_bytes
from sluicegate.protocols.mqtt.codec.events import PublishReceived, ReceivedEvents
from sluicegate.protocols.mqtt.codec.limits import (
    PROPERTIES_CACHE_BYTES_MAX,
    PROPERTIES_CACHE_ENTRIES_MAX,
    TOPIC_CACHE_BYTES_MAX,
    TOPIC_CACHE_ENTRIES_MAX,
    MqttLimits,
)
from sluicegate.protocols.mqtt.codec.message_properties import NO_ALIAS, MessageProperties, decode_publish_properties
from sluicegate.protocols.mqtt.codec.reason_codes import (
    MALFORMED_PACKET,
    PACKET_TOO_LARGE,
    PROTOCOL_ERROR,
    QOS_NOT_SUPPORTED,
    RECEIVE_MAXIMUM_EXCEEDED,
    RETAIN_NOT_SUPPORTED,
    TOPIC_ALIAS_INVALID,
    TOPIC_NAME_INVALID,
    PeerViolation,
)
from sluicegate.protocols.mqtt.codec.wire import decode_topic, is_padded, read_length, read_varint
from sluicegate.protocols.mqtt.codec.wire_batch import WireBatch, dialect_of

# What readers have in common that have read nothing to keep yet, or nothing since; replaced before anything is added.
_NO_TOPICS: Final[dict[bytes, str]] = {}
_NO_PROPERTIES: Final[dict[bytes, MessageProperties]] = {}
_NO_ALIASES: Final[dict[int, str]] = {}
_NO_PAYLOADS: Final[list[bytes]] = []
_NO_IDS: Final[list[tuple[int, int]]] = []

_NO_RUN: Final = -1
WIRE_FIRST_BYTE: Final = 0x30  # QoS 0, no RETAIN, no DUP: the same towards a subscriber
_RETAIN: Final = 0x01
_DUP: Final = 0x08
_FLAGS: Final = 0x0F  # the same in all packets of a run: DUP, QoS and RETAIN
# Valid first bytes of a PUBLISH; the reader stops before any other, and the engine reports the violation.
_PUBLISH: Final = bytes([byte >> 4 == 3 and byte & 0x06 != 0x06 and byte & 0x0E != 0x08 for byte in range(256)])


@final
class PublishReader:
    """The PUBLISH packets of one connection. Violations are raised after the packets before them were reported.

    Invariant: between two calls of `read` no run is open.
    """

    def __init__(self, level: int, limits: MqttLimits, publisher: str) -> None:
        self.publisher = publisher  # client id, put into every batch
        self.qos_max = limits.maximum_qos
        self.retain_available = limits.retain_available
        self.packet_bytes_max: i64 = limits.packet_bytes_max
        self.topic_alias_maximum = limits.topic_alias_maximum
        self.receive_maximum: i64 = limits.receive_maximum
        self.unacknowledged_count: i64 = (
            0  # QoS>0 messages, from PUBLISH to PUBACK, PUBCOMP or a refusing PUBREC; 5.0 only
        )
        self.apart = b""  # the payload of the packet that is read next, whose head comes without it
        self._is_v5 = level == 5
        self._dialect = dialect_of(level)
        self._refuse_control_characters = limits.refuse_control_characters
        self._topic_levels_max = limits.topic_levels_max
        self._last_raw = b""
        self._last_topic = ""
        self._last_topic_bytes: i64 = 0  # its usage
        self._topic_cache: dict[bytes, str] = _NO_TOPICS
        self._properties_cache: dict[bytes, MessageProperties] = _NO_PROPERTIES
        self._aliases: dict[int, str] = _NO_ALIASES
        self._wall_ms: i64 = 0
        # The open run.
        self._run: i64 = _NO_RUN  # its QoS and RETAIN bits
        self._run_is_wire = False
        self._count: i64 = 0
        self._topic = ""
        self._topics: list[str] | None = None
        self._payloads: list[bytes] = _NO_PAYLOADS
        self._headers: list[Headers | None] | None = None
        self._payload_bytes: i64 = 0
        self._ids_before: list[tuple[int, int]] = _NO_IDS  # runs of ids that have ended
        self._id_first = 0
        self._id_last = -1  # -1: no run of ids is open
        self._wire_start = 0
        self._wire_stop = 0

    def read(self, data: bytes, pos: i64, end: i64, wall_ms: i64, received: ReceivedEvents) -> i64:
        """Append the PUBLISH packets from `pos` on as events; return the position behind the last complete one."""
        self._wall_ms = wall_ms
        try:
            while pos < end and _PUBLISH[data[pos]]:
                length, body = read_length(data, pos + 1, end)
                if length < 0:
                    break
                stop = body + length
                if length < 2:
                    raise PeerViolation(MALFORMED_PACKET, f"PUBLISH with remaining length {length}")
                if stop - pos > self.packet_bytes_max:
                    raise PeerViolation(
                        PACKET_TOO_LARGE, f"PUBLISH of {stop - pos} bytes, at most {self.packet_bytes_max} are allowed"
                    )
                if stop > end:
                    if self.apart:
                        pos = self._read_apart(data, pos, body, end, received)
                    break
                topic_end = body + 2 + (data[body] << 8 | data[body + 1])
                if topic_end > stop:
                    raise PeerViolation(MALFORMED_PACKET, "topic runs past the end of the PUBLISH")
                if data[pos] & 0x06:
                    pos = self._read_numbered(data, pos, body, topic_end, stop, end, received)
                else:
                    pos = self._read_at_most_once(data, pos, body, topic_end, stop, end, received)
        finally:
            if self._count > 0:
                self._end_run(data, received)
        return pos

    def acknowledged(self, count: int) -> None:
        """Give back quota for messages that are answered for good. Never above the maximum [4.9.0]."""
        self.unacknowledged_count = max(self.unacknowledged_count - count, 0)

    def _read_at_most_once(
        self, data: bytes, pos: i64, body: i64, topic_end: i64, stop: i64, end: i64, received: ReceivedEvents
    ) -> i64:
        """Read a QoS 0 packet and those with an equal head behind it."""
        first_byte = data[pos]
        if first_byte & 1 and not self.retain_available:
            raise PeerViolation(RETAIN_NOT_SUPPORTED, "PUBLISH with RETAIN, which this server does not have [3.2.2-14]")
        topic = self._topic_of(data[body + 2 : topic_end])
        payload_at = topic_end
        if self._is_v5:
            if topic_end == stop:
                raise PeerViolation(MALFORMED_PACKET, "PUBLISH ends before its properties")
            if data[topic_end] != 0:
                return self._read_with_properties(data, pos, topic, 0, topic_end, stop, received)
            payload_at += 1
        if topic == "":
            raise _no_topic()
        padded = is_padded(data, pos + 1, body)
        if padded and self._is_v5:
            raise PeerViolation(MALFORMED_PACKET, "remaining length is not in its shortest form [1.5.5-1]")
        in_columns = self._run == 0 and not self._run_is_wire
        if first_byte != WIRE_FIRST_BYTE or padded or in_columns:
            self._begin_columns(first_byte, data, received)
            self._append_row(topic, data[payload_at:stop], None)
            return stop
        size = stop - pos
        head_bytes = payload_at - pos
        after = stop
        last_start = end - size
        if after <= last_start:
            head = data[pos:payload_at]
            # A slice compared is 20 ns compiled; bytes.startswith with a position is 120.
            while after <= last_start and data[after : after + head_bytes] == head:
                after += size
        if self._run != 0:
            self._end_run(data, received)
            self._run = 0
            self._run_is_wire = True
            self._wire_start = pos
        count = (after - pos) // size
        self._add_topic(topic, count)
        self._payload_bytes += count * (size - head_bytes)
        self._wire_stop = after
        return after

    def _read_numbered(
        self, data: bytes, pos: i64, body: i64, topic_end: i64, stop: i64, end: i64, received: ReceivedEvents
    ) -> i64:
        """Read a packet of QoS 1 or 2 and those with an equal head behind it."""
        first_byte = data[pos]
        id_at = topic_end - pos
        payload_at = id_at + (3 if self._is_v5 else 2)
        size = stop - pos
        if payload_at > size:
            raise PeerViolation(MALFORMED_PACKET, "PUBLISH ends before its packet id or properties")
        topic = self._topic_of(data[body + 2 : topic_end])
        room = self._check_numbered(first_byte, data[topic_end] << 8 | data[topic_end + 1])
        if self._is_v5:
            if is_padded(data, pos + 1, body):
                raise PeerViolation(MALFORMED_PACKET, "remaining length is not in its shortest form [1.5.5-1]")
            if data[topic_end + 2] != 0:
                packet_id = data[topic_end] << 8 | data[topic_end + 1]
                return self._read_with_properties(data, pos, topic, packet_id, topic_end + 2, stop, received)
        if topic == "":
            raise _no_topic()
        if stop == end and self._count == 0 and len(self.apart) == 0:
            batch = self._alone(first_byte, topic, data[pos + payload_at : stop])
            packet_id = data[topic_end] << 8 | data[topic_end + 1]
            received.add(PublishReceived(batch, packet_id, packet_id, _NO_IDS))
            self.unacknowledged_count += 1
            return stop
        self._begin_columns(first_byte, data, received)
        last_start = min(end - size, pos + (room - 1) * size)
        head = data[pos:topic_end] if pos < last_start else b""  # the last packet is compared with none
        payloads = self._payloads
        first: i64 = self._id_first
        last: i64 = self._id_last
        is_v5 = self._is_v5
        start = pos
        while True:
            packet_id = data[pos + id_at] << 8 | data[pos + id_at + 1]
            if packet_id != last + 1:
                if packet_id == 0:
                    break  # not the first packet; it is refused when its turn comes
                if last > 0:
                    self._note_ids(first, last)
                first = packet_id
            last = packet_id
            payloads.append(data[pos + payload_at : pos + size])
            pos += size
            if pos > last_start or data[pos : pos + id_at] != head or (is_v5 and data[pos + id_at + 2] != 0):
                break
        self._id_first = first
        self._id_last = last
        count = (pos - start) // size
        if self._headers is not None:
            self._headers.extend([None] * count)
        self._add_topic(topic, count)
        self._payload_bytes += count * (size - payload_at)
        self.unacknowledged_count += count
        return pos

    def _read_apart(self, data: bytes, pos: i64, body: i64, end: i64, received: ReceivedEvents) -> i64:
        """Read a packet of which all is here but its payload. See `partial_packet`."""
        topic_end = body + 2 + (data[body] << 8 | data[body + 1])
        if data[pos] & 0x06:
            pos = self._read_numbered(data, pos, body, topic_end, end, end, received)
        else:
            pos = self._read_at_most_once(data, pos, body, topic_end, end, end, received)
        self._payloads[-1] = self.apart
        self._payload_bytes += len(self.apart)
        self.apart = b""
        return pos

    def _check_numbered(self, first_byte: i64, packet_id: i64) -> i64:
        """Check what holds for each packet of QoS 1 or 2; return how many more of them may come now."""
        qos = first_byte >> 1 & 3
        # With DUP it was begun before these settings were: its client sends it until it is answered [4.4.0-1].
        is_new = not first_byte & 8
        if is_new and qos > self.qos_max:
            raise PeerViolation(
                QOS_NOT_SUPPORTED, f"PUBLISH with QoS {qos}, at most {self.qos_max} is supported [3.2.2-11]"
            )
        if is_new and first_byte & 1 and not self.retain_available:
            raise PeerViolation(RETAIN_NOT_SUPPORTED, "PUBLISH with RETAIN, which this server does not have [3.2.2-14]")
        if packet_id == 0:
            raise PeerViolation(PROTOCOL_ERROR, "PUBLISH with packet id 0 [2.2.1-3]")
        if not self._is_v5:
            return 1 << 30  # 3.x has no receive maximum; TCP holds back its clients
        room = self.receive_maximum - self.unacknowledged_count
        if room < 1:
            raise PeerViolation(
                RECEIVE_MAXIMUM_EXCEEDED, f"more than {self.receive_maximum} unacknowledged messages [3.3.4-7]"
            )
        return room

    def _read_with_properties(
        self, data: bytes, pos: i64, topic: str, packet_id: int, properties_at: i64, stop: i64, received: ReceivedEvents
    ) -> i64:
        """Read one packet of 5.0 whose property section is not empty. `packet_id` is 0 for QoS 0."""
        length, start = read_varint(data, properties_at, stop)
        payload_at = start + length
        if payload_at > stop:
            raise PeerViolation(MALFORMED_PACKET, f"property section of {length} bytes runs past the end of the packet")
        properties = self._properties_of(data[start:payload_at])
        topic = self._resolve(topic, properties.alias)
        headers = properties.headers(self._wall_ms)
        # Nothing can fail from here on: a message is in all columns of a run or in none.
        self._begin_columns(data[pos], data, received)
        if packet_id:
            if packet_id != self._id_last + 1:
                if self._id_last > 0:
                    self._note_ids(self._id_first, self._id_last)
                self._id_first = packet_id
            self._id_last = packet_id
            self.unacknowledged_count += 1
        self._append_row(topic, data[payload_at:stop], headers)
        return stop

    def _topic_of(self, raw: bytes) -> str:
        """Return the checked topic; empty stays empty, for an alias may stand in for it."""
        if raw == self._last_raw:  # a dict costs 400 instructions, for its hash mostly
            return self._last_topic
        topic = self._topic_cache.get(raw)
        if topic is None:
            if not raw:
                return ""
            topic = decode_topic(raw, self._refuse_control_characters, self._topic_levels_max)
            if len(raw) > TOPIC_CACHE_BYTES_MAX:
                return topic
            if self._topic_cache is _NO_TOPICS or len(self._topic_cache) >= TOPIC_CACHE_ENTRIES_MAX:
                self._topic_cache = {}
            self._topic_cache[raw] = topic
        self._last_raw = raw
        self._last_topic = topic
        self._last_topic_bytes = text_bytes(topic)
        return topic

    def _properties_of(self, section: bytes) -> MessageProperties:
        properties = self._properties_cache.get(section)
        if properties is None:
            properties = decode_publish_properties(section)
            if len(section) <= PROPERTIES_CACHE_BYTES_MAX:
                known = len(self._properties_cache)
                if self._properties_cache is _NO_PROPERTIES or known >= PROPERTIES_CACHE_ENTRIES_MAX:
                    self._properties_cache = {}
                self._properties_cache[section] = properties
        return properties

    def _resolve(self, topic: str, alias: int) -> str:
        """Return the topic of a packet with properties, after setting or following its alias."""
        if alias == NO_ALIAS:
            if topic == "":
                raise _no_topic()
            return topic
        if alias > self.topic_alias_maximum:
            raise PeerViolation(
                TOPIC_ALIAS_INVALID, f"Topic Alias {alias}, at most {self.topic_alias_maximum} [3.3.2-9]"
            )
        if topic != "":
            if self._aliases is _NO_ALIASES:
                self._aliases = {}
            self._aliases[alias] = topic
            return topic
        known = self._aliases.get(alias)
        if known is None:
            raise PeerViolation(PROTOCOL_ERROR, f"Topic Alias {alias} is used before it is set (3.3.4)")
        return known

    def _begin_columns(self, first_byte: i64, data: bytes, received: ReceivedEvents) -> None:
        """Make sure that the open run is one of columns, with this packet's DUP, QoS and RETAIN."""
        run = first_byte & _FLAGS
        if self._run != run or self._run_is_wire:
            self._end_run(data, received)
            self._run = run
            self._payloads = []

    def _note_ids(self, first: int, last: int) -> None:
        """Note a run of packet ids behind which another one begins."""
        if self._ids_before is _NO_IDS:
            self._ids_before = []
        self._ids_before.append((first, last))

    def _append_row(self, topic: str, payload: bytes, headers: Headers | None) -> None:
        self._payloads.append(payload)
        self._payload_bytes += len(payload)
        if self._headers is None and headers is not None:
            nothing: list[Headers | None] = [None]
            self._headers = nothing * self._count
        if self._headers is not None:
            self._headers.append(headers)
        self._add_topic(topic, 1)

    def _add_topic(self, topic: str, count: int) -> None:
        if self._count == 0:
            self._topic = topic
        elif self._topics is not None:
            self._topics.extend([topic] * count)
        elif topic != self._topic:
            self._topics = [self._topic] * self._count + [topic] * count
        self._count += count

    def _end_run(self, data: bytes, received: ReceivedEvents) -> None:
        """Report the open run, if there is one."""
        if self._count > 0:
            received.add(PublishReceived(self._batch(data), self._id_first, self._id_last, self._ids_before))
            self._count = 0
            self._topics = None
            self._payloads = _NO_PAYLOADS
            self._headers = None
            self._payload_bytes = 0
            self._ids_before = _NO_IDS
            self._id_last = -1
        self._run = _NO_RUN
        self._run_is_wire = False

    def _alone(self, first_byte: i64, topic: str, payload: bytes) -> MessageBatch:
        """Return a message that comes alone, of which a run would cost 300 instructions more."""
        return MessageBatch(
            topic=topic,
            topics=None,
            payloads=[payload],
            headers=None,
            qos=first_byte >> 1 & 3,
            retain=first_byte & _RETAIN != 0,
            publisher=self.publisher,
            received_ms=self._wall_ms,
            payload_bytes=len(payload),
            possible_duplicate=first_byte & _DUP != 0,
            topic_bytes=self._last_topic_bytes if topic is self._last_topic else -1,
        )

    def _batch(self, data: bytes) -> MessageBatch:
        topic = self._topic if self._topics is None else ""
        if self._run_is_wire:
            is_all = self._wire_start == 0 and self._wire_stop == len(data)
            return WireBatch(
                wire=data if is_all else data[self._wire_start : self._wire_stop],
                dialect=self._dialect,
                count=self._count,
                topic=topic,
                topics=self._topics,
                publisher=self.publisher,
                received_ms=self._wall_ms,
                payload_bytes=self._payload_bytes,
            )
        return MessageBatch(
            topic=topic,
            topics=self._topics,
            payloads=self._payloads,
            headers=self._headers,
            qos=self._run >> 1 & 3,
            retain=self._run & _RETAIN != 0,
            publisher=self.publisher,
            received_ms=self._wall_ms,
            payload_bytes=self._payload_bytes,
            possible_duplicate=self._run & _DUP != 0,
        )


def _no_topic() -> PeerViolation:
    return PeerViolation(TOPIC_NAME_INVALID, "PUBLISH with an empty topic [4.7.3-1]")
