"""The load generator's packets, held against bytes written out by hand, and its check of what comes back."""

from itertools import pairwise

import pytest

from bench.load.receiver import Receiver
from bench.wire import mqtt as wire

CYCLE = 1024
PAYLOAD_BYTES = 10


def stream(topic: str = "a/b", *, qos: int) -> bytes:
    """A whole cycle of PUBLISH packets."""
    return wire.publish_stream([wire.publish_header(topic, qos=qos, payload_bytes=PAYLOAD_BYTES)], cycle=CYCLE)[0]


def feed(receiver: Receiver, data: bytes) -> bytes:
    """What a socket would do: the new bytes follow the rest of the last read."""
    buffer = bytearray(receiver.rest + data)
    return receiver.feed(buffer, len(buffer))


def receiver(*, version: int = wire.MQTT_3_1_1) -> Receiver:
    """A receiver of one publisher's stream."""
    return Receiver(cycle=CYCLE, payload_bytes=PAYLOAD_BYTES, version=version)


def test_connect_has_the_bytes_of_3_1_1_and_of_5() -> None:
    """MQTT 3.1.1 and 5.0, section 3.1."""
    assert wire.connect("c", version=4) == bytes.fromhex("100d 00044d515454 04 02 0000 000163")
    assert wire.connect("c", version=4, clean=False) == bytes.fromhex("100d 00044d515454 04 00 0000 000163")
    assert wire.connect("c", version=5) == bytes.fromhex("100e 00044d515454 05 02 0000 00 000163")
    lasting = wire.connect("c", version=5, clean=False, session_expiry_s=3600)
    assert lasting == bytes.fromhex("1013 00044d515454 05 00 0000 05 1100000e10 000163")


def test_subscribe_has_the_bytes_of_3_1_1_and_of_5() -> None:
    """MQTT 3.1.1 and 5.0, section 3.8."""
    assert wire.subscribe("a/#", qos=1, version=4) == bytes.fromhex("8208 0001 0003612f23 01")
    assert wire.subscribe("a/#", qos=0, version=5) == bytes.fromhex("8209 0001 00 0003612f23 00")


def test_publish_stream_counts_sequences_from_0_and_packet_ids_from_1() -> None:
    """MQTT 3.1.1 section 3.3; the payload is four bytes of stream, four of sequence, and padding."""
    direct = stream(qos=0)
    assert direct[:17] == bytes.fromhex("300f 0003612f62 0000000000000000 2e2e")
    assert direct[-17:] == bytes.fromhex("300f 0003612f62 00000000000003ff 2e2e")
    guaranteed = stream(qos=1)
    assert guaranteed[:19] == bytes.fromhex("3211 0003612f62 0001 0000000000000000 2e2e")
    assert guaranteed[-19:] == bytes.fromhex("3211 0003612f62 0400 00000000000003ff 2e2e")


def test_connack_tells_how_much_may_be_in_flight() -> None:
    """MQTT 3.1.1 section 3.2; 5.0 section 3.2.2.3: receive maximum, here behind a user property, text and a number."""
    assert wire.check_connack(bytes.fromhex("20020000")) == 65_535
    assert wire.check_connack(bytes.fromhex("2003000000")) == 65_535
    properties = "26 0001 6b 0001 76 12 0001 63 27 00010000 21 03e8"
    assert wire.check_connack(bytes.fromhex(f"2016 0000 13 {properties}")) == 1000
    with pytest.raises(wire.WireError, match="20 02 00 05"):
        wire.check_connack(bytes.fromhex("20020005"))


def test_a_remaining_length_from_128_takes_two_bytes() -> None:
    """MQTT 3.1.1 section 2.2.3, table 2.4."""
    header = wire.publish_header("t", qos=0, payload_bytes=124).data
    assert header == bytes.fromhex("307f 000174")
    header = wire.publish_header("t", qos=0, payload_bytes=125).data
    assert header == bytes.fromhex("308001 000174")
    assert wire.packet_end(header, 0, len(header)) == (3, 131)
    assert wire.packet_end(b"\x30\x80", 0, 2) == (0, 0)


def test_messages_of_several_streams_take_turns() -> None:
    """Each stream counts its own sequences, packet ids count over all; sizes, keys and RETAIN are the streams' own."""
    plain = wire.publish_header("a", qos=1, payload_bytes=9, stream=7, retain=True)
    keyed = wire.publish_header("b", qos=1, payload_bytes=8, stream=8, version=wire.MQTT_5, key="k")
    data, ends = wire.publish_stream([plain, keyed], cycle=3)
    group = "0f 26 000b 4a4d535847726f75704944 0001 6b".replace("0f", "11", 1)
    assert [data[start:end] for start, end in pairwise(ends)] == [
        bytes.fromhex("330e 000161 0001 00000007 00000000 2e"),
        bytes.fromhex(f"321f 000162 0002 {group} 00000008 00000000"),
        bytes.fromhex("330e 000161 0003 00000007 00000001 2e"),
    ]


def test_acknowledgements_carry_the_ids_column_by_column() -> None:
    """MQTT 3.1.1 sections 3.4 to 3.7."""
    assert wire.acks(wire.PUBACK, b"\x00\x12", b"\x01\x34") == bytes.fromhex("40020001 40021234")
    assert wire.ack_stream(wire.PUBREL, 2) == bytes.fromhex("62020001 62020002")


def test_a_payload_without_room_for_the_sequence_is_refused() -> None:
    """The sequence is what loss is found by."""
    with pytest.raises(ValueError, match="7 bytes"):
        wire.publish_header("t", qos=0, payload_bytes=7)


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("piece_bytes", [1, 18, 1000, 100_000])
def test_a_faithful_stream_is_counted_whatever_the_reads_cut(qos: int, piece_bytes: int) -> None:
    """Three cycles arrive in pieces; nothing is missing, and every packet id is acknowledged once."""
    subscriber = receiver()
    data = stream(qos=qos) * 3
    acks = b"".join(feed(subscriber, data[at : at + piece_bytes]) for at in range(0, len(data), piece_bytes))
    assert (subscriber.received, subscriber.duplicated, subscriber.rest) == (3 * CYCLE, 0, b"")
    assert acks == (wire.ack_stream(wire.PUBACK, CYCLE) * 3 if qos else b"")


def test_a_buffer_in_use_takes_packets_larger_than_a_read() -> None:
    """The reads of a load go into a view of the buffer, which must keep its size while a packet comes in pieces."""
    subscriber = receiver()
    packet = stream(qos=1)[:19]
    buffer = bytearray(100)
    for end in (19, 4, 12):
        with memoryview(buffer):
            buffer[:end] = packet[:end]
            subscriber.feed(buffer, end)
    assert (subscriber.received, subscriber.rest) == (1, packet[:12])


def test_lost_and_repeated_messages_are_distinguished() -> None:
    """Messages 5 and 6 never come, 8 comes a second time with DUP; the rest is counted, all are acknowledged."""
    subscriber = receiver()
    packets = [stream(qos=1)[at : at + 19] for at in range(0, 20 * 19, 19)]
    repeated = b"\x3a" + packets[8][1:]
    feed(subscriber, packets[0])
    acks = feed(subscriber, b"".join([*packets[1:5], *packets[7:10], repeated, *packets[10:]]))
    assert (subscriber.received, subscriber.duplicated) == (18, 1)
    assert len(acks) == 18 * wire.ACK_BYTES


def test_properties_of_5_are_skipped() -> None:
    """MQTT 5.0 section 3.3.2.3: here a subscription identifier stands before the payload."""
    subscriber = receiver(version=wire.MQTT_5)
    packet = bytes.fromhex("3214 0003612f62 0007 020b01") + bytes(8) + b".."
    assert feed(subscriber, packet) == bytes.fromhex("40020007")
    assert subscriber.received == 1


def test_a_packet_that_is_no_message_is_refused() -> None:
    """A subscriber of this load can get nothing but PUBLISH."""
    with pytest.raises(wire.WireError, match="e0 00"):
        feed(receiver(), b"\xe0\x00")
