"""From the normalised message to an AMQP one.

A message that came by AMQP goes out with the very bytes it came with; only the header section is written anew, for it
belongs to the hop (3.2.1). A message of another protocol is written from its normalised fields.
"""

from typing import Final

from messaging.headers import NATIVE_AMQP, PRIORITY_DEFAULT, Headers
from protocols.amqp.encoding import encode, encode_composite
from protocols.amqp.message_in import BODY_DATA, BODY_STRING, PARTITION_KEY_PROPERTY, body_bytes_of, native_sections
from protocols.amqp.sections import APPLICATION_PROPERTIES, HEADER, PROPERTIES
from protocols.amqp.values import AmqpMap, AmqpValue, Symbol, timestamp, ubyte, uint

TTL_MS_MAX: Final = 0xFFFF_FFFF


# Headers of most messages: never delivered before, and durable or not.
_FIRST: Final = b"\x00\x53\x70\xc0\x05\x04\x40\x40\x40\x41"
_DURABLE_FIRST: Final = b"\x00\x53\x70\xc0\x05\x04\x41\x40\x40\x41"


def write_message(
    payload: bytes, headers: Headers | None, *, topic: str, durable: bool, delivery_count: int, wall_ms: int
) -> bytes:
    """Return the message as it is sent. `delivery_count`: failed deliveries before this one, 0 for the first."""
    head = header_section(headers, durable=durable, delivery_count=delivery_count, wall_ms=wall_ms)
    if headers is None:
        return head + _address_section(topic) + body_bytes_of(BODY_DATA, payload)
    if headers.native_format == NATIVE_AMQP:
        return head + native_sections(headers.native, payload)
    return head + _foreign_sections(payload, headers, topic)


def header_section(headers: Headers | None, *, durable: bool, delivery_count: int, wall_ms: int) -> bytes:
    """Return the header section; fields with their defaults are left out."""
    priority = PRIORITY_DEFAULT if headers is None else headers.priority
    expires_at_ms = 0 if headers is None else headers.expires_at_ms
    if priority == PRIORITY_DEFAULT and expires_at_ms == 0 and delivery_count == 0:
        return _DURABLE_FIRST if durable else _FIRST
    ttl_ms = min(TTL_MS_MAX, max(1, expires_at_ms - wall_ms)) if expires_at_ms else 0
    return encode_composite(
        HEADER,
        [
            True if durable else None,
            None if priority == PRIORITY_DEFAULT else ubyte(priority),
            uint(ttl_ms) if ttl_ms else None,
            True if delivery_count == 0 else None,
            uint(delivery_count) if delivery_count else None,
        ],
    )


def _address_section(topic: str) -> bytes:
    return encode_composite(PROPERTIES, [None, None, topic])


def _foreign_sections(payload: bytes, headers: Headers, topic: str) -> bytes:
    fields: list[AmqpValue] = [
        headers.message_id,
        None,
        topic,
        None,
        headers.reply_to,
        _correlation(headers.correlation),
        _ascii_symbol(headers.content_type),
        None,
        timestamp(headers.expires_at_ms) if headers.expires_at_ms else None,
        timestamp(headers.timestamp_ms) if headers.timestamp_ms else None,
        headers.partition_key,
    ]
    form = BODY_STRING if headers.payload_is_text else BODY_DATA
    return encode_composite(PROPERTIES, fields) + _application_properties(headers) + body_bytes_of(form, payload)


def _application_properties(headers: Headers) -> bytes:
    """Return the user properties: of a name that was given twice AMQP can hold the first only."""
    given = headers.user_properties
    if not given:
        return b""
    seen: set[str] = set()
    pairs: list[tuple[AmqpValue, AmqpValue]] = []
    for name, value in given:
        if name in seen or (name == PARTITION_KEY_PROPERTY and headers.partition_key is not None):
            continue
        seen.add(name)
        pairs.append((name, value))
    return bytes((0x00, 0x53, APPLICATION_PROPERTIES)) + encode(AmqpMap(pairs)) if pairs else b""


def _correlation(data: bytes | None) -> AmqpValue:
    """Return a correlation id: a string where the bytes are one, as most clients expect."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _ascii_symbol(text: str | None) -> AmqpValue:
    return Symbol(text) if text is not None and text.isascii() else None
