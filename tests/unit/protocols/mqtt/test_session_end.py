"""DISCONNECT in both directions, keep alive, timeouts (mqtt sections 7, 13; T002, T050 to T052, T116)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.mqtt.codec.events import DisconnectReceived
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.codec.reason_codes import LocalMisuse
from support.mqtt.conversation import Conversation, connected, only

LEVELS = (3, 4, 5)


@pytest.mark.parametrize("level", LEVELS)
def test_disconnect_is_reported_and_nothing_after_it(level: int) -> None:
    """T116 [3.14.4-1]."""
    conversation = connected(level)
    event = only(DisconnectReceived, conversation.hears(mqtt.disconnect(), mqtt.publish(level=level), b"\xff"))

    assert event == DisconnectReceived(0, -1)
    conversation.engine.acknowledge(mqtt.PUBACK, 1, 1)
    conversation.engine.disconnect(0x8B)
    assert conversation.said() == b""
    assert conversation.hears(mqtt.pingreq()) == []


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        (mqtt.disconnect(0), (0, -1)),
        (mqtt.disconnect(4), (4, -1)),
        (mqtt.disconnect(0x80, b""), (0x80, -1)),
        (mqtt.disconnect(0, mqtt.session_expiry(0)), (0, 0)),
        (mqtt.disconnect(0, mqtt.session_expiry(5) + mqtt.reason_string("bye")), (0, 5)),
    ],
)
def test_the_forms_of_a_5_0_disconnect_are_read(packet: bytes, expected: tuple[int, int]) -> None:
    """Section 2: the short forms."""
    conversation = connected(5, properties=mqtt.session_expiry(60))

    assert only(DisconnectReceived, conversation.hears(packet)) == expected


@pytest.mark.parametrize(
    ("packet", "reason_code"),
    [
        (mqtt.disconnect(0x01), 0x81),  # [3.14.2-1]
        (mqtt.disconnect(0x8E), 0x81),  # the server's alone
        (mqtt.disconnect(0, mqtt.session_expiry(5)), 0x82),  # T044: CONNECT had none
        (mqtt.disconnect(0, mqtt.session_expiry(0) * 2), 0x82),
        (mqtt.disconnect(0, mqtt.text_property(28, "other")), 0x81),
        (b"\xe0\x03\0\0\0", 0x81),
    ],
)
def test_a_wrong_disconnect_is_answered(packet: bytes, reason_code: int) -> None:
    conversation = connected(5)
    conversation.hears(packet)

    assert conversation.violation().reason_code == reason_code
    assert mqtt.server_disconnect(conversation.packets()[0]).reason_code == reason_code


@pytest.mark.parametrize("level", [3, 4])
def test_a_3_x_disconnect_has_no_body(level: int) -> None:
    conversation = connected(level)
    conversation.hears(b"\xe0\x01\x00")

    assert conversation.violation().reason_code == 0x81


def test_our_disconnect_says_why_to_5_0_and_nothing_to_3_x() -> None:
    """[3.14.0-1], section 13."""
    five, three = connected(5), connected(4)
    for each in (five, three):
        each.engine.disconnect(0x9C, "elsewhere")

    answer = mqtt.server_disconnect(five.packets()[0])
    assert (answer.reason_code, answer.value(31)) == (0x9C, "elsewhere")
    assert three.said() == b""
    assert five.hears(mqtt.pingreq()) == three.hears(mqtt.pingreq()) == []


@pytest.mark.parametrize(("reason_code", "refusal"), [(0x97, 0x97), (0x8B, 0x80)])
def test_there_is_no_disconnect_before_connack(reason_code: int, refusal: int) -> None:
    """[3.14.0-1]: who waits for CONNACK is refused, with a code that it may have [3.2.2-8]."""
    five, three = Conversation(5), Conversation(4)
    for conversation, level in ((five, 5), (three, 4)):
        conversation.hears(mqtt.connect(level=level))
        conversation.engine.disconnect(reason_code, "why")

    [packet] = five.packets()
    assert packet.body == bytes((0, refusal, 6)) + mqtt.reason_string("why")
    assert three.said() == b"\x20\x02\x00\x03"


@pytest.mark.parametrize("reason_code", [0x04, 0x86, 0x91, 0x100])
def test_a_disconnect_that_must_not_be_sent_is_our_mistake(reason_code: int) -> None:
    with pytest.raises(LocalMisuse):
        connected(5).engine.disconnect(reason_code)


def test_silence_before_connect_ends_the_connection() -> None:
    """T002."""
    conversation = Conversation(limits=MqttLimits(connect_timeout_ms=10_000))
    assert conversation.waits(9_999) == []
    conversation.hears(b"\x10\x50")  # half a packet is silence

    assert len(conversation.waits(1)) == 1
    assert conversation.violation().answer == b""


def test_a_connect_that_waits_for_us_does_not_run_out() -> None:
    conversation = Conversation()
    conversation.hears(mqtt.connect(keep_alive_s=1))

    assert conversation.waits(60_000) == []


@pytest.mark.parametrize("level", LEVELS)
def test_keep_alive_runs_out_after_one_and_a_half_times(level: int) -> None:
    """T050 [3.1.2-22]."""
    conversation = connected(level, keep_alive_s=2)
    assert conversation.waits(2_999) == []

    assert len(conversation.waits(1)) == 1
    assert conversation.violation().reason_code == 0x8D
    assert [packet.first_byte for packet in conversation.packets()] == ([0xE0] if level == 5 else [])


def test_any_whole_packet_keeps_the_connection_alive() -> None:
    """T051; half a packet does not, nor does what we send (T052)."""
    conversation = connected(keep_alive_s=2)
    for packet in (mqtt.pingreq(), mqtt.publish(), mqtt.puback(1), mqtt.subscribe(("a", 0))):
        assert conversation.waits(2_000) == []
        conversation.hears(packet)
    assert conversation.waits(2_000) == []
    conversation.hears(b"\x30\x20")
    conversation.engine.publish_direct(mqtt.publish())

    assert len(conversation.waits(1_000)) == 1


@pytest.mark.parametrize("is_placed", [False, True])
def test_a_large_packet_that_is_coming_keeps_the_connection_alive(is_placed: bool) -> None:
    """[3.1.2-22]: its client is at work, and cannot say PINGREQ in between. One that stops sending is silent."""
    conversation = connected(keep_alive_s=2)
    packet = mqtt.publish("t", bytes(1 << 20), qos=1)
    hears = (lambda data: conversation.reads(data, len(data))) if is_placed else conversation.hears
    hears(packet[:1000])
    for start in range(1000, 901_000, 100_000):
        assert conversation.waits(2_000) == []
        hears(packet[start : start + 100_000])

    assert len(conversation.waits(3_000)) == 1


@pytest.mark.parametrize("is_placed", [False, True])
def test_a_large_connect_that_is_coming_has_no_longer_for_it(is_placed: bool) -> None:
    """What nobody knows yet costs us memory for `mqtt.connect_timeout_s`, however slowly it sends."""
    conversation = Conversation()
    packet = mqtt.connect("c", will=mqtt.WillPart(payload=bytes(65_000)), password=bytes(65_000), user_name="u")
    hears = (lambda data: conversation.reads(data, len(data))) if is_placed else conversation.hears
    hears(packet[:1000])
    for start in range(1000, 9000, 1000):
        assert conversation.waits(1_000) == []
        hears(packet[start : start + 1000])

    assert len(conversation.waits(2_000)) == 1


def test_keep_alive_zero_never_runs_out() -> None:
    """T051."""
    assert connected().waits(10**9) == []


def test_the_keep_alive_of_the_server_replaces_the_clients() -> None:
    """[3.2.2-21] [3.2.2-22]."""
    conversation = Conversation(5)
    conversation.hears(mqtt.connect(level=5, keep_alive_s=0))
    conversation.engine.accept(False, server_keep_alive_s=10)

    assert mqtt.connack(conversation.packets()[0], 5).value(19) == 10
    assert conversation.waits(14_999) == []
    assert len(conversation.waits(1)) == 1


def test_time_without_reads_does_not_count_as_the_client_s_silence() -> None:
    conversation = connected(keep_alive_s=2)
    for _ in range(10):
        conversation.now_ms += 2_000
        conversation.engine.alive(conversation.now_ms)

    assert conversation.waits(2_999) == []
    assert len(conversation.waits(1)) == 1
