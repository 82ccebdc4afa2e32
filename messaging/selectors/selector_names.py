"""What a name in a selector means: a header, under its name in JMS, Artemis or AMQP, or a user property.

JMS lets a selector ask for six headers; the others are what ActiveMQ and Artemis have beyond it. Names of what changes
from delivery to delivery are refused: a selector is about the message, and one that was passed over is not looked at
again.
"""

from collections.abc import Mapping
from typing import Final

from sluicegate.messaging.message import native_fields
from sluicegate.messaging.message.native_fields import NativeFields
from sluicegate.messaging.selectors import operands as selector_operands
from sluicegate.messaging.selectors.lexer import SelectorError
from sluicegate.messaging.selectors.operands import Annotation, Header, Name, NativeField, Property

ANNOTATION_PREFIX: Final = "m."
AMQP_PREFIX: Final = "amqp."

HEADERS: Final[dict[str, int]] = {
    "JMSDeliveryMode": selector_operands.DELIVERY_MODE,
    "JMSPriority": selector_operands.PRIORITY,
    "JMSMessageID": selector_operands.MESSAGE_ID,
    "JMSTimestamp": selector_operands.TIMESTAMP,
    "JMSCorrelationID": selector_operands.CORRELATION_ID,
    "JMSExpiration": selector_operands.EXPIRATION,
    "JMSDestination": selector_operands.DESTINATION,
    "x_destination": selector_operands.CURRENT_DESTINATION,  # of a copy, where that went
    "JMSReplyTo": selector_operands.REPLY_TO,
    "JMSXGroupID": selector_operands.GROUP_ID,
    "AMQDurable": selector_operands.DURABLE_TEXT,
    "AMQPriority": selector_operands.PRIORITY,
    "AMQUserID": selector_operands.MESSAGE_ID,  # so Artemis calls the id that a publisher gave
    "AMQTimestamp": selector_operands.TIMESTAMP,
    "AMQExpiration": selector_operands.EXPIRATION,
    "AMQAddress": selector_operands.ADDRESS,
    "AMQGroupID": selector_operands.GROUP_ID,
    "AMQSize": selector_operands.SIZE,
    "amqp.durable": selector_operands.DURABLE,
    "amqp.priority": selector_operands.PRIORITY,
    "amqp.message-id": selector_operands.MESSAGE_ID,
    "amqp.correlation-id": selector_operands.CORRELATION_ID,
    "amqp.reply-to": selector_operands.REPLY_TO,
    "amqp.content-type": selector_operands.CONTENT_TYPE,
    "amqp.absolute-expiry-time": selector_operands.EXPIRY_TIME,
    "amqp.creation-time": selector_operands.CREATION_TIME,
    "amqp.group-id": selector_operands.GROUP_ID,
}
NATIVE_FIELDS: Final[dict[str, str]] = {
    "JMSType": native_fields.SUBJECT,
    "JMSXUserID": native_fields.USER_ID,
    "JMSXGroupSeq": native_fields.GROUP_SEQUENCE,
} | {AMQP_PREFIX + field: field for field in native_fields.FIELDS}
OF_DELIVERIES: Final = frozenset(
    {
        "JMSRedelivered",
        "JMSXDeliveryCount",
        "JMSXRcvTimestamp",
        "JMSXConsumerTXID",
        "JMSXState",
        "JMSXGroupFirstForConsumer",
        "amqp.delivery-count",
        "amqp.first-acquirer",
        "amqp.redelivered",
        "amqp.ttl",
    }
)


def operand_of(name: str, at: int, natives: Mapping[int, NativeFields]) -> Name:
    """Return what a name means that stands at an index of the selector. Raises SelectorError."""
    known = name.replace("_", "-") if name.startswith(AMQP_PREFIX) else name  # `amqp.group_id` needs no quotes
    if known in HEADERS:
        return Header(name, HEADERS[known])
    if known in NATIVE_FIELDS:
        return NativeField(name, NATIVE_FIELDS[known], natives)
    if known in OF_DELIVERIES:
        raise SelectorError(f"{name} is of a delivery, not of the message", at=at, allowed="what stays as it is")
    if name.startswith(ANNOTATION_PREFIX):
        return Annotation(name, name[len(ANNOTATION_PREFIX) :], natives)
    if name.startswith(AMQP_PREFIX):
        fields = sorted(each for each in [*HEADERS, *NATIVE_FIELDS] if each.startswith(AMQP_PREFIX))
        raise SelectorError(f"{name!r} is no field of AMQP", at=at, allowed=", ".join(fields))
    return Property(name)
