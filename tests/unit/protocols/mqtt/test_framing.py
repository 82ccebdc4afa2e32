"""Packets cut from a stream: first bytes, lengths, direction, partial arrival (mqtt sections 1, 2, 13; T001 ff)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.mqtt.codec.events import ConnectReceived, PeerViolated, PublishReceived
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.codec.wire_batch import WireBatch
from support.mqtt.conversation import Conversation, all_rows, connected, only

LEVELS = (3, 4, 5)


def expect_end(conversation: Conversation, reason_code: int) -> None:
    """The version's answer to a violation after CONNACK [4.13.1-1] [311:4.8.0-1], and silence behind it."""
    assert conversation.violation().reason_code == reason_code
    said = conversation.said()
    assert said == conversation.violation().answer
    if conversation.level == 5:
        (packet,) = mqtt.packets_of(said)
        assert mqtt.server_disconnect(packet).reason_code == reason_code
    else:
        assert said == b""
    assert conversation.hears(mqtt.pingreq()) == []
    assert conversation.said() == b""


@pytest.mark.parametrize("first", [mqtt.pingreq(), mqtt.publish(), mqtt.disconnect(), b"\x11", b"\xf0", b"\0", b"G"])
def test_anything_but_connect_first_ends_the_connection_without_a_word(first: bytes) -> None:
    """T001 [3.1.0-1]."""
    conversation = Conversation()
    conversation.hears(first)

    assert conversation.violation().reason_code == 0x82
    assert conversation.said() == b""


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (b"\x16\x03\x01\x02\x00", "first byte 0x16, as TLS begins, where CONNECT has to be [3.1.0-1]"),
        (b"GET / HTTP/1.1\r\n", "first byte 0x47, as HTTP begins, where CONNECT has to be [3.1.0-1]"),
        (b"AMQP\x03\x01\x00\x00", "first byte 0x41, as AMQP begins, where CONNECT has to be [3.1.0-1]"),
        (mqtt.pingreq(), "PINGREQ packet (first byte 0xC0) comes before CONNECT [3.1.0-1]"),
    ],
)
def test_protocols_on_the_wrong_port_are_named(first: bytes, told: str) -> None:
    """[3.1.0-1]; for the log, as the client hears nothing."""
    conversation = Conversation()
    conversation.hears(first)
    assert conversation.violation().text == told


@pytest.mark.parametrize("level", LEVELS)
def test_a_second_connect_is_a_protocol_error(level: int) -> None:
    """T003 [3.1.0-2]."""
    conversation = connected(level)
    conversation.hears(mqtt.connect("c1", level=level))

    expect_end(conversation, 0x82)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "first_byte", [0xC1, 0xC2, 0x41, 0x51, 0x60, 0x64, 0x71, 0x80, 0xA0, 0xE1, 0x00, 0x0F, 0x36, 0x3F]
)
def test_wrong_flags_are_malformed_on_the_first_byte_alone(level: int, first_byte: int) -> None:
    """T030, T033, T069 [2.1.3-1]."""
    conversation = connected(level)
    conversation.hears(bytes([first_byte]))

    expect_end(conversation, 0x81)


@pytest.mark.parametrize("level", LEVELS)
def test_dup_with_qos_0_is_malformed(level: int) -> None:
    """T069 [3.3.1-2]."""
    conversation = connected(level)
    conversation.hears(mqtt.publish(level=level), mqtt.publish(level=level, dup=True))

    assert len(all_rows(conversation.events)) == 1
    expect_end(conversation, 0x81)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("packet", [b"\x20\x02\0\0", b"\x90\x03\0\x01\0", b"\xb0\x02\0\x01", b"\xd0\0"])
def test_packets_of_a_server_are_a_protocol_error(level: int, packet: bytes) -> None:
    """T031."""
    conversation = connected(level)
    conversation.hears(packet)

    expect_end(conversation, 0x82)


@pytest.mark.parametrize("level", [3, 4])
def test_auth_does_not_exist_before_5_0(level: int) -> None:
    """T033."""
    conversation = connected(level)
    conversation.hears(b"\xf0\0")

    expect_end(conversation, 0x81)


@pytest.mark.parametrize(
    ("first_byte", "accepted"), [(0x8A, True), (0xAA, True), (0x6A, True), (0x8B, False), (0x6E, False)]
)
def test_3_1_alone_may_repeat_with_dup(first_byte: int, accepted: bool) -> None:
    """Section 6: DUP is named for SUBSCRIBE, UNSUBSCRIBE and PUBREL."""
    body = b"\0\x01" + (b"" if first_byte == 0x6A else b"\0\x01a") + (b"\0" if first_byte >> 4 == 8 else b"")
    packet = mqtt.packet(first_byte, body)

    assert isinstance(connected(3).hears(packet)[0], PeerViolated) is not accepted
    assert isinstance(connected(4).hears(packet)[0], PeerViolated)
    assert isinstance(connected(5).hears(packet)[0], PeerViolated)


@pytest.mark.parametrize("level", LEVELS)
def test_pingreq_is_answered_by_the_engine(level: int) -> None:
    """T032 [3.12.4-1]."""
    conversation = connected(level)

    assert conversation.hears(mqtt.pingreq(), mqtt.pingreq()) == []
    assert conversation.said() == b"\xd0\0\xd0\0"
    conversation.hears(b"\xc0\x01")  # the byte itself need not come
    expect_end(conversation, 0x81)


def test_a_fifth_length_byte_is_malformed_before_it_comes() -> None:
    """T011."""
    for level in LEVELS:
        for first_byte in (0x30, 0x32, 0x40, 0x82, 0xC0, 0xE0):
            conversation = connected(level)
            conversation.hears(bytes([first_byte]) + b"\xff\xff\xff")
            assert conversation.events == []
            conversation.hears(b"\xff")
            expect_end(conversation, 0x81)


def test_a_fifth_length_byte_of_connect_ends_the_connection() -> None:
    """T011, before any version is known."""
    conversation = Conversation()
    conversation.hears(b"\x10\xff\xff\xff\xff")

    assert conversation.violation().reason_code == 0x81
    assert conversation.said() == b""


def test_5_0_wants_the_remaining_length_in_its_shortest_form() -> None:
    """[1.5.5-1]; 3.x clients may pad it."""
    padded = {4: b"\x30\x83\0\0\x01a", 5: b"\x30\x84\0\0\x01a\0"}
    three = connected(4)
    assert all_rows(three.hears(padded[4]))[0].fields[2] == "a"
    five = connected(5)
    five.hears(padded[5])
    expect_end(five, 0x81)


def test_a_padded_length_is_not_handed_on_as_it_came() -> None:
    """[1.5.5-1]: the ready encoding would be malformed for others."""
    (event,) = connected(4).hears(b"\x30\x83\0\0\x01a")

    assert isinstance(event, PublishReceived)
    assert not isinstance(event.batch, WireBatch)


@pytest.mark.parametrize("level", LEVELS)
def test_a_packet_that_is_too_large_is_refused_by_its_header(level: int) -> None:
    """T036: before the body was read; 3.x just closes."""
    limits = MqttLimits(packet_bytes_max=100, connect_bytes_max=100)
    for first_byte in (0x30, 0x32, 0x82, 0xA2, 0xE0, 0x40):
        conversation = connected(level, limits=limits)
        conversation.hears(bytes([first_byte, 99]))
        too_long_for_3x = level < 5 and first_byte == 0x40
        expect_end(conversation, 0x81 if too_long_for_3x else 0x95)


@pytest.mark.parametrize("level", LEVELS)
def test_a_packet_of_exactly_the_maximum_is_read(level: int) -> None:
    """T036: the maximum counts the whole packet with its fixed header."""
    conversation = connected(level, limits=MqttLimits(packet_bytes_max=100, connect_bytes_max=100))
    size = 100 - len(mqtt.publish("t", b"", level=level))
    packet = mqtt.publish("t", b"x" * size, level=level)

    assert len(packet) == 100
    assert len(all_rows(conversation.hears(packet))) == 1


def test_an_oversized_connect_is_refused_before_anything_is_known() -> None:
    """Section 1: the limit holds before memory is taken."""
    conversation = Conversation(limits=MqttLimits(connect_bytes_max=50))
    conversation.hears(b"\x10\x40")

    assert conversation.violation().reason_code == 0x95
    assert conversation.said() == b""


@pytest.mark.parametrize("level", LEVELS)
def test_a_connect_in_single_bytes_is_read(level: int) -> None:
    """T012."""
    conversation = Conversation()
    for byte in mqtt.connect("slow", level=level, will=mqtt.WillPart(), user_name="u"):
        conversation.hears(bytes([byte]))

    assert only(ConnectReceived, conversation.events).client_id == "slow"


def test_a_large_payload_in_small_reads_is_one_message() -> None:
    """T081."""
    conversation = connected(5)
    payload = bytes(range(256)) * 4096
    data = mqtt.publish("big", payload, level=5)
    for start in range(0, len(data), 1000):
        conversation.hears(data[start : start + 1000])

    (row,) = all_rows(conversation.events)
    assert row.fields[3] == payload


def test_events_before_a_violation_are_reported() -> None:
    """Section 13: what was right is not taken back by what follows."""
    conversation = connected(4)
    events = conversation.hears(mqtt.publish("a"), mqtt.publish("b", qos=1), mqtt.subscribe(("f", 0)), b"\xc1\0")

    assert [type(event).__name__ for event in events] == [
        "PublishReceived",
        "PublishReceived",
        "SubscribeReceived",
        "PeerViolated",
    ]


def test_packets_behind_connect_are_reported_with_it() -> None:
    """T013: a client need not wait for CONNACK."""
    conversation = Conversation()
    events = conversation.hears(mqtt.connect("c1"), mqtt.subscribe(("f", 0)), mqtt.publish("a"), mqtt.pingreq())

    assert [type(event).__name__ for event in events] == ["ConnectReceived", "SubscribeReceived", "PublishReceived"]
    assert conversation.said() == b""
    conversation.engine.accept(False)
    assert conversation.said() == b"\x20\x02\0\0\xd0\0"  # CONNACK before anything else [3.2.0-1]


@pytest.mark.parametrize(("level", "answer"), [(4, b""), (5, None)])
def test_a_violation_before_connack_refuses_the_connect(level: int, answer: bytes | None) -> None:
    """[3.14.0-1]: no DISCONNECT before CONNACK."""
    conversation = Conversation()
    events = conversation.hears(mqtt.connect("c1", level=level), mqtt.publish(level=level), b"\xc1")
    assert [type(event).__name__ for event in events] == ["PeerViolated"]  # what is refused is not processed [3.1.4-6]

    said = conversation.said()
    if answer is None:
        assert mqtt.connack(mqtt.packets_of(said)[0], 5).reason_code == 0x81
    else:
        assert said == answer
    assert not conversation.engine.accept(False)  # too late, and no mistake of the caller
    assert conversation.said() == b""


def test_a_client_gets_its_disconnect_without_text_when_it_is_too_small_for_it() -> None:
    """[3.14.2-3]: the Reason String goes first."""
    conversation = connected(5, properties=mqtt.maximum_packet_size(20))
    conversation.hears(b"\xc1")

    assert conversation.said() == b"\xe0\x01\x81"
