"""DELIVER: messages to a consumer, browser or subscriber.

Flow: consuming. DELIVER has a fixed part of 44 bytes, then topic, partition key, properties, payload:
`u64 delivery id | u64 message id | u32 partition | u32 assignment epoch | u16 delivery count | u8 flags | u8 priority |
u64 received ms | u16 topic | u16 key | u32 properties`.
"""

import struct
from typing import Final, final

from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, PRIORITY_MAX, Headers
from sluicegate.protocols.flow.codec.codes import MALFORMED, PeerViolation
from sluicegate.protocols.flow.codec.frame import DELIVER, Frame
from sluicegate.protocols.flow.codec.frames.publish import (
    AS_DIRECT,
    FIRST_OF_GROUP,
    HEADER_FLAGS,
    REDELIVERED,
    flags_of,
    headers_of,
)
from sluicegate.protocols.flow.codec.limits import HEAD_BYTES
from sluicegate.protocols.flow.codec.properties import decode_properties, encode_properties

DELIVER_FLAGS: Final = HEADER_FLAGS | REDELIVERED | AS_DIRECT | FIRST_OF_GROUP
DELIVERY_COUNT_MAX: Final = 0xFFFF  # more are written as this

_FIXED: Final = struct.Struct(">QQIIHBBQHHI")
_HEAD_AND_FIXED: Final = struct.Struct(">IBBHIQQIIHBBQHHI")
_HEAD_REST_BYTES: Final = HEAD_BYTES - 4  # of a head, behind its length
_DELIVERY_ID_LOW_AT: Final = HEAD_BYTES + 6  # the two low bytes
_MESSAGE_ID_LOW_AT: Final = HEAD_BYTES + 14

ALIKE_MIN: Final = 4  # rows; fewer are written one by one, for the columns of their numbers cost more than they save
NUMBERS_ALIKE: Final = 1 << 16  # that differ in their two low bytes only

_low_bytes: list[bytes] = []  # of the numbers 0..65535: the higher of the two, and the lower


def _low_byte_columns() -> list[bytes]:
    if not _low_bytes:
        _low_bytes.append(b"".join([bytes((high,)) * 256 for high in range(256)]))
        _low_bytes.append(bytes(range(256)) * 256)
    return _low_bytes


@final
class Delivered:
    """One message as its consumer gets it."""

    __slots__ = (
        "delivery_count", "delivery_id", "epoch", "first_of_group", "flow_id", "headers", "message_id", "partition",
        "payload", "received_ms", "redelivered", "topic", "was_direct",
    )  # fmt: skip

    def __init__(
        self,
        *,
        flow_id: int,
        delivery_id: int,
        message_id: int,
        partition: int,
        epoch: int,
        delivery_count: int,
        redelivered: bool,
        was_direct: bool,
        first_of_group: bool,
        received_ms: int,
        topic: str,
        headers: Headers | None,
        payload: bytes,
    ) -> None:
        self.flow_id = flow_id
        self.delivery_id = delivery_id  # counts the deliveries of this flow, from 1
        self.message_id = message_id  # its sequence in its partition
        self.partition = partition
        self.epoch = epoch  # assignment epoch of the partition
        self.delivery_count = delivery_count  # this delivery included
        self.redelivered = redelivered  # it was, or may have been, delivered before
        self.was_direct = was_direct  # published at most once
        self.first_of_group = first_of_group  # the first message of its group that this flow gets
        self.received_ms = received_ms  # wall clock of the gateway, when it was published
        self.topic = topic
        self.headers = headers  # None: it has none
        self.payload = payload

    def __repr__(self) -> str:
        return (
            f"Delivered(flow {self.flow_id}, delivery {self.delivery_id}, message {self.message_id}, partition "
            f"{self.partition}, epoch {self.epoch}, count {self.delivery_count}, redelivered={self.redelivered}, "
            f"direct={self.was_direct}, first={self.first_of_group}, {self.received_ms} ms, {self.topic!r}, "
            f"{self.headers}, {self.payload!r})"
        )


@final
class DeliverHead:
    """The common fields of the DELIVER frames of one delivery: consecutive messages of a partition, to one flow."""

    __slots__ = ("delivery_count", "epoch", "flags", "flow_id", "partition", "received_ms")

    def __init__(
        self,
        flow_id: int,
        partition: int,
        epoch: int,
        *,
        delivery_count: int,
        redelivered: bool,
        was_direct: bool,
        first_of_group: bool,
        received_ms: int,
    ) -> None:
        self.flow_id = flow_id
        self.partition = partition
        self.epoch = epoch  # assignment epoch of the partition
        self.delivery_count = min(delivery_count, DELIVERY_COUNT_MAX)
        self.received_ms = received_ms  # wall clock, when they were published
        flags = (REDELIVERED if redelivered else 0) | (AS_DIRECT if was_direct else 0)
        self.flags = flags | FIRST_OF_GROUP if first_of_group else flags


def write_deliver(
    head: DeliverHead,
    delivery_id: int,
    message_id: int,
    *,
    topic: bytes,
    headers: Headers | None,
    payload: bytes,
    wall_ms: int,
) -> bytes:
    """Return a DELIVER. `topic` is UTF-8, encoded once for all messages on it."""
    flags = head.flags
    priority = PRIORITY_DEFAULT
    key = b""
    properties = b""
    if headers is not None:
        flags |= flags_of(headers)
        priority = headers.priority
        key = b"" if headers.partition_key is None else headers.partition_key.encode("utf-8")
        ttl_ms = max(1, headers.expires_at_ms - wall_ms) if headers.expires_at_ms else 0
        properties = encode_properties(headers, ttl_ms=ttl_ms, delay_ms=0)
    fixed = _HEAD_AND_FIXED.pack(
        _HEAD_REST_BYTES + _FIXED.size + len(topic) + len(key) + len(properties) + len(payload),
        DELIVER,
        0,
        0,
        head.flow_id,
        delivery_id,
        message_id,
        head.partition,
        head.epoch,
        head.delivery_count,
        flags,
        priority,
        head.received_ms,
        len(topic),
        len(key),
        len(properties),
    )
    return b"".join((fixed, topic, key, properties, payload))


def write_alike(
    out: list[bytes],
    head: DeliverHead,
    delivery_id: int,
    message_id: int,
    *,
    topic: bytes,
    payloads: list[bytes],
    start: int,
    stop: int,
) -> None:
    """Append the DELIVER frames of payloads `[start, stop)`, which have no headers; both ids count on.

    Payloads of one size share their head: all of the heads are made in one piece, a byte of the ids in all of them at
    a time, and cut apart: 0.04 us a message where `write_deliver` takes 0.6 (`bench/cores/bench_flow_frames.py`).
    """
    row = start
    while row < stop:
        size = len(payloads[row])
        end = row + 1
        bound = min(stop, row + NUMBERS_ALIKE - max(delivery_id % NUMBERS_ALIKE, message_id % NUMBERS_ALIKE))
        while end < bound and len(payloads[end]) == size:
            end += 1
        first = write_deliver(
            head, delivery_id, message_id, topic=topic, headers=None, payload=payloads[row], wall_ms=0
        )
        if end - row < ALIKE_MIN:
            end = row + 1
            out.append(first)
        else:
            _write_heads(out, first[: len(first) - size], delivery_id, message_id, payloads, row, end)
        delivery_id += end - row
        message_id += end - row
        row = end


def _write_heads(
    out: list[bytes], head: bytes, delivery_id: int, message_id: int, payloads: list[bytes], start: int, stop: int
) -> None:
    """Append rows that all have this head, but for the low bytes of their ids."""
    count = stop - start
    head_bytes = len(head)
    heads = bytearray(head * count)
    high, low = _low_byte_columns()
    for number, at in (
        (delivery_id % NUMBERS_ALIKE, _DELIVERY_ID_LOW_AT),
        (message_id % NUMBERS_ALIKE, _MESSAGE_ID_LOW_AT),
    ):
        heads[at::head_bytes] = high[number : number + count]
        heads[at + 1 :: head_bytes] = low[number : number + count]
    cut = bytes(heads)
    pos = 0
    for row in range(start, stop):
        out.append(cut[pos : pos + head_bytes])
        out.append(payloads[row])
        pos += head_bytes


def read_deliver(frame: Frame, data: bytes, wall_ms: int) -> Delivered:
    """Return a DELIVER. Raises PeerViolation."""
    at = frame.body_at
    if frame.end < at + _FIXED.size:
        raise PeerViolation(MALFORMED, f"DELIVER with a body of {frame.end - at} bytes; its fixed part has 44")
    fixed: tuple[int, int, int, int, int, int, int, int, int, int, int] = _FIXED.unpack_from(data, at)
    delivery_id, message_id, partition, epoch, count, flags, priority, received_ms, topic_bytes, key_bytes, size = fixed
    topic_at = at + _FIXED.size
    key_at = topic_at + topic_bytes
    properties_at = key_at + key_bytes
    payload_at = properties_at + size
    if payload_at > frame.end:
        raise PeerViolation(MALFORMED, "DELIVER whose parts are longer than its body")
    if flags & ~DELIVER_FLAGS or priority > PRIORITY_MAX:
        raise PeerViolation(MALFORMED, f"DELIVER with priority {priority}, flags {flags:#04x}")
    headers: Headers | None = None
    if key_bytes or size or priority != PRIORITY_DEFAULT or flags & HEADER_FLAGS:
        headers = headers_of(data[key_at:properties_at], priority, flags)
        decode_properties(headers, data, properties_at, payload_at, wall_ms, size)  # each has a byte at least
    try:
        topic = data[topic_at:key_at].decode("utf-8")
    except UnicodeDecodeError:
        raise PeerViolation(MALFORMED, "a topic that is not UTF-8") from None
    return Delivered(
        flow_id=frame.flow_id,
        delivery_id=delivery_id,
        message_id=message_id,
        partition=partition,
        epoch=epoch,
        delivery_count=count,
        redelivered=flags & REDELIVERED != 0,
        was_direct=flags & AS_DIRECT != 0,
        first_of_group=flags & FIRST_OF_GROUP != 0,
        received_ms=received_ms,
        topic=topic,
        headers=headers,
        payload=data[payload_at : frame.end],
    )
