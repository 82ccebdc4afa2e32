"""What an AMQP sender said of durability (3.2.1), how it is stored, and what readers of earlier versions make of it."""

import pytest

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import NATIVE_AMQP
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.amqp.codec.sections import NOWHERE, find_sections
from sluicegate.protocols.amqp.messages.decode import (
    BODY_OPAQUE,
    MessageIn,
    body_bytes_of,
    native_is_durable,
    native_sections,
    native_travels,
    read_message,
)
from sluicegate.protocols.amqp.messages.encode import write_message
from sluicegate.protocols.amqp.messages.selector_fields import AmqpFields
from support.amqp.golden import golden

DURABLE = bytes.fromhex("005370c0020141")
NOT_DURABLE = bytes.fromhex("005370c0020142")
STRING = bytes.fromhex("005377a1026869")
LIST = bytes.fromhex("005377c00301541e")  # a body that has to be stored as it is
PROPERTIES = bytes.fromhex("005373c00501a1026d31")
FOOTER = bytes.fromhex("005378c10d02a307782d6f70742d61a10162")
MESSAGES = golden("messages.txt")


def bare(name: str) -> bytes:
    """Return a message of real clients from its message annotations on."""
    data = MESSAGES[name]
    return data[find_sections(data).travels_at :]


def came(data: bytes) -> tuple[MessageIn, bytes]:
    """Return a message that has been read, and its native form."""
    message = read_message(data, 0)
    assert message.headers is not None
    return message, message.headers.native


def written(message: MessageIn, *, kept: bool = True) -> bytes:
    """Return what a receiver gets. `kept`: the broker keeps the message until it is settled."""
    return write_message(
        message.payload, message.headers, topic="t", durable=kept, delivery_count=0, is_first=True, wall_ms=0
    )


def is_durable(data: bytes) -> bool:
    """Return what a message's header says; a receiver takes it for not durable if it says nothing."""
    at = find_sections(data).header_at
    return at != NOWHERE and data[at + 3] == 0x41


def sections_before_durability(native: bytes, payload: bytes) -> bytes:
    """Return the sections of a message as versions read them that stored no durability."""
    form, end = native[0], len(native)
    footer_bytes = int.from_bytes(native[1:5], "big")
    body_bytes = int.from_bytes(native[5:9], "big")
    footer_at = end - body_bytes - footer_bytes
    travels = native[9:footer_at]
    if form == BODY_OPAQUE:
        return travels + native[end - body_bytes :] + native[footer_at : end - body_bytes]
    return travels + body_bytes_of(form, payload) + (native[footer_at:] if footer_bytes else b"")


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("header", [DURABLE, NOT_DURABLE, b""], ids=["durable", "not durable", "no header"])
def test_a_receiver_gets_what_the_sender_said(name: str, header: bytes) -> None:
    """AMQP 3.2.1: absent means false. Whatever the body is, the other sections come as they were sent."""
    message, native = came(header + bare(name))
    assert native_is_durable(native) == is_durable(written(message)) == (header == DURABLE)
    assert native_sections(native, message.payload) == bare(name)
    assert sections_before_durability(native, message.payload) == bare(name)
    assert native_travels(native) == native_travels(came(DURABLE + bare(name))[1])


@pytest.mark.parametrize(
    ("data", "native"),
    [
        pytest.param(DURABLE + STRING, "02 00000000 00000000", id="durable"),
        pytest.param(STRING, "02 00000000 00000001 00", id="not durable"),
        pytest.param(
            PROPERTIES + STRING, "02 00000000 00000001 005373c00501a1026d31 00", id="not durable, with properties"
        ),
        pytest.param(DURABLE + LIST, "04 00000000 00000008 005377c00301541e", id="durable list"),
        pytest.param(LIST, "04 00000008 00000000 005377c00301541e", id="list"),
        pytest.param(
            DURABLE + STRING + FOOTER,
            "02 00000012 00000000 005378c10d02a307782d6f70742d61a10162",
            id="durable, with a footer",
        ),
        pytest.param(
            STRING + FOOTER,
            "04 00000019 00000000 005377a1026869 005378c10d02a307782d6f70742d61a10162",
            id="not durable, with a footer",
        ),
        pytest.param(FOOTER, "04 00000012 00000000 005378c10d02a307782d6f70742d61a10162", id="nothing but a footer"),
    ],
)
def test_the_native_form_is_stored_in_these_bytes(data: bytes, native: str) -> None:
    """Those of durable messages are what earlier versions stored for every message."""
    assert came(data)[1] == bytes.fromhex(native)


def test_a_direct_message_is_never_durable() -> None:
    """It is delivered at most once: nothing of it is kept."""
    message, _ = came(DURABLE + STRING)
    assert not is_durable(written(message, kept=False))


def test_an_annotation_that_is_added_leaves_the_durability() -> None:
    for header in (DURABLE, NOT_DURABLE):
        for sections in (STRING, PROPERTIES + STRING, LIST, STRING + FOOTER):
            native = came(header + sections)[1]
            added = AmqpFields().with_annotation(native, "x-opt-site", "north")
            assert native_is_durable(added) == (header == DURABLE)
            assert AmqpFields().annotation(added, "x-opt-site") == "north"


@pytest.mark.parametrize(
    ("header", "qos", "durable"),
    [
        (DURABLE, AT_LEAST_ONCE, True),
        (NOT_DURABLE, AT_LEAST_ONCE, False),
        (b"", AT_LEAST_ONCE, False),
        (b"", AT_MOST_ONCE, False),
    ],
)
def test_selectors_know_the_delivery_mode(header: bytes, qos: int, durable: bool) -> None:
    """JMS 2.0, 3.8.1.1: JMSDeliveryMode is PERSISTENT or NON_PERSISTENT; Artemis and Qpid have names of their own."""
    message, _ = came(header + STRING)
    batch = MessageBatch(
        topic="t",
        topics=None,
        payloads=[message.payload],
        headers=[message.headers],
        qos=qos,
        retain=False,
        publisher="c",
        received_ms=0,
        payload_bytes=len(message.payload),
    )
    selectors = Selectors({NATIVE_AMQP: AmqpFields()})
    for yes, no in (
        ("JMSDeliveryMode = 'PERSISTENT'", "JMSDeliveryMode = 'NON_PERSISTENT'"),
        ("AMQDurable = 'DURABLE'", "AMQDurable = 'NON_DURABLE'"),
        ("amqp.durable", "NOT amqp.durable"),
    ):
        assert selectors.compile(yes).matches(batch, 0) == durable
        assert selectors.compile(no).matches(batch, 0) == (not durable)
