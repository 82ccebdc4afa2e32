"""What addresses mean (3.5.1 leaves it to us): the forms that clients of several brokers write."""

import pytest

from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.topics.syntax import Destination
from sluicegate.protocols.amqp.codec.addresses import (
    JMS_REPLY_TO,
    QUEUE,
    TOPIC,
    AddressedNode,
    AddressRefused,
    destination_of_message,
    resolve,
)
from sluicegate.protocols.amqp.codec.delivery_states import DeliveryState
from sluicegate.protocols.amqp.codec.sections import MESSAGE_ANNOTATIONS, PROPERTIES
from sluicegate.protocols.amqp.limits import MIN_MAX_FRAME_SIZE
from sluicegate.protocols.amqp.messages.decode import read_message
from sluicegate.protocols.amqp.messages.encode import write_message
from sluicegate.protocols.amqp.types.encoding import encode, encode_composite
from sluicegate.protocols.amqp.types.values import BYTE, AmqpMap, Scalar, Symbol


@pytest.mark.parametrize(
    ("address", "capabilities"),
    [
        ("a", []),
        ("a", ["queue"]),
        ("queue://a", []),
        ("QUEUE://a", ["queue"]),
        ("/queues/a", []),
        ("x::a", []),
        ("temp-queue://a", []),
        ("amqps://broker.example/a", []),
        ("amqp://broker.example:5672/queue://a", []),
    ],
)
def test_a_queue_has_many_forms(address: str, capabilities: list[str]) -> None:
    """Case 60: all of them are one queue."""
    assert resolve(address, capabilities) == AddressedNode(QUEUE, "a")


@pytest.mark.parametrize(
    ("address", "capabilities"),
    [
        ("a/b", ["topic"]),
        ("topic://a/b", []),
        ("Topic://a/b", ["topic"]),
        ("/exchanges/amq.topic/a.b", []),
        ("a/b", ["temporary-topic"]),
        ("amqp://broker.example/topic%3A%2F%2Fa/b", []),
    ],
)
def test_a_topic_has_many_forms(address: str, capabilities: list[str]) -> None:
    """Case 60: all of them are one topic."""
    assert resolve(address, capabilities) == AddressedNode(TOPIC, "a/b")


def test_parts_of_a_path_are_percent_encoded() -> None:
    """Case 61: so a queue's name may hold a slash."""
    assert resolve("/queues/a%2Fb", []) == AddressedNode(QUEUE, "a/b")
    assert resolve("amqps://h/a%20b", []) == AddressedNode(QUEUE, "a b")


@pytest.mark.parametrize(
    ("address", "capabilities", "condition"),
    [
        ("queue://a", ["topic"], "amqp:not-allowed"),
        ("topic://a", ["queue"], "amqp:not-allowed"),
        ("", [], "amqp:invalid-field"),
        ("queue://", [], "amqp:invalid-field"),
        ("amqps://host", [], "amqp:invalid-field"),
        ("amqps://host/", [], "amqp:invalid-field"),
        ("/exchanges/other/key", [], "amqp:not-implemented"),
    ],
)
def test_an_address_that_means_nothing_is_refused(address: str, capabilities: list[str], condition: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        resolve(address, capabilities)
    assert refused.value.condition == condition


@pytest.mark.parametrize("to", ["topic://" + "+" * 100_000, "/exchanges/" + "x" * 100_000])
def test_a_refusal_of_a_long_address_fits_into_any_frame(to: str) -> None:
    """2.7.1: the smallest that a peer may take has 512 bytes; the reason is still there."""
    refusal = destination_of_message(to, None)
    assert isinstance(refusal, DeliveryState)
    assert refusal.error is not None
    assert len(refusal.encode()) < MIN_MAX_FRAME_SIZE - 50
    assert refusal.error.description.endswith(("allowed: at most 65535 bytes of UTF-8", "no exchanges but amq.topic"))


@pytest.mark.parametrize(
    ("to", "kind", "topic"),
    [
        ("orders", None, "$queue/orders"),
        ("orders", 0, "$queue/orders"),
        ("orders/eu", 1, "orders/eu"),
        ("#P2P/QTMP/1", 2, "$queue/#P2P/QTMP/1"),
        ("answers", 3, "answers"),
        ("orders", 9, "$queue/orders"),  # no kind has that number
        ("queue://orders", 1, "$queue/orders"),  # passed on, with the annotation of where it came from
        ("topic://orders/eu", 0, "orders/eu"),
    ],
)
def test_a_message_of_jms_says_what_kind_its_destination_is(to: str, kind: int | None, topic: str) -> None:
    """AMQP JMS mapping, x-opt-jms-dest: JMS sends over a link without an address whatever has no fixed destination."""
    found = destination_of_message(to, None if kind is None else Scalar(BYTE, kind))
    assert isinstance(found, Destination)
    assert (found.topic, found.is_queue) == (topic, topic.startswith("$queue/"))


def message(reply_to: str, kind: int | None = None) -> bytes:
    """Return a message that wants its reply there, with JMS's annotation of the kind if one is given."""
    properties = encode_composite(PROPERTIES, [None, None, None, None, reply_to])
    if kind is None:
        return properties
    return (
        bytes((0, 0x53, MESSAGE_ANNOTATIONS))
        + encode(AmqpMap([(Symbol(JMS_REPLY_TO), Scalar(BYTE, kind))]))
        + properties
    )


@pytest.mark.parametrize(
    ("reply_to", "kind", "shared"),
    [
        ("answers", None, "#q/answers"),  # as everywhere in AMQP, a plain name is a queue
        ("answers", 0, "#q/answers"),
        ("answers/here", 1, "answers/here"),
        ("#P2P/QTMP/1", 2, "#q/#P2P/QTMP/1"),
        ("answers", 3, "answers"),
        ("queue://answers", None, "#q/answers"),
        ("topic://answers/here", None, "answers/here"),
        ("/queues/a%2Fb", None, "#q/a/b"),
        ("/exchanges/amq.topic/a.b", None, "a/b"),
        ("any::answers", None, "#q/answers"),
        ("amqp://elsewhere/topic%3A%2F%2Fa", None, "a"),
        ("/exchanges/fanout", None, "/exchanges/fanout"),  # means nothing here, and is passed on
        ("topic://a", 0, "topic://a"),  # says two things
        ("answers", 9, "#q/answers"),
    ],
)
def test_a_reply_address_has_the_form_that_all_protocols_share(reply_to: str, kind: int | None, shared: str) -> None:
    """The cross-protocol table: a topic, or a queue as `#q/NAME`."""
    headers = read_message(message(reply_to, kind), 0).headers
    assert headers is not None
    assert headers.reply_to == shared
    assert headers.user_properties is None  # what the annotation says is said


@pytest.mark.parametrize(
    ("shared", "address", "kind"),
    [("answers/here", "topic://answers/here", 1), ("#q/answers", "queue://answers", 0)],
)
def test_a_reply_address_of_another_protocol_says_what_kind_it_is(shared: str, address: str, kind: int) -> None:
    """By its form for AMQP clients, by the annotation for those of JMS; read again it is the same."""
    written = write_message(
        b"", Headers(reply_to=shared), topic="t", durable=False, delivery_count=0, is_first=True, wall_ms=0
    )
    assert address.encode() in written
    assert encode(Symbol(JMS_REPLY_TO)) + Scalar(BYTE, kind).kind.to_bytes(1, "big") + bytes((kind,)) in written
    headers = read_message(written, 0).headers
    assert headers is not None
    assert headers.reply_to == shared


def test_a_message_of_amqp_keeps_the_reply_address_it_came_with() -> None:
    """AMQP 3.2: the bare message does not change."""
    sent = message("answers", 2)
    found = read_message(sent, 0)
    assert write_message(
        b"", found.headers, topic="t", durable=False, delivery_count=0, is_first=True, wall_ms=0
    ).endswith(sent)
