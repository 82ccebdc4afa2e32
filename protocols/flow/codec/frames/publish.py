"""PUBLISH and PUB_ACK: published messages, and the answers to them.

Flow: publishing. PUBLISH has a fixed part of 20 bytes, then topic, partition key, properties, payload:
`u64 sequence | u8 mode | u8 priority | u8 flags | u8 0 | u16 topic | u16 key | u32 properties`.
"""

import struct
from typing import Final, final

from sluicegate.messaging.message.headers import PARTITION_KEY_BYTES_MAX, PRIORITY_DEFAULT, PRIORITY_MAX, Headers
from sluicegate.protocols.flow.codec.codes import MALFORMED, PeerViolation
from sluicegate.protocols.flow.codec.frame import PUB_ACK, PUBLISH, SESSION, Frame, encode_frame
from sluicegate.protocols.flow.codec.limits import HEAD_BYTES, RANGES_MAX
from sluicegate.protocols.flow.codec.properties import ENTRIES_MAX, decode_properties, encode_properties

# Modes.
DIRECT: Final = 0
GUARANTEED: Final = 1

# Flags of a message, in PUBLISH and DELIVER.
DELIVER_TO_ONE: Final = 0x01
DMQ_ELIGIBLE: Final = 0x02
ELIDING_ELIGIBLE: Final = 0x04
PAYLOAD_IS_TEXT: Final = 0x08
TO_QUEUE: Final = 0x10  # PUBLISH: the topic is the name of a queue
REDELIVERED: Final = 0x20  # DELIVER: it was, or may have been, delivered before
AS_DIRECT: Final = 0x40  # DELIVER: published as a direct message
FIRST_OF_GROUP: Final = 0x80  # DELIVER: the first message of its group that this flow gets

PUBLISH_FLAGS: Final = DELIVER_TO_ONE | DMQ_ELIGIBLE | ELIDING_ELIGIBLE | PAYLOAD_IS_TEXT | TO_QUEUE
HEADER_FLAGS: Final = DELIVER_TO_ONE | DMQ_ELIGIBLE | ELIDING_ELIGIBLE | PAYLOAD_IS_TEXT

TOPICS_CACHED_MAX: Final = 1024  # decoded, of one connection
TOPIC_CACHED_BYTES_MAX: Final = 256  # longer ones are decoded each time, so that no client makes us keep 64 MB of them

_FIXED: Final = struct.Struct(">QBBBBHHI")
_LOW_AT: Final = HEAD_BYTES + 4  # in a frame without fields: the low half of the sequence, and the mode behind it
_MODE_AT: Final = HEAD_BYTES + 8
_ACK: Final = struct.Struct(">QQH")
_REFUSAL: Final = struct.Struct(">QQHH")


@final
class PublishesReceived:
    """Neighbouring PUBLISH frames of one flow, alike in mode and in whether they name topics or queues."""

    __slots__ = (
        "flow_id", "has_headers", "headers", "mode", "payload_bytes", "payloads", "sequences", "to_queue", "topics",
    )  # fmt: skip

    def __init__(self, flow_id: int, mode: int, *, to_queue: bool) -> None:
        self.flow_id = flow_id  # 0: direct messages outside of any flow
        self.mode = mode
        self.to_queue = to_queue  # `topics` holds names of queues
        self.sequences: list[int] = []  # 0 each on flow 0
        self.topics: list[str] = []
        self.payloads: list[bytes] = []
        self.headers: list[Headers | None] = []
        self.has_headers = False
        self.payload_bytes = 0

    def add(self, sequence: int, topic: str, payload: bytes, headers: Headers | None) -> None:
        """Add a message of which everything is decoded and checked."""
        self.sequences.append(sequence)
        self.topics.append(topic)
        self.payloads.append(payload)
        self.headers.append(headers)
        self.payload_bytes += len(payload)
        if headers is not None:
            self.has_headers = True

    def __repr__(self) -> str:
        return f"PublishesReceived(flow {self.flow_id}, {self.sequences}, {self.topics}, {self.payloads})"


@final
class Refusal:
    """Sequences that were refused for one reason. Their messages are nowhere."""

    __slots__ = ("code", "first", "last", "text")

    def __init__(self, first: int, last: int, code: int, text: str) -> None:
        self.first = first
        self.last = last
        self.code = code
        self.text = text  # for people; it names the queue that refused

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refusal) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]  # a value, compared in tests

    def __repr__(self) -> str:
        return f"Refusal({self.first}..{self.last}, {self.code:#06x}, {self.text!r})"


@final
class PubAck:
    """What has become of a publisher's messages."""

    __slots__ = ("answered_through", "flow_id", "refusals", "sequence_max")

    def __init__(self, flow_id: int, answered_through: int, sequence_max: int, refusals: list[Refusal]) -> None:
        self.flow_id = flow_id
        self.answered_through = answered_through  # up to here everything is stored, but for the refusals
        self.sequence_max = sequence_max  # the highest that may be sent now; it never falls
        self.refusals = refusals  # each named once, in the first PUB_ACK that has it below `answered_through`

    def encode(self) -> bytes:
        """Return the frame."""
        parts = [_ACK.pack(self.answered_through, self.sequence_max, len(self.refusals))]
        for each in self.refusals:
            text = each.text.encode("utf-8")
            parts.append(_REFUSAL.pack(each.first, each.last, each.code, len(text)))
            parts.append(text)
        return encode_frame(PUB_ACK, 0, self.flow_id, b"", b"".join(parts))

    def __repr__(self) -> str:
        return f"PubAck(flow {self.flow_id}, through {self.answered_through}, {self.sequence_max}, {self.refusals})"


def read_publish(
    frame: Frame, data: bytes, wall_ms: int, run: PublishesReceived | None, topics: dict[bytes, str]
) -> PublishesReceived:
    """Add a PUBLISH to the run, or begin another with it; return its run. Raises PeerViolation.

    `topics` are those seen lately, decoded. Whether one may be published to is not asked here.
    """
    at = frame.body_at
    if frame.end < at + _FIXED.size:
        raise PeerViolation(MALFORMED, f"PUBLISH with a body of {frame.end - at} bytes; its fixed part has 20")
    fixed: tuple[int, int, int, int, int, int, int, int] = _FIXED.unpack_from(data, at)
    sequence, mode, priority, flags, _, topic_bytes, key_bytes, properties_bytes = fixed
    topic_at = at + _FIXED.size
    key_at = topic_at + topic_bytes
    properties_at = key_at + key_bytes
    payload_at = properties_at + properties_bytes
    if payload_at > frame.end:
        raise PeerViolation(MALFORMED, "PUBLISH whose parts are longer than its body")
    if mode not in (DIRECT, GUARANTEED) or flags & ~PUBLISH_FLAGS or priority > PRIORITY_MAX:
        raise PeerViolation(MALFORMED, f"PUBLISH with mode {mode}, priority {priority}, flags {flags:#04x}")
    flow_id = frame.flow_id
    if flow_id == SESSION and (mode != DIRECT or sequence != 0):
        raise PeerViolation(MALFORMED, "PUBLISH outside of a flow with a sequence, or of a guaranteed message")
    if flow_id != SESSION and (mode != GUARANTEED or sequence == 0):
        raise PeerViolation(MALFORMED, f"PUBLISH of sequence {sequence}, mode {mode}; a flow has guaranteed messages")
    topic = _topic(data[topic_at:key_at], topics)
    headers: Headers | None = None
    if key_bytes or properties_bytes or priority != PRIORITY_DEFAULT or flags & HEADER_FLAGS:
        headers = headers_of(data[key_at:properties_at], priority, flags)
        if properties_bytes:
            decode_properties(headers, data, properties_at, payload_at, wall_ms, ENTRIES_MAX)
    # Nothing can fail from here on: a message is in all columns of a run or in none.
    to_queue = flags & TO_QUEUE != 0
    if run is None or run.flow_id != flow_id or run.to_queue != to_queue:
        run = PublishesReceived(flow_id, mode, to_queue=to_queue)
    run.add(sequence, topic, data[payload_at : frame.end], headers)
    return run


def read_alike(run: PublishesReceived, frame: Frame, data: bytes, end: int) -> int:
    """Add the PUBLISH frames behind `frame` that differ from it in sequence and payload only; return where they end.

    `frame` is the last of the run. A publisher repeats itself: what is alike costs two comparisons of slices instead of
    a decoding, 0.10 us a message instead of 0.58 (`bench/cores/bench_flow_frames.py`). It has no fields,
    partition key or properties, as a row of the run without headers says.
    """
    start = frame.fields_at - HEAD_BYTES
    pos = frame.end
    size = pos - start
    last_start = end - size
    if pos > last_start or frame.body_at != frame.fields_at or run.headers[-1] is not None:
        return pos
    head = data[start : start + _LOW_AT]
    if data[pos : pos + _LOW_AT] != head:  # of another length, mostly: checked before anything is allocated for a run
        return pos
    payload_at = size - len(run.payloads[-1])
    middle = data[start + _MODE_AT : start + payload_at]
    if data[pos + _MODE_AT : pos + payload_at] != middle:
        return pos
    upper = run.sequences[-1] >> 32 << 32
    is_numbered = run.mode == GUARANTEED
    sequences, payloads = run.sequences, run.payloads
    while pos <= last_start and data[pos : pos + _LOW_AT] == head and data[pos + _MODE_AT : pos + payload_at] == middle:
        low = _low_half(data, pos + _LOW_AT)
        if (low != 0) != is_numbered:
            break  # wrong, or the first of another four billion: whichever, it is read by itself
        sequences.append(upper | low)
        payloads.append(data[pos + payload_at : pos + size])
        pos += size
    count = len(payloads) - len(run.topics)
    if count == 0:
        return pos
    run.topics += [run.topics[-1]] * count
    column: list[Headers | None] = [None] * count
    run.headers += column
    run.payload_bytes += count * (size - payload_at)
    return pos


def _low_half(data: bytes, at: int) -> int:
    return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def _topic(given: bytes, topics: dict[bytes, str]) -> str:
    topic = topics.get(given)
    if topic is None:
        try:
            topic = given.decode("utf-8")
        except UnicodeDecodeError:
            raise PeerViolation(MALFORMED, "a topic that is not UTF-8") from None
        if len(given) <= TOPIC_CACHED_BYTES_MAX:
            if len(topics) >= TOPICS_CACHED_MAX:
                topics.clear()
            topics[given] = topic
    return topic


def headers_of(key: bytes, priority: int, flags: int) -> Headers:
    """Return the headers that the fixed part and the partition key of a message say. Raises PeerViolation.

    The key's hash is the gateway's matter, and not set: clients have no use for it.
    """
    headers = Headers()
    if key:
        if len(key) > PARTITION_KEY_BYTES_MAX:
            raise PeerViolation(MALFORMED, f"a partition key of {len(key)} bytes; at most {PARTITION_KEY_BYTES_MAX}")
        try:
            headers.partition_key = key.decode("utf-8")
        except UnicodeDecodeError:
            raise PeerViolation(MALFORMED, "a partition key that is not UTF-8") from None
    headers.priority = priority
    headers.deliver_to_one = flags & DELIVER_TO_ONE != 0
    headers.dmq_eligible = flags & DMQ_ELIGIBLE != 0
    headers.eliding_eligible = flags & ELIDING_ELIGIBLE != 0
    headers.payload_is_text = flags & PAYLOAD_IS_TEXT != 0
    return headers


def flags_of(headers: Headers) -> int:
    """Return the flags that stand for fields of headers."""
    return (
        (DELIVER_TO_ONE if headers.deliver_to_one else 0)
        | (DMQ_ELIGIBLE if headers.dmq_eligible else 0)
        | (ELIDING_ELIGIBLE if headers.eliding_eligible else 0)
        | (PAYLOAD_IS_TEXT if headers.payload_is_text else 0)
    )


def write_publish(
    flow_id: int,
    sequence: int,
    topic: str,
    payload: bytes,
    headers: Headers | None,
    *,
    to_queue: bool,
    ttl_ms: int,
    delay_ms: int,
) -> bytes:
    """Return a PUBLISH. On flow 0 it is a direct message, of sequence 0; else a guaranteed one."""
    mode = DIRECT if flow_id == SESSION else GUARANTEED
    flags = TO_QUEUE if to_queue else 0
    topic_data = topic.encode("utf-8")
    priority = PRIORITY_DEFAULT
    key = b""
    properties = b""
    if headers is not None:
        flags |= flags_of(headers)
        priority = headers.priority
        key = b"" if headers.partition_key is None else headers.partition_key.encode("utf-8")
        properties = encode_properties(headers, ttl_ms=ttl_ms, delay_ms=delay_ms)
    fixed = _FIXED.pack(sequence, mode, priority, flags, 0, len(topic_data), len(key), len(properties))
    return encode_frame(PUBLISH, 0, flow_id, b"", b"".join((fixed, topic_data, key, properties, payload)))


def read_pub_ack(frame: Frame, data: bytes) -> PubAck:
    """Return a PUB_ACK. Raises PeerViolation."""
    at = frame.body_at
    if frame.end < at + _ACK.size:
        raise PeerViolation(MALFORMED, f"PUB_ACK with a body of {frame.end - at} bytes; its fixed part has 18")
    answered_through, sequence_max, count = _ACK.unpack_from(data, at)
    if count > RANGES_MAX:
        raise PeerViolation(MALFORMED, f"PUB_ACK with {count} refusals; at most {RANGES_MAX} are taken")
    at += _ACK.size
    refusals: list[Refusal] = []
    for _ in range(count):
        if at + _REFUSAL.size > frame.end:
            raise PeerViolation(MALFORMED, "PUB_ACK that ends within a refusal")
        first, last, code, text_bytes = _REFUSAL.unpack_from(data, at)
        text_at = at + _REFUSAL.size
        at = text_at + text_bytes
        if at > frame.end:
            raise PeerViolation(MALFORMED, "PUB_ACK that ends within a refusal")
        refusals.append(Refusal(first, last, code, data[text_at:at].decode("utf-8", "replace")))
    if at != frame.end:
        raise PeerViolation(MALFORMED, f"PUB_ACK with {frame.end - at} bytes behind its refusals")
    return PubAck(frame.flow_id, answered_through, sequence_max, refusals)
