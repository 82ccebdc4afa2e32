"""Write outgoing PUBLISH packets, in two ways.

Packets that are the same for many subscribers (QoS 0, no options) are encoded once per dialect, or once per alias, and
shared by all of them: `encode_at_most_once`, `PublishWriter.aliased`. Packets with fields of one subscriber (packet
ids, subscription identifiers, the RETAIN flag, its size limit) are written by its `PublishWriter`. The session decides
on rows, QoS and ids.
"""

from typing import Final, final

from mypy_extensions import i64

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.mqtt.codec.limits import PACKET_ID_MAX, TOPIC_ALIASES_OUT_MAX
from sluicegate.protocols.mqtt.codec.message_properties import encode_message_properties
from sluicegate.protocols.mqtt.codec.properties import (
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    number_property,
    section,
    user_property,
)
from sluicegate.protocols.mqtt.codec.reason_codes import LocalMisuse
from sluicegate.protocols.mqtt.codec.wire import string, varint
from sluicegate.protocols.mqtt.codec.wire_batch import DIALECT_3X, DIALECT_5, WireBatch, dialect_of
from sluicegate.protocols.mqtt.engine.publish_run import PublishRun
from sluicegate.protocols.mqtt.engine.topic_aliases import NO_ALIAS, TopicAliases

NONE_SKIPPED: Final[list[int]] = []

_COPIED_BYTES_MAX: Final = 4096  # a payload that is copied to make its packet one piece

_SHARED_FIRST_BYTE: Final = 0x30  # QoS 0, no RETAIN, no DUP

_NO_TOPIC: Final = b"\0\0"  # empty: the alias stands for it

_ids: Final[list[bytes]] = []  # of the packet ids 0..65535: two bytes each, and then an empty property section


def _id_table() -> bytes:
    """Return 65,536 times packet id and a zero byte, in order. A slice of it is 16 ns compiled, int.to_bytes 36."""
    if not _ids:
        _ids.append(b"".join([packet_id.to_bytes(2, "big") + b"\0" for packet_id in range(PACKET_ID_MAX + 1)]))
    return _ids[0]


def encode_at_most_once(batch: MessageBatch, level: int, wall_ms: int) -> bytes:
    """Return every row as a QoS 0 PUBLISH, one behind the other. The bytes are kept in `batch.encodings` while valid.

    Rows that have expired are the caller's matter. An expiry is written as the time left, so what has one is made anew.
    """
    dialect = dialect_of(level)
    if isinstance(batch, WireBatch) and batch.dialect == dialect:
        return batch.wire
    encodings = batch.encodings
    if encodings is not None:
        ready = encodings.get(dialect)
        if ready is not None:
            return ready
    headers = batch.headers() if dialect != DIALECT_3X else None
    if headers is None:
        encoded = _shared_plain(batch, b"" if dialect == DIALECT_3X else b"\0")
    else:
        encoded = _shared_with_properties(batch, headers, wall_ms)
        if any(row is not None and row.expires_at_ms != 0 for row in headers):
            return encoded
    if encodings is None:
        batch.encodings = {dialect: encoded}
    else:
        encodings[dialect] = encoded
    return encoded


def _shared_plain(batch: MessageBatch, after_topic: bytes) -> bytes:
    """Encode rows without properties; rows of equal topic and length share their head."""
    pieces: list[bytes] = []
    payloads = batch.payloads()
    topics = batch.topics
    topic = batch.topic
    prefix = string(topic) + after_topic
    head = b""
    head_for = -1  # payload length
    for row in range(len(payloads)):
        payload = payloads[row]
        size = len(payload)
        if topics is not None and topics[row] != topic:
            topic = topics[row]
            prefix = string(topic) + after_topic
            head_for = -1
        if size != head_for:
            head = bytes((_SHARED_FIRST_BYTE,)) + varint(len(prefix) + size) + prefix
            head_for = size
        pieces.append(head)
        pieces.append(payload)
    return b"".join(pieces)


def _shared_with_properties(batch: MessageBatch, headers: list[Headers | None], wall_ms: int) -> bytes:
    """Encode rows with properties; rows of equal topic, headers and length share their head."""
    pieces: list[bytes] = []
    payloads = batch.payloads()
    topics = batch.topics
    topic = batch.topic if topics is None else topics[0]
    name = string(topic)
    last: Headers | None = None
    properties = b"\0"
    head = b""
    head_for = -1  # payload length
    for row in range(len(payloads)):
        if topics is not None and topics[row] != topic:
            topic = topics[row]
            name = string(topic)
            head_for = -1
        if headers[row] is not last:
            last = headers[row]
            properties = b"\0" if last is None else section(encode_message_properties(last, wall_ms))
            head_for = -1
        payload = payloads[row]
        size = len(payload)
        if size != head_for:
            head = _head(_SHARED_FIRST_BYTE, name, len(properties) + size) + properties
            head_for = size
        pieces.append(head)
        pieces.append(payload)
    return b"".join(pieces)


def _shared_with_alias(batch: MessageBatch, alias: int, wall_ms: int) -> bytes:
    """Return every row with an alias that the client knows; all clients with this alias for the topic share the bytes.

    They are kept in `batch.encodings` like those of `encode_at_most_once`. Clients that subscribe to the same few
    topics have mostly the same aliases for them.
    """
    key = DIALECT_5 | alias << 8
    encodings = batch.encodings
    if encodings is not None:
        ready = encodings.get(key)
        if ready is not None:
            return ready
    encoded = _rows_with_alias(batch, 0, batch.count, _NO_TOPIC, alias, wall_ms)
    headers = batch.headers()
    if headers is not None and any(row is not None and row.expires_at_ms != 0 for row in headers):
        return encoded
    if encodings is None:
        batch.encodings = {key: encoded}
    else:
        encodings[key] = encoded
    return encoded


def _rows_with_alias(batch: MessageBatch, start: int, stop: int, name: bytes, alias: int, wall_ms: int) -> bytes:
    """Encode rows of one topic, which is written as `name`."""
    pieces: list[bytes] = []
    payloads = batch.payloads()
    headers = batch.headers()
    alias_property = number_property(TOPIC_ALIAS, alias)
    plain = section(alias_property)
    properties = plain
    last: Headers | None = None
    head = b""
    head_for = -1  # payload length
    for row in range(start, stop):
        of_row = None if headers is None else headers[row]
        if of_row is not last:
            properties = plain
            if of_row is not None:
                properties = section(alias_property + encode_message_properties(of_row, wall_ms))
            last = of_row
            head_for = -1
        payload = payloads[row]
        size = len(payload)
        if size != head_for:
            head = _head(_SHARED_FIRST_BYTE, name, len(properties) + size) + properties
            head_for = size
        pieces.append(head)
        pieces.append(payload)
    return b"".join(pieces)


@final
class PublishWriter:
    """The way from batches to one client's output. Pieces are appended to the engine's own list."""

    def __init__(self, level: int, packet_bytes_max: int, topic_alias_maximum: int) -> None:
        self._is_v5 = level == 5
        self._packet_bytes_max = packet_bytes_max  # the client's; 0: no limit
        aliases_max = min(topic_alias_maximum, TOPIC_ALIASES_OUT_MAX) if level == 5 else 0
        self._aliases: TopicAliases | None = TopicAliases(aliases_max) if aliases_max > 0 else None
        # The last head without properties: one message a wake-up is mostly one like the one before. Making a head
        # costs 2,200 instructions, as much as all else here.
        self._kept_topic = ""
        self._kept_first_byte: i64 = 0
        self._kept_prefix = b""
        self._kept_head = b""
        self._kept_for: i64 = -1  # payload length for which it is right; -1: for none
        self._id_bytes: i64 = 3 if self._is_v5 else 2  # with the empty property section

    def alone(self, rows: PublishRun, packet_id: i64, *, dup: bool) -> bytes:
        """Return the packet of a single row if its head is that of the one before; empty if not, and `write` has to."""
        batch = rows.batch
        if batch.topics is not None or batch.topic != self._kept_topic:
            return b""
        if self._is_v5 and (
            batch.headers() is not None or rows.options.identifiers is not None or rows.properties is not None
        ):
            return b""
        payload = batch.payloads()[rows.start]
        size = len(payload)
        if size != self._kept_for or size > _COPIED_BYTES_MAX or _first_byte(rows, dup) != self._kept_first_byte:
            return b""
        if rows.qos == 0:
            return self._kept_head + payload
        if not 0 < packet_id <= PACKET_ID_MAX:
            return b""
        id_at = packet_id * 3
        return b"%s%s%s" % (self._kept_head, _id_table()[id_at : id_at + self._id_bytes], payload)

    def write(self, pieces: list[bytes], rows: PublishRun, first_packet_id: int, *, dup: bool) -> list[int]:
        """Append the rows; return those too large for the client, which it never gets [3.1.2-25]."""
        batch, start, stop = rows.batch, rows.start, rows.stop
        _check(batch, start, stop, rows.qos, first_packet_id, dup)
        first_byte = _first_byte(rows, dup)
        if self._is_v5:
            own = _own_properties(rows.options.identifiers, rows.properties)
            headers = batch.headers()
            if own or self._aliases is not None or headers is not None:
                return self._write_with_properties(
                    pieces, batch, start, stop, first_byte, first_packet_id, own, headers, rows.wall_ms
                )
        return self._write_plain(pieces, batch, start, stop, first_byte, first_packet_id)

    def aliased(self, batch: MessageBatch, wall_ms: int) -> bytes:
        """Return messages of one topic at QoS 0, with its alias where it has one. For clients that allow aliases."""
        aliases = self._aliases
        assert aliases is not None, "the client has a Topic Alias Maximum"
        topic, count = batch.topic, batch.count
        alias = aliases.alias_of(topic, count)
        if alias != NO_ALIAS:
            return _shared_with_alias(batch, alias, wall_ms)
        alias = aliases.offer(topic, count)
        if alias == NO_ALIAS:
            return encode_at_most_once(batch, DIALECT_5, wall_ms)
        aliases.set(topic, alias, count)
        first = _rows_with_alias(batch, 0, 1, string(topic), alias, wall_ms)
        return first if count == 1 else first + _rows_with_alias(batch, 1, count, _NO_TOPIC, alias, wall_ms)

    def _write_plain(
        self, pieces: list[bytes], batch: MessageBatch, start: int, stop: int, first_byte: int, packet_id: int
    ) -> list[int]:
        """Write rows without properties. Rows of equal topic and length share their head."""
        skipped: list[int] | None = None
        payloads = batch.payloads()
        topics = batch.topics
        topic = batch.topic
        if topics is None and topic == self._kept_topic and first_byte == self._kept_first_byte:
            prefix = self._kept_prefix
            head = self._kept_head
            head_for = self._kept_for
        else:
            prefix = string(topic) if topics is None else b""
            head = b""
            head_for = -1  # payload length
        numbered = first_byte & 0x06 != 0
        ids = _id_table()
        id_bytes = self._id_bytes if numbered else self._id_bytes - 2
        limit = self._packet_bytes_max
        fits = True
        for row in range(start, stop):
            payload = payloads[row]
            size = len(payload)
            if topics is not None and topics[row] != topic:
                topic = topics[row]
                prefix = string(topic)
                head_for = -1
            if size != head_for:
                head = _head(first_byte, prefix, id_bytes + size)
                head_for = size
                fits = limit == 0 or len(head) + id_bytes + size <= limit
                if not numbered and id_bytes:
                    head += b"\0"
            if not fits:
                if skipped is None:
                    skipped = []
                skipped.append(row)
            else:
                pieces.append(head)
                if numbered:
                    at = packet_id * 3
                    pieces.append(ids[at : at + id_bytes])
                pieces.append(payload)
            packet_id += 1
        if topics is None:
            self._kept_topic = topic
            self._kept_first_byte = first_byte
            self._kept_prefix = prefix
            self._kept_head = head
            self._kept_for = head_for if fits else -1
        return NONE_SKIPPED if skipped is None else skipped

    def _write_with_properties(
        self,
        pieces: list[bytes],
        batch: MessageBatch,
        start: int,
        stop: int,
        first_byte: int,
        packet_id: int,
        own: bytes,
        headers: list[Headers | None] | None,
        wall_ms: int,
    ) -> list[int]:
        """Write rows of 5.0 that have properties, of the message's or of the subscriber's."""
        skipped: list[int] = []
        run = _Alike(pieces, batch.payloads(), first_byte, self._packet_bytes_max, skipped)
        topics = batch.topics
        named = ""
        name = _NO_TOPIC
        while start < stop:
            end = stop
            of_run: Headers | None = None
            topic = batch.topic
            if topics is not None or headers is not None:
                end = _end_of_alike(topics, headers, start, stop)
                topic = topic if topics is None else topics[start]
                of_run = None if headers is None else headers[start]
            properties = own if of_run is None else encode_message_properties(of_run, wall_ms) + own
            if self._aliases is not None:
                _write_aliased(run, self._aliases, topic, start, end, packet_id, properties)
            else:
                if topic != named:
                    named, name = topic, string(topic)
                run.write(start, end, packet_id, name, section(properties))
            packet_id += end - start
            start = end
        return skipped


def _end_of_alike(topics: list[str] | None, headers: list[Headers | None] | None, start: int, stop: int) -> int:
    """Return the row behind those from `start` on that have its topic and headers."""
    end = start + 1
    if topics is not None:
        topic = topics[start]
        while end < stop and topics[end] == topic:
            end += 1
        stop = end
    if headers is not None:
        of_run = headers[start]
        end = start + 1
        while end < stop and headers[end] is of_run:
            end += 1
    return end


def _write_aliased(
    run: "_Alike", aliases: TopicAliases, topic: str, start: int, stop: int, packet_id: int, properties: bytes
) -> None:
    """Write rows of one topic with its alias, where it has one or gets one."""
    alias = aliases.alias_of(topic, stop - start)
    if alias == NO_ALIAS:
        alias = aliases.offer(topic, stop - start)
        if alias == NO_ALIAS:
            run.write(start, stop, packet_id, string(topic), section(properties))
            return
        with_alias = section(number_property(TOPIC_ALIAS, alias) + properties)
        name = string(topic)
        while start < stop and not run.write(start, start + 1, packet_id, name, with_alias):
            start += 1  # a packet that is not sent tells the client no alias
            packet_id += 1
        if start == stop:
            return
        aliases.set(topic, alias, stop - start)
        start += 1
        packet_id += 1
    run.write(start, stop, packet_id, _NO_TOPIC, section(number_property(TOPIC_ALIAS, alias) + properties))


@final
class _Alike:
    """Writes rows of equal topic and properties. Those of equal length share all but the packet id."""

    def __init__(
        self, pieces: list[bytes], payloads: list[bytes], first_byte: int, packet_bytes_max: int, skipped: list[int]
    ) -> None:
        self._pieces = pieces
        self._payloads = payloads
        self._first_byte = first_byte
        self._packet_bytes_max = packet_bytes_max
        self._skipped = skipped

    def write(self, start: int, stop: int, packet_id: int, name: bytes, properties: bytes) -> bool:
        """Write rows, whose property section is given; return whether none was too large for the client."""
        pieces, payloads, limit = self._pieces, self._payloads, self._packet_bytes_max
        numbered = self._first_byte & 0x06 != 0
        ids = _id_table()
        around = len(properties) + (2 if numbered else 0)  # bytes between the topic and the payload
        head = b""
        head_for = -1  # payload length
        fits = True
        all_fit = True
        for row in range(start, stop):
            payload = payloads[row]
            size = len(payload)
            if size != head_for:
                head = _head(self._first_byte, name, around + size)
                head_for = size
                fits = limit == 0 or len(head) + around + size <= limit
            if fits:
                pieces.append(head)
                if numbered:
                    id_at = packet_id * 3
                    pieces.append(ids[id_at : id_at + 2])
                pieces.append(properties)
                pieces.append(payload)
            else:
                self._skipped.append(row)
                all_fit = False
            packet_id += 1
        return all_fit


def _first_byte(rows: PublishRun, dup: bool) -> i64:
    return 0x30 | (8 if dup else 0) | rows.qos << 1 | (1 if rows.retains() else 0)


def _check(batch: MessageBatch, start: int, stop: int, qos: int, first_packet_id: int, dup: bool) -> None:
    if not 0 <= start <= stop <= batch.count:
        raise LocalMisuse(f"rows {start} to {stop} of a batch of {batch.count}")
    if qos == 0:
        if dup:
            raise LocalMisuse("DUP with QoS 0 [3.3.1-2]")
    elif qos > 2:
        raise LocalMisuse(f"QoS {qos}")
    elif first_packet_id < 1 or first_packet_id + stop - start > PACKET_ID_MAX + 1:
        raise LocalMisuse(f"{stop - start} packet ids from {first_packet_id} on")


def _own_properties(
    subscription_identifiers: list[int] | None, extra_user_properties: list[tuple[str, str]] | None
) -> bytes:
    """Encode the properties of this subscriber only."""
    if subscription_identifiers is None and extra_user_properties is None:
        return b""
    parts: list[bytes] = []
    if subscription_identifiers is not None:
        for identifier in subscription_identifiers:
            parts.append(number_property(SUBSCRIPTION_IDENTIFIER, identifier))
    if extra_user_properties is not None:
        for key, text in extra_user_properties:
            parts.append(user_property(key, text))
    return b"".join(parts)


def _head(first_byte: int, prefix: bytes, rest: int) -> bytes:
    """Return fixed header and topic of a packet with `rest` bytes behind its topic."""
    return bytes((first_byte,)) + varint(len(prefix) + rest) + prefix
