"""Make views of messages that were browsed in a queue."""

from collections.abc import Mapping

from sluicegate.actors.messages.partitions import BrowsedMessage
from sluicegate.gateway.views.queues.messages import (
    DeathView,
    MessagePropertiesView,
    MessageView,
    PropertiesPreview,
    payload_preview,
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
    preview = PropertiesPreview()
    native = natives.get(headers.native_format)
    user_id = None if native is None else native.field(headers.native, USER_ID)
    group_id = None if native is None else native.field(headers.native, REPLY_TO_GROUP_ID)
    return MessagePropertiesView(
        priority=headers.priority,
        expires_ms=headers.expires_at_ms or None,
        not_before_ms=headers.not_before_ms or None,
        content_type=preview.text(headers.content_type),
        message_id=preview.text(headers.message_id),
        correlation_id=preview.correlation(headers.correlation),
        reply_to=preview.text(headers.reply_to),
        sent_ms=headers.timestamp_ms or None,
        dmq_eligible=headers.dmq_eligible,
        user_id=preview.text(user_id),
        reply_to_group_id=preview.text(group_id),
        user_properties=preview.user_properties(headers.user_properties),
        truncated=preview.truncated,
    )


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
