"""Addresses: the queue or topic that an address names, in the forms that clients of several brokers write.

A capability of the terminus decides. Without one the form does: `queue://NAME` and `topic://TOPIC` of Solace and
ActiveMQ, `dsub://TOPIC` of Solace, `/queues/NAME` and `/exchanges/amq.topic/KEY` of RabbitMQ 4, `ADDRESS::QUEUE` of
Artemis. Azure's clients write any of these as the path of a URL. A plain name is a queue.

A reply address is AMQP's `reply-to` with JMS's annotation. All protocols share one form of it: a topic, or a queue
behind `QUEUE_REPLY` (messaging.message.headers). An address that is unknown here, perhaps one of another broker, is
passed on as it is.
"""

from typing import Final, final
from urllib.parse import unquote

from sluicegate.messaging.message.headers import QUEUE_REPLY
from sluicegate.messaging.topics.syntax import (
    NO_EXPORT_FORMS,
    SHARE_FORMS,
    Destination,
    TopicError,
    check_published_topic,
    queue_topic,
)
from sluicegate.protocols.amqp.codec.delivery_states import DeliveryState, rejected
from sluicegate.protocols.amqp.types.errors import INVALID_FIELD, NOT_ALLOWED, NOT_IMPLEMENTED
from sluicegate.protocols.amqp.types.values import BYTE, AmqpValue, Scalar

QUEUE: Final = "queue"
TOPIC: Final = "topic"

QUEUE_CAPABILITIES: Final = ("queue", "temporary-queue")
TOPIC_CAPABILITIES: Final = ("topic", "temporary-topic")

# The annotations by which JMS clients say what kind `to` and `reply-to` are.
JMS_DESTINATION: Final = "x-opt-jms-dest"
JMS_REPLY_TO: Final = "x-opt-jms-reply-to"
_KINDS: Final = ("queue", "topic", "temporary-queue", "temporary-topic")  # by the annotation's number, as capabilities

_QUEUE_FORM: Final = "queue://"
_TOPIC_FORM: Final = "topic://"
_PREFIXES: Final = (
    (_QUEUE_FORM, QUEUE),
    (_TOPIC_FORM, TOPIC),
    ("temp-queue://", QUEUE),
    ("temp-topic://", TOPIC),
    ("dsub://", TOPIC),
)
_SUBSCRIPTIONS: Final = (*SHARE_FORMS, *NO_EXPORT_FORMS)  # begin addresses that are no queues
_URLS: Final = ("amqp://", "amqps://")  # what is behind the host is the address
DURABLE_FORM: Final = "dsub://"  # Solace: the durable subscription to a topic that is named by the link
_RABBIT_QUEUE: Final = "/queues/"
_RABBIT_TOPIC: Final = "/exchanges/amq.topic/"
_RABBIT_EXCHANGE: Final = "/exchanges/"
_QUEUE_OF: Final = "::"  # Artemis: a queue of an address, by its full name


@final
class AddressRefused(Exception):
    """An address that means nothing here. It carries the error condition for the peer."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition = condition
        self.text = text


@final
class AddressedNode:
    """What an address stands for."""

    __slots__ = ("kind", "name")

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind  # QUEUE or TOPIC
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AddressedNode) and other.kind == self.kind and other.name == self.name

    __hash__ = None  # type: ignore[assignment]  # compared in tests only

    def __repr__(self) -> str:
        return f"{self.kind} {self.name!r}"


def resolve(address: str, capabilities: list[str]) -> AddressedNode:
    """Return what an address stands for. Raises AddressRefused."""
    asked = _requested_kind(capabilities)
    kind, name = _by_form(address)
    if asked and kind and asked != kind:
        raise AddressRefused(NOT_ALLOWED, f"{address!r:.80} is a {kind}, and the terminus asks for a {asked}")
    if not name:
        raise AddressRefused(INVALID_FIELD, f"the address {address!r:.80} names nothing")
    return AddressedNode(kind or asked or QUEUE, name)


def is_durable_form(address: str) -> bool:
    """Return whether an address is of a durable subscription, whatever else its source says."""
    return address[: len(DURABLE_FORM)].lower() == DURABLE_FORM


def check_topic(name: str) -> None:
    """Raise AddressRefused unless messages can be published on the topic."""
    try:
        check_published_topic(name)
    except TopicError as error:
        raise AddressRefused(INVALID_FIELD, f"topic {error}") from None


def _requested_kind(capabilities: list[str]) -> str:
    for name in capabilities:
        if name in QUEUE_CAPABILITIES:
            return QUEUE
        if name in TOPIC_CAPABILITIES:
            return TOPIC
    return ""


def _by_form(address: str) -> tuple[str, str]:
    """Return the kind that the form of an address says, or nothing, and the name in it."""
    lower = address[:16].lower()
    if lower.startswith(_URLS):
        address = unquote(address.split("/", 3)[3]) if address.count("/") > 2 else ""
        lower = address[:16].lower()
    for prefix, kind in _PREFIXES:
        if lower.startswith(prefix):
            return kind, address[len(prefix) :]
    if address.startswith(_RABBIT_QUEUE):
        return QUEUE, unquote(address[len(_RABBIT_QUEUE) :])
    if address.startswith(_RABBIT_TOPIC):
        return TOPIC, unquote(address[len(_RABBIT_TOPIC) :]).replace(".", "/")
    if address.startswith(_RABBIT_EXCHANGE):
        raise AddressRefused(NOT_IMPLEMENTED, f"{address!r:.80}: there are no exchanges but amq.topic")
    if address.startswith(_SUBSCRIPTIONS):
        return TOPIC, address
    if _QUEUE_OF in address:
        return QUEUE, address.split(_QUEUE_OF, 1)[1]
    return "", address


def destination_of_message(to: str, kind: AmqpValue) -> Destination | DeliveryState:
    """Return where an anonymous sender's message goes, or the outcome that it has instead.

    `kind` is the value of JMS's annotation, None without one. It counts for a plain name only: a message that a client
    passes on to another address may have the annotation of the one that it came from.
    """
    try:
        says_kind = bool(_by_form(to)[0])
        return destination_of(resolve(to, [] if says_kind else _capabilities(kind)))
    except AddressRefused as refusal:
        return rejected(refusal.condition, refusal.text)


def destination_of(node: AddressedNode) -> Destination:
    """Return what a node is to a publisher. Raises AddressRefused."""
    if node.kind == QUEUE:
        return Destination(queue_topic(node.name), is_queue=True)
    check_topic(node.name)
    return Destination(node.name, is_queue=False)


def shared_reply_to(address: str, kind: AmqpValue) -> str:
    """Return the form of a reply-to that all protocols share; `kind` is the annotation's value, None without one."""
    try:
        node = resolve(address, _capabilities(kind))
    except AddressRefused:
        return address
    return QUEUE_REPLY + node.name if node.kind == QUEUE else node.name


def _capabilities(kind: AmqpValue) -> list[str]:
    """Return what a terminus of the kind would ask for; nothing if the annotation means nothing."""
    number = kind.value if isinstance(kind, Scalar) else None
    return [_KINDS[number]] if isinstance(number, int) and 0 <= number < len(_KINDS) else []


def reply_address(reply_to: str) -> tuple[str, AmqpValue]:
    """Return address and annotation for a reply-to in the form that all protocols share."""
    if reply_to.startswith(QUEUE_REPLY):
        return _QUEUE_FORM + reply_to[len(QUEUE_REPLY) :], Scalar(BYTE, 0)
    return _TOPIC_FORM + reply_to, Scalar(BYTE, 1)
