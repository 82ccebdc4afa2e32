"""Make views of messages that were browsed in a queue."""

from collections.abc import Mapping

from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.gateway.views.queues.messages import (
    DeathView,
    MessagePropertiesView,
    MessageView,
    payload_preview,
    properties_preview,
)
from sluicegate.messaging.message.headers import REPLY_TO_GROUP_ID, USER_ID, DeadLetter, Headers, NativeFields
from sluicegate.messaging.message.keys import KeySource, key_in


def message_view(
    message: BrowsedMessage, key_source: KeySource | None, broker: str, natives: Mapping[int, NativeFields]
) -> MessageView:
    """Return a message that was browsed at a neighbor; empty: at this broker. `natives` read what has no header."""
    batch = message.batch
    headers = batch.headers_of(message.row)
    payload = batch.payloads()[message.row]
    text, encoding, truncated = payload_preview(payload)
    return MessageView(
        id=f"{message.partition_number}:{message.sequence}",
        partition=message.partition_number,
        sequence=message.sequence,
        topic=batch.topic_of(message.row),
        size_bytes=len(payload),
        delivery_count=max(message.delivery_count + message.in_flight, 1 if message.redelivered else 0),
        received_ms=batch.received_ms,
        key=key_in(key_source, batch, message.row),
        payload=text,
        payload_encoding=encoding,
        payload_truncated=truncated,
        qos=batch.qos,
        publisher=batch.publisher,
        properties=MessagePropertiesView() if headers is None else _properties_view(headers, natives),
        dead=None if headers is None or headers.dead is None else _death_view(headers.dead),
        broker=broker,
    )


def _properties_view(headers: Headers, natives: Mapping[int, NativeFields]) -> MessagePropertiesView:
    properties, truncated = properties_preview(headers.user_properties or ())
    return MessagePropertiesView(
        priority=headers.priority,
        expires_ms=headers.expires_at_ms or None,
        not_before_ms=headers.not_before_ms or None,
        content_type=headers.content_type,
        message_id=headers.message_id,
        correlation_id=correlation_text(headers),
        reply_to=headers.reply_to,
        sent_ms=headers.timestamp_ms or None,
        dmq_eligible=headers.dmq_eligible,
        user_id=_native_text(headers, USER_ID, natives),
        reply_to_group_id=_native_text(headers, REPLY_TO_GROUP_ID, natives),
        user_properties=properties,
        user_properties_truncated=truncated,
    )


def _native_text(headers: Headers, name: str, natives: Mapping[int, NativeFields]) -> str | None:
    reader = natives.get(headers.native_format)
    value = None if reader is None else reader.field(headers.native, name)
    return None if value is None else str(value)


def correlation_text(headers: Headers | None) -> str | None:
    """Return the correlation data, which may be any bytes, as text."""
    if headers is None or headers.correlation is None:
        return None
    return headers.correlation.decode(errors="backslashreplace")


def _death_view(dead: DeadLetter) -> DeathView:
    return DeathView(
        reason=dead.reason,
        queue=dead.queue,
        partition=dead.partition,
        delivery_count=dead.delivery_count,
        time_ms=dead.died_ms,
        client=dead.client or None,
        cause=dead.cause or None,
        via=dead.via,
    )
