"""Where a reply goes, from AMQP to every protocol and back."""

import pytest

from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.amqp.codec.sections import MESSAGE_ANNOTATIONS, PROPERTIES
from sluicegate.protocols.amqp.messages.decode import read_message
from sluicegate.protocols.amqp.messages.encode import write_message
from sluicegate.protocols.amqp.messages.reply_to import JMS_REPLY_TO
from sluicegate.protocols.amqp.types.encoding import encode, encode_composite
from sluicegate.protocols.amqp.types.values import BYTE, AmqpMap, Scalar, Symbol


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
