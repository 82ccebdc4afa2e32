"""Packets as such: any cut of the stream, flags, directions, lengths and sizes (section 2)."""

import pytest

import support.mqtt.packets as mqtt
from support.broker.running_broker import RunningBroker

EVERY_LEVEL = pytest.mark.parametrize("level", [3, 4, 5])


async def test_a_length_of_five_bytes_is_refused_before_its_body_comes(broker: RunningBroker) -> None:
    """[1.5.5-1]: at most four bytes."""
    client = await broker.open()
    client.send(b"\x10\xff\xff\xff\xff")
    await client.is_closed()


@EVERY_LEVEL
async def test_a_connected_client_s_length_of_five_bytes_is_malformed(broker: RunningBroker, level: int) -> None:
    """[1.5.5-1]."""
    client = await broker.connect(level=level)
    client.send(b"\x30\xff\xff\xff\xff\x7f")
    await client.is_ended(0x81)


async def test_a_connect_may_come_byte_by_byte(broker: RunningBroker) -> None:
    """Section 4.2: the transport is a stream."""
    client = await broker.open(5)
    for byte in mqtt.connect("slow", level=5, properties=mqtt.session_expiry(0)):
        client.send(bytes([byte]))
        await client.drained()
    assert (await client.connack()).reason_code == 0


@EVERY_LEVEL
async def test_several_packets_in_one_segment_are_answered_in_order(broker: RunningBroker, level: int) -> None:
    """[3.1.4-5], and a client need not wait for CONNACK."""
    client = await broker.open(level)
    client.send(
        mqtt.connect("eager", level=level),
        mqtt.subscribe(("t", 0), level=level),
        mqtt.publish("t", b"mine", level=level),
    )
    assert (await client.connack()).reason_code == 0
    assert (await client.packet()).kind == mqtt.SUBACK
    assert (await client.message()).payload == b"mine"


@EVERY_LEVEL
@pytest.mark.parametrize(
    "packet",
    [
        b"\xc1\x00",
        b"\xc2\x00",
        b"\x41\x02\x00\x01",
        b"\x51\x02\x00\x01",
        b"\x60\x02\x00\x01",
        b"\x64\x02\x00\x01",
        b"\x71\x02\x00\x01",
        b"\x80\x06\x00\x01\x00\x01t\x00",
        b"\xa0\x05\x00\x01\x00\x01t",
        b"\xe1\x00",
        b"\xf1\x00",
    ],
    ids=lambda packet: f"{packet[0]:02x}",
)
async def test_reserved_flags_are_malformed(broker: RunningBroker, level: int, packet: bytes) -> None:
    """[2.1.3-1] [3.6.1-1] [3.8.1-1] [3.10.1-1] [3.14.1-1] [3.15.1-1] [311:2.2.2-2]."""
    client = await broker.connect(level=level)
    client.send(packet)
    await client.is_ended(0x81)


@EVERY_LEVEL
@pytest.mark.parametrize("packet", [b"\x20\x02\x00\x00", b"\x90\x03\x00\x01\x00", b"\xb0\x02\x00\x01", b"\xd0\x00"])
async def test_a_packet_that_only_a_server_sends_is_a_protocol_error(
    broker: RunningBroker, level: int, packet: bytes
) -> None:
    """Section 2.1.2, direction of flow."""
    client = await broker.connect(level=level)
    client.send(packet)
    await client.is_ended(0x82)


@EVERY_LEVEL
async def test_a_ping_is_answered(broker: RunningBroker, level: int) -> None:
    """[3.12.4-1]."""
    client = await broker.connect(level=level)
    client.send(b"\xc0\x00")
    assert await client.packet() == mqtt.Packet(0xD0, b"")


@EVERY_LEVEL
@pytest.mark.parametrize("packet", [b"\xc0\x01x", b"\x00\x00"], ids=["ping with a body", "type 0"])
async def test_packets_that_cannot_be_are_malformed(broker: RunningBroker, level: int, packet: bytes) -> None:
    """Sections 2.1.2 and 3.12.1."""
    client = await broker.connect(level=level)
    client.send(packet)
    await client.is_ended(0x81)


@pytest.mark.parametrize("level", [3, 4])
async def test_auth_is_a_reserved_type_before_version_5(broker: RunningBroker, level: int) -> None:
    """[311:2.2.1] type 15 is forbidden."""
    client = await broker.connect(level=level)
    client.send(b"\xf0\x00")
    await client.is_closed()


@pytest.mark.parametrize("level", [3, 4])
async def test_acknowledgements_of_3_x_are_two_bytes_long(broker: RunningBroker, level: int) -> None:
    """[311:3.4.1]: the remaining length of a PUBACK is 2."""
    client = await broker.connect(level=level)
    client.send(b"\x40\x03\x00\x01\x00")
    await client.is_closed()


@EVERY_LEVEL
@pytest.mark.parametrize("kind", ["publish", "subscribe", "unsubscribe"])
async def test_packet_id_0_is_a_protocol_error(broker: RunningBroker, level: int, kind: str) -> None:
    """[2.2.1-3] [311:2.3.1-1]."""
    client = await broker.connect(level=level)
    packets = {
        "publish": mqtt.publish(level=level, qos=1, packet_id=0),
        "subscribe": mqtt.subscribe(("t", 0), level=level, packet_id=0),
        "unsubscribe": mqtt.unsubscribe("t", level=level, packet_id=0),
    }
    client.send(packets[kind])
    await client.is_ended(0x82)


@EVERY_LEVEL
@pytest.mark.settings("mqtt.maximum_packet_size=2048")
async def test_a_packet_above_the_maximum_is_refused_by_its_fixed_header(broker: RunningBroker, level: int) -> None:
    """[3.2.2-15]: 5.0 is told the limit, and 0x95 before the body was read."""
    client = await broker.connect(level=level)
    assert client.accepted.value(39) == (2048 if level == 5 else None)
    largest = mqtt.publish("t", b"x" * (2048 - 6 - (level == 5)), level=level)
    assert len(largest) == 2048
    client.send(largest)
    await client.round_trip()
    client.send(b"\x30" + mqtt.varint(2049 - 3))  # the fixed header of a packet one byte larger, and no more
    await client.is_ended(0x95)
