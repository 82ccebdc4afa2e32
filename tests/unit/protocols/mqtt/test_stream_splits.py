"""How TCP cuts a stream makes no difference to what was said."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import support.mqtt.packets as mqtt
from sluicegate.protocols.mqtt.codec.events import AcknowledgementReceived, MqttEvent, PublishReceived
from sluicegate.protocols.transport.interface import READ_INTO_BYTES_MIN
from support.mqtt.conversation import Row, all_rows, connected, rows_of
from support.thorough import examples

Said = object


def said_by(events: list[MqttEvent]) -> list[Said]:
    """What was said, packet by packet: where runs and batches end is not part of it."""
    said: list[Said] = []
    for event in events:
        if isinstance(event, PublishReceived):
            said += rows_of(event)
        elif isinstance(event, AcknowledgementReceived):
            said += [(event.kind, packet_id, event.reason_code) for packet_id in range(event.first, event.last + 1)]
        else:
            said.append(repr(event))  # which tells all of it
    return said


def property_sections(level: int) -> st.SearchStrategy[bytes]:
    if level < 5:
        return st.just(b"")
    return st.sampled_from(
        [
            b"",
            mqtt.content_type("x"),
            mqtt.message_expiry(5),
            mqtt.user_property("JMSXGroupID", "k"),
            mqtt.topic_alias(3),
        ]
    )


def client_packets(level: int) -> st.SearchStrategy[bytes]:
    ids = st.integers(1, 20)
    published = st.builds(
        lambda topic, payload, qos, packet_id, retain, properties: mqtt.publish(
            topic, payload, level=level, qos=qos, packet_id=packet_id, retain=retain, properties=properties
        ),
        st.sampled_from(["a", "b/c", "a" * 200]), st.binary(max_size=40) | st.just(b"z" * 300), st.integers(0, 2), ids,
        st.booleans(), property_sections(level),
    )  # fmt: skip
    run = st.builds(
        lambda count, qos: b"".join(
            mqtt.publish("run", b"x", level=level, qos=qos, packet_id=n + 1) for n in range(count)
        ),
        st.integers(1, 12), st.integers(0, 2),
    )  # fmt: skip
    acknowledged = st.builds(
        lambda kind, first, count: b"".join(mqtt.acknowledgement(kind, first + n) for n in range(count)),
        st.sampled_from([4, 5, 6, 7]), ids, st.integers(1, 12),
    )  # fmt: skip
    requests = st.sampled_from(
        [mqtt.subscribe(("a/#", 1), level=level), mqtt.unsubscribe("a/#", level=level), mqtt.pingreq()]
    )
    bad = st.sampled_from([b"\xc1\0", b"\x36\x05", b"\x30\xff\xff\xff\xff", mqtt.disconnect(), b"\x32\x05\0\x01a\0\0"])
    return published | run | acknowledged | requests | bad


@settings(deadline=None)
@given(st.data(), st.sampled_from([3, 4, 5]))
def test_any_split_of_a_stream_says_the_same(data: st.DataObject, level: int) -> None:
    """Goal: incremental reading loses and invents nothing. Method: one read against any reads, answers included."""
    stream = b"".join(data.draw(st.lists(client_packets(level), max_size=12)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    whole, pieces = connected(level), connected(level)
    whole.hears(stream)
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        pieces.hears(stream[start:end])

    assert said_by(pieces.events) == said_by(whole.events)
    assert pieces.said() == whole.said()


@settings(deadline=None, max_examples=examples(30))
@given(st.data(), st.sampled_from([3, 4, 5]))
def test_single_bytes_say_the_same(data: st.DataObject, level: int) -> None:
    """T012, for every packet."""
    stream = b"".join(data.draw(st.lists(client_packets(level), max_size=8)))
    whole, pieces = connected(level), connected(level)
    whole.hears(stream)
    for byte in stream:
        pieces.hears(bytes([byte]))

    assert said_by(pieces.events) == said_by(whole.events)
    assert pieces.said() == whole.said()


def large_packets(level: int) -> st.SearchStrategy[bytes]:
    """Packets of which far more than one read is missing at first, right and wrong."""
    size = st.integers(READ_INTO_BYTES_MIN, 3 * READ_INTO_BYTES_MIN)
    right = st.builds(
        lambda size, qos, retain, properties: mqtt.publish(
            "large", bytes(range(251)) * (size // 251), level=level, qos=qos, retain=retain, properties=properties
        ),
        size, st.integers(0, 2), st.booleans(), property_sections(level),
    )  # fmt: skip
    first_byte = st.sampled_from([0x30, 0x31, 0x32, 0x34, 0x3C, 0x82, 0xA2])
    body = st.sampled_from(
        [
            b"\0",
            b"\0\x01",
            b"\0\x01a\0\0",
            b"\0\x01a\0\x01\xff\xff\xff\xff\xff",
            b"\0\x01a\0\x01\xff\xff\x7f",
            b"\0\0\0\x01",
        ]
    )
    wrong = st.builds(
        lambda size, first_byte, body, fill: mqtt.packet(first_byte, body + bytes([fill]) * size),
        size, first_byte, body, st.sampled_from([0, 0xFF]),
    )  # fmt: skip
    return right | wrong


@settings(deadline=None)
@given(st.data(), st.sampled_from([3, 4, 5]), st.sampled_from([1, 7, 5000, 40_000, 1 << 20]))
def test_reads_in_place_give_the_same_events(data: st.DataObject, level: int, size: int) -> None:
    """Payloads that lie apart from their heads, and packets that are placed whole, among small ones."""
    packets = data.draw(st.lists(client_packets(level) | large_packets(level), max_size=6))
    stream = b"".join(packets)
    whole, placed = connected(level), connected(level)
    whole.hears(stream)
    placed.reads(stream, size if len(stream) < 200 * size else 5000)

    assert said_by(placed.events) == said_by(whole.events)
    assert placed.said() == whole.said()


@pytest.mark.parametrize(
    ("level", "qos", "properties"),
    [(4, 0, b""), (4, 1, b""), (5, 0, b""), (5, 0, mqtt.content_type("x")), (5, 2, mqtt.content_type("x"))],
)
def test_a_large_payload_lies_where_it_was_read_to(level: int, qos: int, properties: bytes) -> None:
    """Nobody may write there any more; here it shows whose memory it is."""
    conversation = connected(level)
    packet = mqtt.publish("t", bytes(1 << 20), level=level, qos=qos, properties=properties)
    conversation.hears(packet[:1000])
    room = conversation.engine.buffer()
    assert room is not None
    conversation.reads(packet[1000:], 300_000)
    (event,) = conversation.events
    assert isinstance(event, PublishReceived)
    room[-4:] = b"late"

    assert event.batch.payloads()[0][-4:] == b"late"


def test_little_that_is_missing_is_given_no_memory_of_its_own() -> None:
    conversation = connected(4)
    packet = mqtt.publish("t", bytes(READ_INTO_BYTES_MIN), qos=1)
    conversation.hears(packet[:100])
    assert conversation.engine.buffer() is None
    conversation.hears(packet[100:])
    assert len(all_rows(conversation.events)) == 1


def test_rows_compare_by_value() -> None:
    """The law above would prove nothing if all rows were equal."""
    first, second = (connected().hears(mqtt.publish("a", payload))[0] for payload in (b"1", b"2"))
    assert isinstance(first, PublishReceived)
    assert isinstance(second, PublishReceived)
    rows: list[Row] = [*rows_of(first), *rows_of(second)]

    assert rows[0] == rows_of(first)[0]
    assert rows[0] != rows[1]
