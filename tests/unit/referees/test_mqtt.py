"""The referee of MQTT finds what it is there for: each case is a conversation whose last packet is against a rule."""

import re

import pytest

import support.mqtt.packets as mqtt
from support.referees.exchange import Step, client, gateway, hears
from support.referees.mqtt.connection import MqttReferee
from support.referees.mqtt.deliveries import Sessions
from support.referees.violations import WireViolation


def publish(
    packet_id: int = 1,
    *,
    topic: str = "a/b",
    payload: bytes = b"payload",
    qos: int = 1,
    dup: bool = False,
    properties: bytes = b"",
) -> bytes:
    return mqtt.publish(topic, payload, level=5, qos=qos, packet_id=packet_id, dup=dup, properties=properties)


def connack(code: int = 0, *, flags: int = 0, properties: bytes = b"") -> bytes:
    return mqtt.packet(0x20, bytes([flags, code]) + mqtt.section(5, properties))


def suback(*codes: int, packet_id: int = 1) -> bytes:
    return mqtt.packet(0x90, mqtt.u16(packet_id) + mqtt.section(5, b"") + bytes(codes))


def connect(*, clean_start: bool = True) -> bytes:
    properties = mqtt.receive_maximum(2) + mqtt.topic_alias_maximum(1) + mqtt.maximum_packet_size(100)
    properties += mqtt.request_problem_information(0)
    return mqtt.connect("c", level=5, clean_start=clean_start, properties=properties)


SUBSCRIBE = mqtt.subscribe(("a/+", 1), level=5, properties=mqtt.subscription_identifier(7))
SEVEN = mqtt.subscription_identifier(7)
BEGINNING = client(connect()) + gateway(connack()) + client(SUBSCRIBE) + gateway(suback(1))
EXACTLY_ONCE = client(mqtt.subscribe(("a/+", 2), packet_id=2, level=5)) + gateway(suback(2, packet_id=2))
RESUMES = client(connect(clean_start=False)) + gateway(connack(flags=1))


def judge(*connections: list[Step]) -> None:
    sessions = Sessions()
    for steps in connections:
        hears(MqttReferee(sessions), steps)


FOULS: dict[str, tuple[str, list[Step]]] = {
    "a second CONNACK": ("3.2.0-2", gateway(connack())),
    "a packet of a client": ("2.1.2", gateway(mqtt.pingreq())),
    "reserved flags": ("2.1.3-1", gateway(b"\xd1\x00")),
    "a length with a byte too many": ("1.5.5-1", gateway(b"\xd0\x80\x00")),
    "a packet larger than the client takes": ("3.1.2-24", gateway(publish(payload=bytes(100), properties=SEVEN))),
    "something behind DISCONNECT": ("3.14.4-1", gateway(mqtt.disconnect(0x8B), b"\xd0\x00")),
    "a DISCONNECT with a code of clients": ("2.4", gateway(mqtt.disconnect(4))),
    "an answer to no PINGREQ": ("3.12.4-1", gateway(b"\xd0\x00")),
    "an answer to no SUBSCRIBE": ("3.8.4-2", gateway(suback(1, packet_id=3))),
    "a code for each filter": ("3.9.3-1", client(SUBSCRIBE) + gateway(suback(1, 1))),
    "more than was asked for": ("3.8.4-8", client(SUBSCRIBE) + gateway(suback(2))),
    "QoS 3": ("3.3.1-4", gateway(b"\x36\x06\x00\x01a\x00\x01\x00")),
    "the packet id 0": ("2.2.1-3", gateway(publish(0, properties=SEVEN))),
    "a packet id in use": ("2.2.1-4", gateway(publish(properties=SEVEN), publish(properties=SEVEN))),
    "more than Receive Maximum": ("3.3.4-9", gateway(*[publish(each, properties=SEVEN) for each in (1, 2, 3)])),
    "DUP of a first delivery": ("3.3.1-1", gateway(publish(dup=True, properties=SEVEN))),
    "DUP at QoS 0": ("3.3.1-2", gateway(publish(qos=0, dup=True, properties=SEVEN))),
    "a higher QoS than was granted": ("3.8.4-8", gateway(publish(qos=2, properties=SEVEN))),
    "a topic that nobody asked for": ("3.3.4", gateway(publish(topic="b", properties=SEVEN))),
    "a subscription identifier of none": ("3.3.4-3", gateway(publish(properties=mqtt.subscription_identifier(8)))),
    "no subscription identifier": ("3.3.4-3", gateway(publish())),
    "a topic with a wildcard": ("3.3.2-2", gateway(publish(topic="a/+", properties=SEVEN))),
    "a topic with U+0000": ("1.5.4-2", gateway(publish(topic="a/\0", properties=SEVEN))),
    "an alias above the maximum": ("3.1.2-26", gateway(publish(properties=SEVEN + mqtt.topic_alias(2)))),
    "an alias that stands for nothing": ("3.3.2-8", gateway(publish(topic="", properties=SEVEN + mqtt.topic_alias(1)))),
    "a property twice": ("2.2.2.2", gateway(publish(properties=2 * mqtt.message_expiry(1)))),
    "a property of CONNACK": ("2.2.2.2", gateway(publish(properties=mqtt.receive_maximum(1)))),
    "a reason string that is not wanted": (
        "3.1.2-29",
        client(publish()) + gateway(mqtt.acknowledgement(mqtt.PUBACK, 1, 0x97, mqtt.reason_string("no"))),
    ),
    "PUBACK of nothing": ("4.6.0-2", gateway(mqtt.puback(1))),
    "PUBACK out of turn": ("4.6.0-2", client(publish(1), publish(2)) + gateway(mqtt.puback(2))),
    "PUBCOMP without PUBREL": ("4.3.3", client(publish(qos=2)) + gateway(mqtt.pubrec(1), mqtt.pubcomp(1))),
    "PUBREL without PUBREC": ("4.3.3", EXACTLY_ONCE + gateway(publish(qos=2), mqtt.pubrel(1))),
    "PUBREL out of turn": (
        "4.6.0-4",
        EXACTLY_ONCE
        + gateway(publish(1, qos=2), publish(2, qos=2))
        + client(mqtt.pubrec(1), mqtt.pubrec(2))
        + gateway(mqtt.pubrel(2)),
    ),
}


@pytest.mark.parametrize("what", FOULS)
def test_a_foul_is_called_with_its_statement(what: str) -> None:
    statement, steps = FOULS[what]
    judge(BEGINNING)
    with pytest.raises(WireViolation, match=re.escape(statement)):
        judge(BEGINNING + steps)


@pytest.mark.parametrize(
    ("statement", "steps"),
    [
        ("3.1.0-1", gateway(connack())),
        ("3.2.0-1", client(connect()) + gateway(mqtt.disconnect(0x8B))),
        ("3.2.2-7", client(connect()) + gateway(connack(0x87), mqtt.disconnect(0x8B))),
        ("3.2.2-2", client(connect()) + gateway(connack(flags=1))),
        ("3.2.2-16", client(connect()) + gateway(connack(properties=mqtt.text_property(18, "other")))),
        ("2.1.2", client(mqtt.connect("c")) + gateway(b"\x20\x02\x00\x00", mqtt.disconnect(0x8B))),
    ],
)
def test_a_connection_begins_by_the_rules(statement: str, steps: list[Step]) -> None:
    with pytest.raises(WireViolation, match=re.escape(statement)):
        judge(steps)


@pytest.mark.parametrize(
    ("statement", "again"),
    [
        ("4.4.0-1", publish(qos=2, dup=True, payload=b"other")),
        ("4.3.3", publish(qos=2, payload=b"other")),
        ("3.3.1-1", publish(qos=2)),
    ],
)
def test_resent_messages_are_unchanged(statement: str, again: bytes) -> None:
    first = BEGINNING + EXACTLY_ONCE + gateway(publish(qos=2))
    judge(first, RESUMES + gateway(publish(qos=2, dup=True)))
    with pytest.raises(WireViolation, match=re.escape(statement)):
        judge(first, RESUMES + gateway(again))


def test_messages_sent_before_a_restart_come_again_under_their_id() -> None:
    """A crash forgets the ids of QoS 1: meanwhile another message had this one."""
    judge(RESUMES + gateway(publish()), RESUMES + gateway(publish(dup=True, payload=b"other")))
    with pytest.raises(WireViolation, match=r"4\.4\.0-1"):
        judge(BEGINNING + gateway(publish(properties=SEVEN)), RESUMES + gateway(publish(dup=True, payload=b"other")))


def test_released_messages_do_not_come_again() -> None:
    """[4.3.3-6]: released by PUBREL. A PUBREC that was not read, as the connection ended, releases nothing."""
    sent = BEGINNING + EXACTLY_ONCE + gateway(publish(qos=2)) + client(mqtt.pubrec(1))
    judge(sent, RESUMES + gateway(publish(qos=2, dup=True)))
    judge(sent, RESUMES + gateway(mqtt.pubrel(1)) + client(mqtt.pubcomp(1)) + gateway(publish(qos=2)))
    with pytest.raises(WireViolation, match=r"4\.3\.3-6"):
        judge(sent + gateway(mqtt.pubrel(1)), RESUMES + gateway(publish(qos=2, dup=True)))


SUBSCRIBED = client(mqtt.connect("c", level=5)) + gateway(connack())


def subscribed(options: int, text: str = "a/+") -> list[Step]:
    """A client that subscribes by some options."""
    return SUBSCRIBED + client(mqtt.subscribe((text, options), level=5)) + gateway(suback(options & 3))


def published(*said: bytes) -> list[Step]:
    """A client that publishes."""
    return client(mqtt.connect("p", level=5)) + gateway(connack()) + client(*said)


def retained(data: bytes) -> bytes:
    return bytes([data[0] | 1]) + data[1:]


NO_LOCAL, AS_PUBLISHED, NEVER_RETAINED = 4, 8, 32  # options of SUBSCRIBE
SAID = mqtt.text_property(8, "answers") + mqtt.user_property("a", "1") + mqtt.user_property("a", "2")
TWISTED = mqtt.text_property(8, "answers") + mqtt.user_property("a", "2") + mqtt.user_property("a", "1")


@pytest.mark.parametrize(
    ("statement", "options", "first", "came"),
    [
        ("3.3.1-8", 1, publish(), retained(publish())),
        ("3.3.1-11", 1 + NEVER_RETAINED, retained(publish()), retained(publish())),
        ("3.3.1-13", 1 + AS_PUBLISHED, retained(publish()), publish()),
        ("3.3.2-15", 1, publish(properties=SAID), publish(properties=TWISTED)),
        ("3.3.2-15", 1, publish(), publish(properties=mqtt.text_property(8, "answers"))),
        ("3.3.2-6", 1, publish(properties=mqtt.message_expiry(9)), publish(properties=mqtt.message_expiry(10))),
        ("3.3.2-6", 1, publish(properties=mqtt.message_expiry(9)), publish()),
    ],
)
def test_delivered_messages_equal_the_published_ones(statement: str, options: int, first: bytes, came: bytes) -> None:
    same = retained(first) if options & AS_PUBLISHED else bytes([first[0] & ~1]) + first[1:]
    judge(published(first), subscribed(options) + gateway(same))
    with pytest.raises(WireViolation, match=re.escape(statement)):
        judge(published(first), subscribed(options) + gateway(came))


def test_no_local_keeps_a_message_from_its_publisher() -> None:
    """[3.8.3-3]."""
    judge(subscribed(1) + client(publish(5)) + gateway(publish()))
    with pytest.raises(WireViolation, match=r"3\.8\.3-3"):
        judge(subscribed(1 + NO_LOCAL) + client(publish(5)) + gateway(publish()))


def test_messages_of_a_publisher_come_in_its_order() -> None:
    """[4.6.0-6]: of one topic and QoS."""
    one, two, other = publish(1, payload=b"1"), publish(2, payload=b"2"), publish(3, topic="a/c", payload=b"3")
    judge(published(one, other, two), subscribed(1) + gateway(other, one, two))
    with pytest.raises(WireViolation, match=r"4\.6\.0-6"):
        judge(published(one, two), subscribed(1) + gateway(two, one))


def test_subscription_identifiers_are_those_of_all_that_match() -> None:
    """[3.3.4-4]."""
    eight = mqtt.subscription_identifier(8)
    both = BEGINNING + client(mqtt.subscribe(("a/#", 1), packet_id=2, level=5, properties=eight))
    both += gateway(suback(1, packet_id=2)) + client(publish(5))
    judge(both + gateway(publish(properties=SEVEN + eight)))
    with pytest.raises(WireViolation, match=r"3\.3\.4-4"):
        judge(both + gateway(publish(properties=SEVEN)))


def test_messages_published_twice_are_not_judged() -> None:
    judge(published(publish(), retained(publish(2))), subscribed(1) + gateway(retained(publish()), publish(2)))


def test_permitted_exchanges_are_no_violations() -> None:
    alias = mqtt.topic_alias(1) + SEVEN
    judge(
        BEGINNING
        + gateway(publish(properties=alias), publish(2, topic="", properties=alias))
        + client(mqtt.puback(1), publish(5), publish(6, qos=2), mqtt.pingreq())
        + gateway(publish(3, properties=SEVEN), mqtt.pubrec(6), mqtt.puback(5, 0x10), b"\xd0\x00")
        + client(mqtt.pubrel(6), mqtt.unsubscribe("a/+", packet_id=9, level=5))
        + gateway(mqtt.pubcomp(6), mqtt.packet(0xB0, mqtt.u16(9) + b"\0\0"), mqtt.disconnect(0x8E))
    )
