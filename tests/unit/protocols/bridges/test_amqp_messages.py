"""Messages that cross an AMQP bridge, as Proton reads and writes them."""

import time
from typing import Any

import pytest
from proton import Message, symbol

from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.amqp.messages.decode import read_message
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.bridges.remote import Outgoing
from sluicegate.protocols.bridges.remotes.amqp_messages import MessageWriter, address_of, read

PATH = "node/default/b"


def written(payload: bytes, headers: Headers | None, address: str = "there", *, qos: int = 1) -> Any:
    """Return a message that goes out, as the foreign broker decodes it."""
    outgoing = Outgoing(
        number=1, rule=0, topic=address, payload=payload, headers=headers, path=PATH, qos=qos, retain=False
    )
    message = Message()
    message.decode(MessageWriter().write(outgoing, address))
    return message


def encoded(message: Message) -> bytes:
    """Return a message as Proton writes it."""
    return bytes(message.encode())


def passed_on(message: Message, address: str = "there", *, qos: int = 1) -> Any:
    """Return what becomes of a message that an AMQP client has published here and a bridge takes along."""
    came = read_message(encoded(message), time.time_ns() // 1_000_000)
    return written(came.payload, came.headers, address, qos=qos)


def test_a_message_without_properties_has_its_address_and_its_path() -> None:
    message = written(b"payload", None)
    assert (message.body, message.address, message.properties) == (b"payload", "there", {"Sluicegate-Path": PATH})
    assert (message.durable, message.first_acquirer, message.ttl) == (True, True, 0)
    assert not written(b"payload", None, qos=0).durable


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_of_amqp_is_durable_if_its_rule_has_qos_whatever_its_sender_said(qos: int, durable: bool) -> None:
    """A broker that confirms a message and restarts may lose it if it is not durable."""
    assert passed_on(Message(body="x", durable=durable), qos=qos).durable == (qos > 0)


def test_a_message_of_another_protocol_has_its_fields() -> None:
    headers = Headers(
        partition_key="line-7",
        expires_at_ms=time.time_ns() // 1_000_000 + 60_000,
        priority=7,
        content_type="text/x",
        correlation=b"c",
        reply_to="answers",
        message_id="m",
        user_properties=[("unit", "K"), ("subject", "s")],
    )
    message = written(b"payload", headers)
    assert (message.group_id, message.subject, message.priority) == ("line-7", "s", 7)
    assert (message.content_type, message.correlation_id, message.id) == ("text/x", "c", "m")
    assert message.reply_to == "topic://answers"
    assert 50 < message.ttl <= 60
    assert message.properties == {"unit": "K", "Sluicegate-Path": PATH}
    assert headers.user_properties == [("unit", "K"), ("subject", "s")]


def test_an_amqp_message_keeps_all_but_its_address_and_its_path() -> None:
    """3.2: the body and the annotations go on in the types in which they came."""
    original: Any = Message(
        body={"a": [1, 2.5], "b": symbol("c")},
        address="here",
        subject="s",
        group_id="g",
        group_sequence=3,
        user_id=b"u",
        properties={"n": 1, "Sluicegate-Path": "an older one"},
        annotations={symbol("x-opt-note"): "kept"},
    )
    message = passed_on(original)
    assert message.body == original.body
    assert (message.subject, message.group_id, message.group_sequence, message.user_id) == ("s", "g", 3, b"u")
    assert message.annotations == {"x-opt-note": "kept"}
    assert message.address == "there"
    assert message.properties == {"n": 1, "Sluicegate-Path": PATH}


@pytest.mark.parametrize("fields", [{}, {"subject": "s"}, {"properties": {"n": 1}}, {"address": "there"}])
def test_sections_that_an_amqp_message_lacks_are_added(fields: dict[str, Any]) -> None:
    message = passed_on(Message(body="text", **fields))
    assert (message.body, message.address) == ("text", "there")
    assert message.properties["Sluicegate-Path"] == PATH
    assert message.subject == fields.get("subject")


def test_a_delay_that_was_kept_here_is_not_kept_again() -> None:
    annotations = {symbol("x-opt-delivery-delay"): 5000, symbol("x-opt-note"): "kept"}
    assert passed_on(Message(body=b"1", annotations=annotations)).annotations == {"x-opt-note": "kept"}


def test_a_message_that_arrives_has_its_key_and_what_is_left_to_it() -> None:
    message = Message(body=b"payload", address="topic://a.b", group_id="g", ttl=60, properties={"n": 1})
    payload, headers, topic = read(encoded(message), "topic://a.*")
    assert (payload, topic) == (b"payload", "topic://a.b")
    assert headers is not None
    assert headers.partition_key == "g"
    assert 50_000 < headers.expires_at_ms - time.time_ns() // 1_000_000 <= 60_000
    assert headers.user_properties is not None
    assert ("n", 1) in headers.user_properties


def test_jmsxgroupid_is_a_key_as_well() -> None:
    _, headers, _ = read(encoded(Message(body=b"1", properties={"JMSXGroupID": "g"})), "q")
    assert headers is not None
    assert headers.partition_key == "g"


@pytest.mark.parametrize(
    ("source", "to", "topic"),
    [
        ("a.*", "topic://a.b", "a.b"),  # ActiveMQ tells the kind even where the source does not
        ("topic://a/#", "a/b", "topic://a/b"),  # Sluicegate, of messages of other protocols
        ("topic://a.*", "topic://a.b", "topic://a.b"),
        ("/topic/a.*", "/topic/a.b", "/topic/a.b"),  # RabbitMQ 3
        ("q", "queue://q", "q"),
        ("q", None, "q"),
        ("/queues/q", "/exchanges/amq.topic/a.b", "a.b"),
    ],
)
def test_the_topic_of_a_message_has_the_form_of_its_source(source: str, to: str | None, topic: str) -> None:
    assert read(encoded(Message(body=b"1", address=to)), source)[2] == topic


def test_rabbitmq_says_the_topic_in_an_annotation() -> None:
    annotations = {symbol("x-exchange"): "amq.topic", symbol("x-routing-key"): "a.b"}
    assert read(encoded(Message(body=b"1", annotations=annotations)), "q")[2] == "a.b"


def test_names_in_addresses_of_rabbitmq_4_are_percent_encoded() -> None:
    assert address_of("/exchanges/amq.topic/a b.c/d") == "/exchanges/amq.topic/a%20b.c%2Fd"
    assert address_of("topic://a b") == "topic://a b"


def test_what_is_no_message_is_said() -> None:
    with pytest.raises(DecodeError):
        read(b"\x00\x53\x74\x45", "q")
    with pytest.raises(DecodeError, match="group-id of more than 255 bytes"):
        read(encoded(Message(body=b"1", group_id="g" * 256)), "q")
