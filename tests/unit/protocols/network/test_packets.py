"""MQTT packets that cross a link as they are: what arrives is what was sent, or is found to be wrong."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.protocols.mqtt.codec.wire_batch import DIALECT_3X, DIALECT_5, WireBatch
from sluicegate.protocols.network.exchange.packets import PacketsReader, has_packets, packets_of

NOW_MS = 1_700_000_000_000


def sent(*messages: tuple[str, bytes], level: int = 4) -> WireBatch:
    """Return messages of one publisher as its broker has read them."""
    wire = b"".join([mqtt.publish(topic, payload, level=level) for topic, payload in messages])
    topics = [topic for topic, _ in messages]
    return WireBatch(
        wire=wire,
        dialect=DIALECT_5 if level == 5 else DIALECT_3X,
        count=len(messages),
        topic=topics[0] if len(set(topics)) == 1 else "",
        topics=topics if len(set(topics)) > 1 else None,
        publisher="dévice",
        received_ms=1,
        payload_bytes=sum(len(payload) for _, payload in messages),
    )


def body_of(batch: MessageBatch) -> bytes:
    pieces = packets_of(batch)
    assert pieces is not None
    return b"".join(pieces)


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize(
    "messages",
    [[("t", b"1")], [("t", b"1"), ("t", b"22"), ("t", b"33")], [("t/1", b"1"), ("t/2", b""), ("t/2", b"x" * 300)]],
)
def test_packets_arrive_as_they_were_sent(messages: list[tuple[str, bytes]], level: int) -> None:
    batch = sent(*messages, level=level)
    data = b"before" + body_of(batch) + b"behind"  # frames that were read together
    start, end = len(b"before"), len(data) - len(b"behind")
    assert has_packets(data, start, end)
    arrived = PacketsReader().read(data, start, end, NOW_MS)
    assert isinstance(arrived, WireBatch)
    assert (arrived.wire, arrived.dialect) == (batch.wire, batch.dialect)
    assert arrived.payloads() == [payload for _, payload in messages]
    assert [arrived.topic_of(row) for row in range(arrived.count)] == [topic for topic, _ in messages]
    assert (arrived.publisher, arrived.received_ms, arrived.qos) == ("dévice", NOW_MS, 0)
    assert arrived.payload_bytes == batch.payload_bytes


def test_a_reader_takes_both_versions_of_many_publishers() -> None:
    reader = PacketsReader()
    for level in (4, 5, 4):
        body = body_of(sent(("t", b"1"), level=level))
        assert reader.read(body, 0, len(body), NOW_MS).payloads() == [b"1"]


def test_other_messages_are_no_packets() -> None:
    batch = sent(("t", b"1")).select([0])
    assert packets_of(batch) is None
    assert not has_packets(b"\x02\0\0\0", 0, 4)
    assert not has_packets(b"\xf3", 1, 1)


HEAD = bytes.fromhex("f300 0001 00000000 00000001") + b"p"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xf3\0\0", "packets of 3 bytes"),
        (HEAD[:-1], "packets of 12 bytes, with a publisher of 1"),
        (HEAD, "0 are one run"),
        (HEAD + mqtt.publish("t", b"1") + b"\x30", "6 are one run"),
        (HEAD + mqtt.publish("t", b"1") + b"\xc0\0", "6 are one run"),
        (HEAD + 2 * mqtt.publish("t", b"1"), "2 packets; 1 of QoS 0 were announced"),
        (HEAD + mqtt.publish("t", b"1", qos=1, packet_id=1), "QoS 1"),
        (HEAD + mqtt.publish("t", b"1", retain=True), "1 packets; 1 of QoS 0 were announced"),
        (HEAD + b"\x30\x03\0\x01+", r"wildcard|\+"),
        (HEAD + b"\x30\x01\0", "remaining length 1"),
    ],
)
def test_what_is_wrong_with_packets_is_found(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        PacketsReader().read(body, 0, len(body), NOW_MS)
    with pytest.raises(ValueError, match=reason):
        PacketsReader().read(b"before" + body + mqtt.publish("t", b"1"), 6, 6 + len(body), NOW_MS)
