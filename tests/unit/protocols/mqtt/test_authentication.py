"""The exchange of AUTH packets (mqtt section 15; T113, T114)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.mqtt.codec.events import AuthReceived, ConnectReceived
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.codec.reason_codes import LocalMisuse
from support.mqtt.conversation import Conversation, connected, only


def asking(method: str = "SCRAM", limits: MqttLimits | None = None, properties: bytes = b"") -> Conversation:
    """A conversation behind a CONNECT with a method."""
    conversation = Conversation(5, limits)
    properties += mqtt.authentication_method(method) + mqtt.authentication_data(b"first")
    event = only(ConnectReceived, conversation.hears(mqtt.connect("c1", level=5, properties=properties)))
    assert (event.authentication_method, event.authentication_data) == (method, b"first")
    conversation.events.clear()
    return conversation


def live() -> Conversation:
    """A conversation whose authentication has succeeded."""
    conversation = asking()
    conversation.engine.accept(False, authentication_method="SCRAM")
    conversation.said()
    return conversation


def test_auth_goes_to_and_fro_until_connack() -> None:
    """T114 [4.12.0-2]."""
    conversation = asking()
    conversation.engine.auth(0x18, "SCRAM", b"challenge")
    assert conversation.said() == mqtt.auth(0x18, "SCRAM", b"challenge")
    assert only(AuthReceived, conversation.hears(mqtt.auth(0x18, "SCRAM", b"proof"))) == (0x18, "SCRAM", b"proof")

    conversation.engine.accept(False, authentication_method="SCRAM", authentication_data=b"final")

    answer = mqtt.connack(conversation.packets()[0], 5)
    assert (answer.reason_code, answer.value(21), answer.value(22)) == (0, "SCRAM", b"final")  # [4.12.0-5]


@pytest.mark.parametrize("packet", [mqtt.publish(level=5), mqtt.pingreq(), mqtt.subscribe(("a", 0), level=5)])
def test_only_auth_and_disconnect_may_come_before_connack(packet: bytes) -> None:
    """[3.1.2-30]."""
    conversation = asking()
    conversation.hears(packet)

    assert conversation.violation().reason_code == 0x82
    assert mqtt.connack(conversation.packets()[0], 5).reason_code == 0x82


@pytest.mark.parametrize(
    ("packet", "reason_code"),
    [
        (mqtt.auth(0x18), 0x82),  # nothing was asked
        (mqtt.auth(0x19), 0x82),  # in the middle of authentication
        (mqtt.auth(0x00), 0x82),  # the server's alone
        (b"\xf0\x00", 0x82),
        (mqtt.auth(0x18, "OTHER"), 0x82),  # [4.12.0-5]
        (mqtt.auth(0x18, None), 0x82),
        (mqtt.auth(0x01), 0x81),  # [3.15.2-1]
        (b"\xf0\x01\x18", 0x81),
        (mqtt.packet(0xF0, b"\x18\0\0"), 0x81),
    ],
)
def test_a_wrong_auth_before_connack_refuses_the_connect(packet: bytes, reason_code: int) -> None:
    conversation = asking()
    conversation.hears(packet)

    assert conversation.violation().reason_code == reason_code
    assert mqtt.connack(conversation.packets()[0], 5).reason_code == reason_code


def test_auth_without_a_method_in_connect_is_a_protocol_error() -> None:
    """T113 [4.12.0-7]."""
    conversation = connected(5)
    conversation.hears(mqtt.auth(0x19))

    assert conversation.violation().reason_code == 0x82


def test_messages_flow_while_a_client_authenticates_again() -> None:
    """T114, section 15."""
    conversation = live()
    conversation.hears(mqtt.auth(0x19, data=b"again"), mqtt.publish(level=5))
    conversation.engine.auth(0x18, "SCRAM", b"challenge")
    conversation.hears(mqtt.publish(level=5), mqtt.auth(0x18, data=b"proof"))
    conversation.engine.auth(0x00, "SCRAM")

    assert [type(event).__name__ for event in conversation.events] == [
        "AuthReceived", "PublishReceived", "PublishReceived", "AuthReceived",
    ]  # fmt: skip
    assert conversation.said() == mqtt.auth(0x18, data=b"challenge") + mqtt.auth(0x00)
    conversation.hears(mqtt.auth(0x19))
    assert isinstance(conversation.events[-1], AuthReceived)


@pytest.mark.parametrize(
    "packets", [[mqtt.auth(0x18)], [mqtt.auth(0x19), mqtt.auth(0x19)], [mqtt.auth(0x19), mqtt.auth(0x18)]]
)
def test_a_client_keeps_to_its_turn_in_re_authentication(packets: list[bytes]) -> None:
    conversation = live()
    conversation.hears(*packets)

    assert conversation.violation().reason_code == 0x82
    assert mqtt.server_disconnect(conversation.packets()[0]).reason_code == 0x82


def test_silence_in_the_middle_of_authentication_ends_the_connection() -> None:
    conversation = asking(limits=MqttLimits(connect_timeout_ms=5_000))
    conversation.engine.auth(0x18, "SCRAM")
    conversation.said()

    assert conversation.waits(4_999) == []
    assert len(conversation.waits(1)) == 1


@pytest.mark.parametrize(("reason_code", "method"), [(0x18, "OTHER"), (0x00, "SCRAM"), (0x19, "SCRAM")])
def test_an_auth_out_of_turn_is_our_mistake(reason_code: int, method: str) -> None:
    with pytest.raises(LocalMisuse):
        asking().engine.auth(reason_code, method)


def test_we_send_no_auth_to_a_client_without_a_method() -> None:
    """[4.12.0-6]."""
    with pytest.raises(LocalMisuse):
        connected(5).engine.auth(0x18, "SCRAM")


@pytest.mark.parametrize(("packet_bytes_max", "is_sent"), [(24, True), (23, False)])
def test_an_auth_larger_than_the_client_takes_is_not_sent(packet_bytes_max: int, is_sent: bool) -> None:
    """[3.1.2-24]: its method and its data cannot be left out."""
    conversation = asking(properties=mqtt.maximum_packet_size(packet_bytes_max))

    assert conversation.engine.auth(0x18, "SCRAM", b"challenge") is is_sent
    assert conversation.said() == (mqtt.auth(0x18, "SCRAM", b"challenge") if is_sent else b"")
