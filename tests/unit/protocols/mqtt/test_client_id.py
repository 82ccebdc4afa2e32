"""The client identifier in the first bytes of a connection, which is the one that the engine reads."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.mqtt.codec.client_id import FIRST_BYTES_MIN, FirstBytes, read_client_id
from sluicegate.protocols.mqtt.codec.events import ConnectReceived
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from support.hostile.mutated_bytes import ROUNDS, chance_of, mutated
from support.mqtt.conversation import Conversation

BYTES_MAX = 4096
LIMITS = MqttLimits(packet_bytes_max=BYTES_MAX, connect_bytes_max=BYTES_MAX)
LEVELS = pytest.mark.parametrize("level", [3, 4, 5])


def read(data: bytes) -> FirstBytes:
    return read_client_id(data, BYTES_MAX)


def rich(client_id: str | bytes, level: int) -> bytes:
    """A CONNECT with all that can be in one."""
    properties = mqtt.session_expiry(60) + mqtt.authentication_method("SCRAM") + mqtt.user_property("a", "b" * 200)
    return mqtt.connect(
        client_id,
        level=level,
        user_name="u",
        password=b"p",
        will=mqtt.WillPart(qos=1),
        properties=properties if level == 5 else b"",
    )


@LEVELS
@pytest.mark.parametrize("client_id", ["c", "a client of some length", "ä\u2028\U0001f600", "x" * 1000])
def test_the_identifier_is_found_once_its_last_byte_has_come(level: int, client_id: str) -> None:
    data = rich(client_id, level) + mqtt.pingreq()
    last = data.index(client_id.encode(), 10) + len(client_id.encode())
    assert (read(data).level, read(data).client_id) == (level, client_id)
    assert (read(data[:last]).level, read(data[:last]).client_id) == (level, client_id)
    for size in range(last):
        found = read(data[:size])
        assert found.level == 0
        assert size < found.needed_bytes <= last


@LEVELS
def test_it_is_read_in_as_many_steps_as_there_are_fields(level: int) -> None:
    """Else all that a client has sent would be read again with each byte of one that sends single ones."""
    data = rich("x" * 1000, level)
    steps = 0
    found = read(data[:FIRST_BYTES_MIN])
    while not found.level:
        found = read(data[: found.needed_bytes])
        steps += 1
    assert steps <= 7


@LEVELS
def test_a_client_without_an_identifier_has_an_empty_one(level: int) -> None:
    found = read(mqtt.connect("", level=level))
    assert (found.level, found.client_id, found.needed_bytes) == (level, "", 0)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(mqtt.pingreq(), id="another packet"),
        pytest.param(b"\x16\x03\x01", id="TLS"),
        pytest.param(b"GET / HTTP/1.1\r\n", id="HTTP"),
        pytest.param(b"\x11", id="flags of the packet"),
        pytest.param(b"\x10\xff\xff\xff\xff", id="length of five bytes"),
        pytest.param(b"\x10" + mqtt.varint(BYTES_MAX), id="too long"),
        pytest.param(mqtt.connect(protocol_name=b"MQTTnet")[:14], id="unknown name"),
        pytest.param(b"\x10\x40\xff\xff", id="a name that runs past the packet"),
        pytest.param(mqtt.connect(protocol_level=6), id="unknown level"),
        pytest.param(mqtt.connect(protocol_level=0x84), id="a bridge's level"),
        pytest.param(mqtt.connect(b"\xff\xfe"), id="no UTF-8"),
        pytest.param(mqtt.connect("a\0b"), id="U+0000"),
        pytest.param(mqtt.packet(0x10, mqtt.binary("MQTT") + b"\x04\x02\0\0\0\x09ab"), id="runs past the packet"),
        pytest.param(mqtt.packet(0x10, mqtt.binary("MQTT") + b"\x05\x02\0\0\x7f"), id="properties that do"),
        pytest.param(mqtt.packet(0x10, mqtt.binary("MQTT") + b"\x05\x02\0\0"), id="no properties"),
        pytest.param(mqtt.packet(0x10, b""), id="empty"),
    ],
)
def test_nothing_is_found_in_what_no_server_accepts(data: bytes) -> None:
    found = read(data)
    assert (found.level, found.client_id, found.needed_bytes) == (0, "", 0)


@LEVELS
def test_the_engine_reads_the_same_from_whatever_bytes(level: int) -> None:
    """Who is served elsewhere is the client that it would have been here; bytes cut anywhere need more or say it."""
    chance = chance_of(31_000 + level)
    for _ in range(ROUNDS // 3):
        data = mutated(chance, chance.choice([rich("client", level), mqtt.connect("", level=level)]))
        conversation = Conversation(level, LIMITS)
        connects = [each for each in conversation.hears(data) if isinstance(each, ConnectReceived)]
        found = read(data)
        if connects:
            assert (found.level, found.client_id) == (connects[0].level, connects[0].client_id)
        before = read(data[: chance.randint(0, len(data))])
        if before.needed_bytes == 0:
            assert (before.level, before.client_id) == (found.level, found.client_id)
