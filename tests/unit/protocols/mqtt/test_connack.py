"""Answers to CONNECT (mqtt sections 4, 5.5; T018, T115)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.mqtt.codec.limits import PACKET_BYTES_CEILING, MqttLimits
from sluicegate.protocols.mqtt.codec.reason_codes import LocalMisuse
from support.mqtt.conversation import Conversation, connected


def asking(
    level: int = 5, properties: bytes = b"", client_id: str = "c1", limits: MqttLimits | None = None
) -> Conversation:
    conversation = Conversation(level, limits)
    conversation.hears(mqtt.connect(client_id, level=level, properties=properties))
    return conversation


@pytest.mark.parametrize(
    ("level", "session_present", "expected"),
    [(3, True, b"\x20\x02\0\0"), (4, True, b"\x20\x02\x01\0"), (4, False, b"\x20\x02\0\0")],
)
def test_connack_of_3_1_1_has_session_present_and_that_of_3_1_has_not(
    level: int, session_present: bool, expected: bytes
) -> None:
    conversation = asking(level)
    conversation.engine.accept(session_present, server_keep_alive_s=5)

    assert conversation.said() == expected


def test_connack_of_5_0_has_what_differs_from_the_defaults() -> None:
    limits = MqttLimits(packet_bytes_max=PACKET_BYTES_CEILING, receive_maximum=65_535, topic_alias_maximum=0)
    conversation = Conversation(5, limits)
    conversation.hears(mqtt.connect("c1", level=5))
    conversation.engine.accept(True)

    assert conversation.said() == b"\x20\x03\x01\x00\x00"


def test_all_properties_of_connack_are_written() -> None:
    """Section 5.5."""
    limits = MqttLimits(
        receive_maximum=20, topic_alias_maximum=3, packet_bytes_max=1000, connect_bytes_max=1000, maximum_qos=1,
        retain_available=False,
    )  # fmt: skip
    conversation = asking(client_id="", limits=limits)
    conversation.engine.accept(False, assigned_client_id="auto-1", server_keep_alive_s=0, session_expiry_s=60)

    answer = mqtt.connack(conversation.packets()[0], 5)
    assert (answer.reason_code, answer.session_present) == (0, False)
    assert dict(answer.properties) == {
        17: 60, 33: 20, 36: 1, 37: 0, 39: 1000, 18: "auto-1", 34: 3, 19: 0,
    }  # fmt: skip


def test_announced_limits_hold_from_then_on() -> None:
    conversation = asking(limits=MqttLimits(packet_bytes_max=50, connect_bytes_max=50))
    conversation.engine.accept(False)
    conversation.hears(b"\x30\x31")

    assert conversation.violation().reason_code == 0x95


@pytest.mark.parametrize(
    ("reason_code", "return_code"),
    [(0x84, 1), (0x85, 2), (0x88, 3), (0x89, 3), (0x97, 3), (0x9F, 3), (0x86, 5), (0x87, 5), (0x8A, 5), (0x8C, 5)],
)
def test_a_refusal_has_the_nearest_code_of_3_x(reason_code: int, return_code: int) -> None:
    """Section 4: the five return codes."""
    conversation = asking(4)
    conversation.engine.refuse(reason_code, "no")

    assert conversation.said() == bytes([0x20, 2, 0, return_code])
    assert conversation.hears(mqtt.publish()) == []


@pytest.mark.parametrize(("level", "expected"), [(3, b"\x20\x02\0\x04"), (4, b"\x20\x02\0\x05")])
def test_a_wrong_password_has_another_return_code_in_3_1_than_in_3_1_1(level: int, expected: bytes) -> None:
    """[311:3.2.2-4]: 3.1.1 keeps 4 for names and passwords that are malformed, 3.1 has it for wrong ones."""
    conversation = asking(level)
    conversation.engine.refuse(0x86, "no")

    assert conversation.said() == expected


@pytest.mark.parametrize("reason_code", [0x81, 0x82, 0x90, 0x95, 0x99, 0x9A, 0x9B])
def test_a_refusal_that_3_x_has_no_word_for_is_a_close(reason_code: int) -> None:
    """[311:3.1.4-1]."""
    conversation = asking(4)
    conversation.engine.refuse(reason_code)

    assert conversation.said() == b""


def test_5_0_is_told_why() -> None:
    conversation = asking()
    conversation.engine.refuse(0x9D, "moved")

    answer = mqtt.connack(conversation.packets()[0], 5)
    assert (answer.reason_code, answer.value(31)) == (0x9D, "moved")


@pytest.mark.parametrize(("maximum", "expected"), [(5, b"\x20\x03\0\x87\0"), (4, b"")])
def test_a_refusal_fits_into_the_packet_size_of_the_client(maximum: int, expected: bytes) -> None:
    """[3.2.2-19]: without the text, and if that is still too large, by closing alone."""
    conversation = asking(properties=mqtt.maximum_packet_size(maximum))
    conversation.engine.refuse(0x87, "no")

    assert conversation.said() == expected


@pytest.mark.parametrize(("maximum", "accepted"), [(16, True), (15, False)])
def test_a_client_that_takes_no_packet_as_large_as_its_connack_hears_nothing(maximum: int, accepted: bool) -> None:
    """[3.1.2-24]: what CONNACK tells of the server cannot be left out, so the connection ends."""
    conversation = asking(properties=mqtt.maximum_packet_size(maximum))

    assert conversation.engine.accept(False) is accepted
    assert len(conversation.said()) == (16 if accepted else 0)
    assert bool(conversation.hears(mqtt.publish(level=5))) is accepted


def test_request_problem_information_does_not_silence_connack_and_disconnect() -> None:
    """T115 [3.1.2-29]: those two may carry a Reason String anyway; no other packet of ours ever does."""
    conversation = connected(5, properties=mqtt.request_problem_information(0))
    conversation.engine.acknowledge(mqtt.PUBACK, 1, 1, 0x87)
    conversation.engine.suback(2, [0x87])
    conversation.engine.unsuback(3, [0x87])
    assert conversation.said() == mqtt.puback(1, 0x87) + b"\x90\x04\0\x02\0\x87" + b"\xb0\x04\0\x03\0\x87"

    conversation.engine.disconnect(0x98, "bye")
    assert mqtt.server_disconnect(conversation.packets()[0]).value(31) == "bye"


def test_there_is_one_connack() -> None:
    """[3.2.0-2]."""
    conversation = connected()
    with pytest.raises(LocalMisuse):
        conversation.engine.accept(False)
    with pytest.raises(LocalMisuse):
        conversation.engine.refuse(0x87)


def test_nothing_but_auth_precedes_connack() -> None:
    """[3.2.0-1]."""
    engine = asking().engine
    with pytest.raises(LocalMisuse):
        engine.publish_direct(mqtt.publish())
    with pytest.raises(LocalMisuse):
        engine.acknowledge(mqtt.PUBACK, 1, 1)


def test_a_client_without_id_is_given_one() -> None:
    """[3.1.3-6]."""
    with pytest.raises(LocalMisuse):
        asking(client_id="").engine.accept(False)


@pytest.mark.parametrize("reason_code", [0x00, 0x8D, 0x8E, 0x93])
def test_a_refusal_that_must_not_be_sent_is_our_mistake(reason_code: int) -> None:
    """[3.2.2-8]."""
    with pytest.raises(LocalMisuse):
        asking().engine.refuse(reason_code)
