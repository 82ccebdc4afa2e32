"""Reply addresses: AMQP's address and JMS's annotation, to and from the form that all protocols share.

That form is a topic, or a queue behind `QUEUE_REPLY` (messaging.message.headers). An address that is unknown here,
perhaps one of another broker, is passed on as it is.
"""

from typing import Final

from sluicegate.messaging.message.headers import QUEUE_REPLY
from sluicegate.protocols.amqp.codec.addresses import QUEUE, AddressRefused, resolve
from sluicegate.protocols.amqp.types.values import BYTE, AmqpValue, Scalar

JMS_REPLY_TO: Final = "x-opt-jms-reply-to"  # the annotation by which JMS clients say what kind `reply-to` is

_QUEUE_FORM: Final = "queue://"
_TOPIC_FORM: Final = "topic://"
_KINDS: Final = ("queue", "topic", "temporary-queue", "temporary-topic")  # by the annotation's number, as capabilities


def shared_reply_to(address: str, kind: AmqpValue) -> str:
    """Return the form of a reply-to that all protocols share; `kind` is the annotation's value, None without one."""
    number = kind.value if isinstance(kind, Scalar) else None
    capabilities = [_KINDS[number]] if isinstance(number, int) and 0 <= number < len(_KINDS) else []
    try:
        node = resolve(address, capabilities)
    except AddressRefused:
        return address
    return QUEUE_REPLY + node.name if node.kind == QUEUE else node.name


def reply_address(reply_to: str) -> tuple[str, AmqpValue]:
    """Return address and annotation for a reply-to in the form that all protocols share."""
    if reply_to.startswith(QUEUE_REPLY):
        return _QUEUE_FORM + reply_to[len(QUEUE_REPLY) :], Scalar(BYTE, 0)
    return _TOPIC_FORM + reply_to, Scalar(BYTE, 1)
