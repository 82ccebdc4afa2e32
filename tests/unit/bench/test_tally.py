"""The load generator's check of streams that come mixed, held against a plain count of what was sent."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.tally import Tally, TallyReceiver
from bench.wire import mqtt as wire

STREAMS = 3
CYCLE = 8
PAYLOAD_BYTES = 12


def packet(stream: int, sequence: int, *, qos: int = 0, packet_id: int = 1) -> bytes:
    header = wire.publish_header(f"t/{stream}", qos=qos, payload_bytes=PAYLOAD_BYTES, stream=stream)
    data, at = header.data, header.packet_id_at
    if at is not None:
        data = data[:at] + packet_id.to_bytes(2, "big") + data[at + 2 :]
    return data + stream.to_bytes(4, "big") + (sequence % CYCLE).to_bytes(4, "big") + bytes(4)


def receiver(*, in_order: bool = True, own_order: int = 0) -> TallyReceiver:
    tally = Tally(streams=STREAMS, cycle=CYCLE, in_order=in_order)
    return TallyReceiver(tally, version=wire.MQTT_3_1_1, own_order=own_order)


def feed(subscriber: TallyReceiver, data: bytes) -> bytes:
    buffer = bytearray(subscriber.rest + data)
    return subscriber.feed(buffer, len(buffer))


@given(
    order=st.lists(st.integers(0, STREAMS - 1), max_size=60),
    cuts=st.lists(st.integers(1, 200), min_size=1, max_size=40),
)
def test_streams_in_order_are_counted_however_they_are_mixed_and_cut(order: list[int], cuts: list[int]) -> None:
    """Goal: nothing faithful is called lost, repeated or disordered, over several cycles and any reads."""
    sent: Counter[int] = Counter()
    data = b""
    for stream in order:
        data += packet(stream, sent[stream])
        sent[stream] += 1
    subscriber = receiver()
    while data:
        for cut in cuts:
            feed(subscriber, data[:cut])
            data = data[cut:]
    tally = subscriber.tally
    assert (tally.received, tally.duplicated, tally.disordered) == (len(order), 0, 0)


@given(
    sequence=st.permutations(list(range(20))).map(lambda order: order[:3]),
    doubled=st.booleans(),
    late=st.booleans(),
)
def test_lost_repeated_and_late_messages_are_distinguished(sequence: list[int], doubled: bool, late: bool) -> None:
    """One message is left out, one comes twice right away, and one changes places with the next."""
    left_out, twice, swapped = sequence
    numbers = [number for number in range(20) if number != left_out]
    if late and swapped + 1 in numbers:
        at = numbers.index(swapped)
        numbers[at], numbers[at + 1] = numbers[at + 1], numbers[at]
    if doubled:
        numbers.insert(numbers.index(twice) + 1, twice)
    subscriber = receiver()
    for number in numbers:
        feed(subscriber, packet(1, number))
    tally = subscriber.tally
    assert tally.received == 19
    assert tally.duplicated == int(doubled)
    assert tally.disordered == int(late and swapped + 1 in numbers)


def test_consumers_that_compete_share_one_count_and_each_has_an_order() -> None:
    """MQTT 5.0, 4.8.2: a shared subscription's messages go to one member each; which is first says nothing."""
    tally = Tally(streams=STREAMS, cycle=CYCLE, in_order=False)
    one, other = (TallyReceiver(tally, version=wire.MQTT_3_1_1, own_order=STREAMS) for _ in range(2))
    feed(one, packet(0, 1) + packet(0, 3))
    feed(other, packet(0, 0) + packet(0, 2))
    assert (tally.received, tally.duplicated, tally.disordered) == (4, 0, 0)
    feed(one, packet(0, 5) + packet(0, 4))
    assert (tally.received, tally.disordered) == (6, 1)
    feed(other, packet(0, 5))
    assert (tally.received, tally.duplicated) == (6, 1)


@given(st.integers(1, 5 * CYCLE))
def test_a_consumer_that_others_leave_out_for_long_has_not_lost_its_order(left_out: int) -> None:
    tally = Tally(streams=STREAMS, cycle=CYCLE, in_order=False)
    one, other = (TallyReceiver(tally, version=wire.MQTT_3_1_1, own_order=STREAMS) for _ in range(2))
    feed(one, packet(0, 0))
    for number in range(1, left_out):
        feed(other, packet(0, number))
    feed(one, packet(0, left_out))
    assert (tally.received, tally.duplicated, tally.disordered) == (left_out + 1, 0, 0)


def test_both_halves_of_qos_2_are_answered() -> None:
    """MQTT 3.1.1 section 4.3.3: PUBREC for each PUBLISH, PUBCOMP for each PUBREL, however they are mixed."""
    subscriber = receiver()
    data = packet(0, 0, qos=2, packet_id=5) + packet(0, 1, qos=2, packet_id=6) + bytes.fromhex("62020005")
    assert feed(subscriber, data) == bytes.fromhex("50020005 50020006 70020005")
    assert subscriber.tally.received == 2


@pytest.mark.parametrize(
    "data",
    [
        packet(STREAMS, 0),
        packet(0, 0).replace(b"\x00\x00\x00\x00", b"\x00\x00\x00\x09"),
        b"\xe0\x00",
        b"\x30\x03\x00\x01t",
    ],
    ids=["stream", "sequence", "other packet", "no number"],
)
def test_messages_that_were_never_sent_are_refused(data: bytes) -> None:
    """A load that gets messages of others measures nothing."""
    with pytest.raises(wire.WireError):
        feed(receiver(), data)
