"""The stored form of a will, which is part of its session's row, so that it survives a restart (section 8)."""

import base64
from typing import Any

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.topics.syntax import is_queue_topic
from sluicegate.protocols.mqtt.codec.events import NO_EXPIRY, Will
from sluicegate.protocols.mqtt.codec.message_properties import NO_ALIAS, MessageProperties, decode_publish_properties


def will_to_row(will: Will | None) -> dict[str, Any] | None:
    """Return a will as values that JSON knows."""
    if will is None:
        return None
    headers = will.headers(0)
    return {
        "topic": will.topic,
        "payload": base64.b64encode(will.payload).decode(),
        "qos": will.qos,
        "retain": will.retain,
        "delay_s": will.delay_s,
        "expiry_s": will.expiry_s,
        "properties": base64.b64encode(headers.native if headers is not None else b"").decode(),
    }


def will_from_row(row: dict[str, Any] | None) -> Will | None:
    """Return the will that was stored."""
    if row is None:
        return None
    properties: MessageProperties | None = None
    section = base64.b64decode(row["properties"])
    if section or row["expiry_s"] != NO_EXPIRY:
        decoded = decode_publish_properties(section)
        properties = MessageProperties(
            alias=NO_ALIAS,
            expiry_s=row["expiry_s"],
            delay_s=row["delay_s"],
            hold_ms=decoded.hold_ms,
            carried=decoded.carried,
        )
    return Will(
        topic=row["topic"],
        payload=base64.b64decode(row["payload"]),
        qos=row["qos"],
        retain=row["retain"],
        delay_s=row["delay_s"],
        properties=properties,
    )


def will_batch(will: Will, client_id: str, wall_ms: int) -> MessageBatch:
    """Return the message a will becomes when it is published now: its expiry starts with this moment (3.1.3.2.4)."""
    headers = will.headers(wall_ms)
    return MessageBatch(
        topic=will.topic,
        topics=None,
        payloads=[will.payload],
        headers=None if headers is None else [headers],
        qos=will.qos,
        retain=will.retain and not is_queue_topic(will.topic),
        publisher=client_id,
        received_ms=wall_ms,
        payload_bytes=len(will.payload),
    )
