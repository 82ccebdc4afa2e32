"""The properties of one message: from a 5.0 PUBLISH or will to normalised headers, and from headers to a PUBLISH.

A message published with 5.0 keeps its property bytes as `native`, and is sent with the same bytes. A message of another
protocol is written from its normalised fields, by the cross-protocol table: a field without an MQTT property becomes a
User Property (`priority`, `message-id`, `timestamp`, `JMSXGroupID`, `deliver-to-one`).
"""

import base64
from typing import Final, final

from sluicegate.messaging.message.headers import (
    NATIVE_MQTT5,
    PARTITION_KEY_BYTES_MAX,
    PRIORITY_DEFAULT,
    QUEUE_REPLY,
    TIME_MS_MAX,
    DeadLetter,
    Headers,
    UserPropertyValue,
)
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.topics.syntax import TopicError, check_topic_name
from sluicegate.protocols.mqtt.codec.limits import STRING_BYTES_MAX
from sluicegate.protocols.mqtt.codec.properties import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    IN_PUBLISH,
    IN_WILL,
    MESSAGE_EXPIRY_INTERVAL,
    PAYLOAD_FORMAT_INDICATOR,
    RESPONSE_TOPIC,
    TOPIC_ALIAS,
    WILL_DELAY_INTERVAL,
    Properties,
    binary_property,
    decode_section,
    number_property,
    text_property,
    user_property,
    without,
)
from sluicegate.protocols.mqtt.codec.reason_codes import (
    PAYLOAD_FORMAT_INVALID,
    PROTOCOL_ERROR,
    TOPIC_ALIAS_INVALID,
    PeerViolation,
)
from sluicegate.protocols.mqtt.codec.wire import fits_string

NO_EXPIRY: Final = -1
NO_ALIAS: Final = 0
EXPIRY_S_MAX: Final = 0xFFFF_FFFF

PARTITION_KEY_NAME: Final = "JMSXGroupID"
PRIORITY_NAME: Final = "priority"
MESSAGE_ID_NAME: Final = "message-id"
TIMESTAMP_NAME: Final = "timestamp"
DELIVER_TO_ONE_NAME: Final = "deliver-to-one"
DELIVERY_DELAY_NAME: Final = "sluicegate-delivery-delay-ms"

_QUEUE_ADDRESS: Final = "$queue/"  # MQTT's way to name a queue; a `#` would be a wildcard in a Response Topic
_DELAY_DIGITS_MAX: Final = 13  # 300 years
_TIMESTAMP_DIGITS_MAX: Final = 18  # what fits into 64 bits for certain


@final
class MessageProperties:
    """The decoded properties of one message, all but the moment from which its times count."""

    def __init__(self, *, alias: int, expiry_s: int, delay_s: int, hold_ms: int, carried: Headers | None) -> None:
        self.alias = alias  # NO_ALIAS: none
        self.expiry_s = expiry_s  # NO_EXPIRY: none
        self.delay_s = delay_s  # of a will
        self.hold_ms = hold_ms  # how long queues keep it before they deliver it; 0: they do not
        self.carried = carried  # headers without expiry, shared by all messages with equal properties; None: none

    def headers(self, wall_ms: int) -> Headers | None:
        """Return the headers of a message published now."""
        carried = self.carried
        if self.expiry_s == NO_EXPIRY and self.hold_ms == 0:
            return carried
        expires_at_ms = 0 if self.expiry_s == NO_EXPIRY else wall_ms + self.expiry_s * 1000
        if carried is None:
            return Headers(expires_at_ms=expires_at_ms, native_format=NATIVE_MQTT5)
        return Headers(
            partition_key=carried.partition_key,
            key_hash=carried.key_hash,
            expires_at_ms=expires_at_ms,
            not_before_ms=wall_ms + self.hold_ms if self.hold_ms > 0 else 0,
            priority=carried.priority,
            payload_is_text=carried.payload_is_text,
            content_type=carried.content_type,
            correlation=carried.correlation,
            reply_to=carried.reply_to,
            message_id=carried.message_id,
            timestamp_ms=carried.timestamp_ms,
            deliver_to_one=carried.deliver_to_one,
            user_properties=carried.user_properties,
            native_format=NATIVE_MQTT5,
            native=carried.native,
        )


def decode_publish_properties(section: bytes) -> MessageProperties:
    """Decode the property section of a client's PUBLISH, given without its length."""
    found = decode_section(section, 0, len(section), IN_PUBLISH)
    alias = found.numbers.get(TOPIC_ALIAS, -1)
    if alias == 0:
        raise PeerViolation(TOPIC_ALIAS_INVALID, "Topic Alias is 0 [3.3.2-8]")
    return _message_properties(found, section, max(alias, NO_ALIAS))


def decode_will_properties(section: bytes) -> MessageProperties:
    """Decode the will properties of a CONNECT, given without their length."""
    return _message_properties(decode_section(section, 0, len(section), IN_WILL), section, NO_ALIAS)


def _message_properties(found: Properties, section: bytes, alias: int) -> MessageProperties:
    numbers = found.numbers
    expiry_s = numbers.get(MESSAGE_EXPIRY_INTERVAL, NO_EXPIRY)
    delay_s = numbers.get(WILL_DELAY_INTERVAL, -1)
    native = section
    if alias != NO_ALIAS or expiry_s != NO_EXPIRY or delay_s != -1:
        native = without(section, (MESSAGE_EXPIRY_INTERVAL, TOPIC_ALIAS, WILL_DELAY_INTERVAL))
    return MessageProperties(
        alias=alias,
        expiry_s=expiry_s,
        delay_s=max(delay_s, 0),
        hold_ms=_hold_ms(found),
        carried=_carried(found, native) if native else None,
    )


def _hold_ms(found: Properties) -> int:
    """Return the delivery delay that the publisher requested; the first such property counts."""
    for key, text in found.user:
        if key == DELIVERY_DELAY_NAME and text.isascii() and text.isdigit() and len(text) <= _DELAY_DIGITS_MAX:
            return int(text)
    return 0


def _carried(found: Properties, native: bytes) -> Headers:
    """Return the headers, without expiry, of decoded properties."""
    partition_key: str | None = None
    message_id: str | None = None
    priority = PRIORITY_DEFAULT
    timestamp_ms = 0
    deliver_to_one = False
    for key, text in found.user:
        if key == PARTITION_KEY_NAME:
            if partition_key is None:  # the first one counts
                partition_key = _checked_key(text)
        elif key == PRIORITY_NAME:
            if len(text) == 1 and "0" <= text <= "9":
                priority = int(text)
        elif key == MESSAGE_ID_NAME:
            message_id = text
        elif key == DELIVER_TO_ONE_NAME:
            deliver_to_one = text.lower() == "true"
        elif key == TIMESTAMP_NAME and text.isascii() and text.isdigit() and len(text) <= _TIMESTAMP_DIGITS_MAX:
            timestamp_ms = min(int(text), TIME_MS_MAX)
    return Headers(
        partition_key=partition_key if partition_key else None,  # an empty key is no key
        key_hash=key_hash(partition_key) if partition_key else -1,
        priority=priority,
        payload_is_text=found.numbers.get(PAYLOAD_FORMAT_INDICATOR, 0) == 1,
        content_type=found.texts.get(CONTENT_TYPE),
        correlation=found.binaries.get(CORRELATION_DATA),
        reply_to=_reply_to(found.texts.get(RESPONSE_TOPIC)),
        message_id=message_id,
        timestamp_ms=timestamp_ms,
        deliver_to_one=deliver_to_one,
        user_properties=list[tuple[str, UserPropertyValue]](found.user) if found.user else None,
        native_format=NATIVE_MQTT5,
        native=native,
    )


def _checked_key(text: str) -> str:
    size = len(text.encode("utf-8"))
    if size > PARTITION_KEY_BYTES_MAX:
        raise PeerViolation(
            PAYLOAD_FORMAT_INVALID,
            f"{PARTITION_KEY_NAME} has {size} bytes, at most {PARTITION_KEY_BYTES_MAX} are allowed",
        )
    return text


def _reply_to(response_topic: str | None) -> str | None:
    if response_topic is None:
        return None
    if response_topic == "" or "+" in response_topic or "#" in response_topic:
        raise PeerViolation(PROTOCOL_ERROR, f"Response Topic {response_topic[:80]!r} is not a topic name [3.3.2-14]")
    if response_topic.startswith(_QUEUE_ADDRESS):
        return QUEUE_REPLY + response_topic[len(_QUEUE_ADDRESS) :]
    return response_topic


def encode_message_properties(headers: Headers, wall_ms: int) -> bytes:
    """Encode headers as the properties of a PUBLISH, without length; the expiry less the whole seconds waited."""
    carried = headers.native if headers.native_format == NATIVE_MQTT5 else _from_fields(headers)
    if headers.dead is not None:
        carried += _death(headers.dead)
    if headers.expires_at_ms == 0:
        return carried
    left_s = (max(headers.expires_at_ms - wall_ms, 0) + 999) // 1000  # [3.3.2-6]
    return number_property(MESSAGE_EXPIRY_INTERVAL, min(left_s, EXPIRY_S_MAX)) + carried


def _from_fields(headers: Headers) -> bytes:
    """Encode a message of another protocol. What no MQTT string can hold is left out."""
    parts: list[bytes] = []
    if headers.payload_is_text:
        parts.append(number_property(PAYLOAD_FORMAT_INDICATOR, 1))
    if headers.content_type is not None and fits_string(headers.content_type):
        parts.append(text_property(CONTENT_TYPE, headers.content_type))
    response_topic = _response_topic(headers.reply_to)
    if response_topic is not None:
        parts.append(text_property(RESPONSE_TOPIC, response_topic))
    if headers.correlation is not None and len(headers.correlation) <= STRING_BYTES_MAX:
        parts.append(binary_property(CORRELATION_DATA, headers.correlation))
    names: set[str] = set()
    if headers.user_properties is not None:
        for name, value in headers.user_properties:
            names.add(name)
            _append_user_property(parts, name, value)
    # A publisher's own property of the same name stays as it is.
    if headers.partition_key is not None and PARTITION_KEY_NAME not in names:
        _append_user_property(parts, PARTITION_KEY_NAME, headers.partition_key)
    if headers.priority != PRIORITY_DEFAULT and PRIORITY_NAME not in names:
        _append_user_property(parts, PRIORITY_NAME, headers.priority)
    if headers.message_id is not None and MESSAGE_ID_NAME not in names:
        _append_user_property(parts, MESSAGE_ID_NAME, headers.message_id)
    if headers.timestamp_ms != 0 and TIMESTAMP_NAME not in names:
        _append_user_property(parts, TIMESTAMP_NAME, headers.timestamp_ms)
    if headers.deliver_to_one and DELIVER_TO_ONE_NAME not in names:
        _append_user_property(parts, DELIVER_TO_ONE_NAME, True)
    return b"".join(parts)


def _death(dead: DeadLetter) -> bytes:
    """Encode why a message lies in a dead message queue. A publisher's own property of such a name is not touched."""
    parts: list[bytes] = []
    for name, value in dead.properties():
        _append_user_property(parts, name, value)
    return b"".join(parts)


def _append_user_property(parts: list[bytes], name: str, value: UserPropertyValue) -> None:
    if value is None:
        return
    text = property_text(value)
    if fits_string(name) and fits_string(text):
        parts.append(user_property(name, text))


def property_text(value: str | bytes | int | float | bool) -> str:
    """Return a typed property of another protocol as the text that MQTT has for it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _response_topic(reply_to: str | None) -> str | None:
    if reply_to is None:
        return None
    if reply_to.startswith(QUEUE_REPLY):
        reply_to = _QUEUE_ADDRESS + reply_to[len(QUEUE_REPLY) :]
    try:
        check_topic_name(reply_to)
    except TopicError:
        return None
    return reply_to


# The user properties in which a client of level 5 reads what its queue knows of a delivery.


PROPERTY_PARTITION: Final = "sluicegate-partition"
PROPERTY_FIRST_OF_GROUP: Final = "JMSXGroupFirstForConsumer"  # as ActiveMQ calls it
PROPERTY_REDELIVERED: Final = "sluicegate-redelivered"
PROPERTY_DELIVERY_COUNT: Final = "sluicegate-delivery-count"


def delivery_properties(partition: int, delivery: Delivery, *, is_named_queue: bool) -> list[tuple[str, str]] | None:
    """Return them in the order in which they are sent; None where there are none."""
    properties: list[tuple[str, str]] = []
    if is_named_queue:
        properties = [(PROPERTY_PARTITION, str(partition))]
        if delivery.redelivered:
            properties += [
                (PROPERTY_REDELIVERED, "true"),
                (PROPERTY_DELIVERY_COUNT, str(delivery.delivery_count)),
            ]
    if delivery.first_of_group:
        properties.append((PROPERTY_FIRST_OF_GROUP, "true"))
    return properties or None
