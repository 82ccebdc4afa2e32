"""What selectors read of AMQP messages: every section that travels, under the names of JMS, Artemis and AMQP."""

from typing import Final

import pytest

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import NATIVE_AMQP, SUBJECT
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.amqp.codec.sections import (
    APPLICATION_PROPERTIES,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    VALUE,
)
from sluicegate.protocols.amqp.messages.decode import read_message
from sluicegate.protocols.amqp.messages.selector_fields import AmqpFields
from sluicegate.protocols.amqp.types.encoding import encode, encode_composite
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Symbol, timestamp, ubyte, uint

WALL_MS: Final = 1_700_000_000_000


def section(code: int, value: AmqpValue) -> bytes:
    return bytes((0x00, 0x53, code)) + encode(value)


HEADER_SECTION: Final = encode_composite(HEADER, [True, ubyte(7)])
ANNOTATIONS: Final = section(MESSAGE_ANNOTATIONS, AmqpMap([(Symbol("x-opt-site"), "north"), (Symbol("key"), uint(3))]))
PROPERTIES_SECTION: Final = encode_composite(
    PROPERTIES,
    [
        "ID:1",
        b"james",
        "queue://orders",
        "order",
        "answers",
        b"\xff\x01",
        Symbol("text/plain"),
        Symbol("gzip"),
        timestamp(WALL_MS + 60_000),
        timestamp(WALL_MS - 5),
        "group-1",
        uint(12),
        "group-2",
    ],
)
APPLICATION_SECTION: Final = section(
    APPLICATION_PROPERTIES, AmqpMap([("color", "red"), ("weight", 2501), ("x-y", True)])
)
BODY: Final = section(VALUE, "payload")


def batch(data: bytes) -> MessageBatch:
    message = read_message(data, WALL_MS)
    return MessageBatch(
        topic="$queue/orders",
        topics=None,
        payloads=[message.payload],
        headers=[message.headers],
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="c",
        received_ms=WALL_MS,
        payload_bytes=len(message.payload),
    )


@pytest.mark.parametrize(
    "text",
    [
        "color = 'red' AND weight > 2500",
        '"x-y"',
        "JMSMessageID = 'ID:1' AND amqp.message_id = 'ID:1'",
        "JMSXUserID = 'james' AND amqp.user_id = 'james'",
        "amqp.to = 'queue://orders'",
        "JMSDestination = 'queue://orders' AND AMQAddress = 'orders'",
        "JMSType = 'order' AND amqp.subject LIKE 'ord%'",
        "JMSReplyTo = '#q/answers' AND amqp.reply_to = '#q/answers'",
        "JMSCorrelationID = 'ID:AMQP_BINARY:FF01'",
        "amqp.content_type = 'text/plain' AND \"amqp.content-encoding\" = 'gzip'",
        f"JMSExpiration = {WALL_MS + 60_000} AND amqp.absolute_expiry_time = JMSExpiration",
        f"JMSTimestamp = {WALL_MS - 5}",
        "JMSXGroupID = 'group-1' AND JMSXGroupSeq = 12 AND amqp.reply_to_group_id = 'group-2'",
        "JMSPriority = 7 AND JMSDeliveryMode = 'PERSISTENT'",
        "\"m.x-opt-site\" = 'north' AND m.key = 3 AND m.other IS NULL",
    ],
)
def test_a_selector_finds_every_field_of_an_amqp_message(text: str) -> None:
    """AMQP 1.0 JMS Mapping; Artemis for annotations."""
    selectors = Selectors({NATIVE_AMQP: AmqpFields()})
    whole = batch(HEADER_SECTION + ANNOTATIONS + PROPERTIES_SECTION + APPLICATION_SECTION + BODY)

    assert selectors.compile(text).matches(whole, 0)
    assert not selectors.compile(f"NOT ({text})").matches(whole, 0)


@pytest.mark.parametrize("sections", [b"", ANNOTATIONS, APPLICATION_SECTION, encode_composite(PROPERTIES, ["ID:1"])])
def test_absent_fields_of_an_amqp_message_are_null(sections: bytes) -> None:
    text = "JMSType IS NULL AND JMSXUserID IS NULL AND amqp.to IS NULL AND JMSXGroupSeq IS NULL AND m.none IS NULL"
    selector = Selectors({NATIVE_AMQP: AmqpFields()}).compile(text)

    assert selector.matches(batch(sections + BODY), 0)


def test_a_user_id_that_is_no_text_equals_none() -> None:
    selectors = Selectors({NATIVE_AMQP: AmqpFields()})
    message = batch(encode_composite(PROPERTIES, [None, b"\xff\xfe"]) + BODY)

    assert selectors.compile("JMSXUserID IS NOT NULL").matches(message, 0)
    assert not selectors.compile("JMSXUserID = 'x'").matches(message, 0)


def test_a_message_that_is_asked_for_many_names_is_read_once() -> None:
    """A selector may have hundreds, and a message annotations that take milliseconds to decode."""
    fields = AmqpFields()
    first, second = (batch(ANNOTATIONS + PROPERTIES_SECTION + BODY).headers_of(0) for _ in range(2))
    assert first is not None
    assert second is not None
    read = fields.annotation(first.native, "x-opt-site")
    subject = fields.field(first.native, SUBJECT)

    assert read == "north"
    assert fields.annotation(first.native, "x-opt-site") is read
    assert fields.field(first.native, SUBJECT) is subject
    assert fields.annotation(second.native, "x-opt-site") is not read


def test_who_asks_for_a_property_does_not_wait_for_annotations() -> None:
    """They may have megabytes. These cannot be decoded, which no message that was taken has."""
    headers = batch(ANNOTATIONS + PROPERTIES_SECTION + BODY).headers_of(0)
    assert headers is not None
    broken = headers.native.replace(encode("north"), b"\x3f" + encode("north")[1:])

    assert AmqpFields().field(broken, SUBJECT) == "order"
    with pytest.raises(DecodeError):
        AmqpFields().annotation(broken, "x-opt-site")
