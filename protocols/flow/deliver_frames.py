"""DELIVER: messages on their way out.

Flow: consuming. DELIVER has a fixed part of 44 bytes, then topic, partition key, properties, payload:
`u64 delivery id | u64 message id | u32 partition | u32 assignment epoch | u16 delivery count | u8 flags | u8 priority |
u64 received ms | u16 topic | u16 key | u32 properties`.
"""

import struct
from typing import Final, final

from messaging.headers import PRIORITY_DEFAULT, PRIORITY_MAX, Headers
from protocols.flow.codes import MALFORMED
from protocols.flow.errors import PeerViolation
from protocols.flow.frames import DELIVER, Frame, encode_frame
from protocols.flow.properties import decode_properties, encode_properties
from protocols.flow.publish_frames import (
    AS_DIRECT,
    HEADER_FLAGS,
    REDELIVERED,
    flags_of,
    headers_of,
)

DELIVER_FLAGS: Final = HEADER_FLAGS | REDELIVERED | AS_DIRECT
DELIVERY_COUNT_MAX: Final = 0xFFFF  # more are written as this

_FIXED: Final = struct.Struct(">QQIIHBBQHHI")


@final
class Delivered:
    """One message as its consumer gets it."""

    __slots__ = (
        "delivery_count", "delivery_id", "epoch", "flow_id", "headers", "message_id", "partition", "payload",
        "received_ms", "redelivered", "topic", "was_direct",
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
        self.received_ms = received_ms  # wall clock of the gateway, when it was published
        self.topic = topic
        self.headers = headers  # None: it has none
        self.payload = payload

    def __repr__(self) -> str:
        return (
            f"Delivered(flow {self.flow_id}, delivery {self.delivery_id}, message {self.message_id}, partition "
            f"{self.partition}, epoch {self.epoch}, count {self.delivery_count}, redelivered={self.redelivered}, "
            f"direct={self.was_direct}, {self.received_ms} ms, {self.topic!r}, {self.headers}, {self.payload!r})"
        )


def write_deliver(
    flow_id: int,
    delivery_id: int,
    message_id: int,
    partition: int,
    epoch: int,
    *,
    delivery_count: int,
    redelivered: bool,
    was_direct: bool,
    received_ms: int,
    topic: bytes,
    headers: Headers | None,
    payload: bytes,
    wall_ms: int,
) -> bytes:
    """Return a DELIVER. `topic` is UTF-8, encoded once for all messages on it."""
    flags = (REDELIVERED if redelivered else 0) | (AS_DIRECT if was_direct else 0)
    priority = PRIORITY_DEFAULT
    key = b""
    properties = b""
    if headers is not None:
        flags |= flags_of(headers)
        priority = headers.priority
        key = b"" if headers.partition_key is None else headers.partition_key.encode("utf-8")
        ttl_ms = max(1, headers.expires_at_ms - wall_ms) if headers.expires_at_ms else 0
        properties = encode_properties(headers, ttl_ms=ttl_ms, delay_ms=0)
    fixed = _FIXED.pack(
        delivery_id,
        message_id,
        partition,
        epoch,
        min(delivery_count, DELIVERY_COUNT_MAX),
        flags,
        priority,
        received_ms,
        len(topic),
        len(key),
        len(properties),
    )
    return encode_frame(DELIVER, 0, flow_id, b"", b"".join((fixed, topic, key, properties, payload)))


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
        decode_properties(headers, data, properties_at, payload_at, wall_ms)
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
        received_ms=received_ms,
        topic=topic,
        headers=headers,
        payload=data[payload_at : frame.end],
    )
