"""Good and damaged messages in one write: every row that comes out is whole, and the good ones before damage come out.

Method: frames that a client may write, one of them damaged, are read at once, and by another engine one by one. Both
must find the same rows; a row is taken from all columns together, so one that is in some of them only fails.
"""

import random

from hypothesis import given
from hypothesis import strategies as st

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.amqp.codec.frames import frame
from sluicegate.protocols.amqp.engine.events import DeliveriesReceived
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpValue, uint
from sluicegate.protocols.flow.codec.frames.publish import PublishesReceived, write_publish
from sluicegate.protocols.flow.engine.engine import FlowEngine
from support.amqp.engine_owner import EngineOwner
from support.amqp.golden import golden
from support.flow.engine_pair import NOW_MS, WALL_MS, open_gateway
from support.hostile.mutated_bytes import mutated
from support.mqtt.conversation import Row, all_rows, connected

FlowRow = tuple[int, str, bytes, Headers | None]
AmqpRow = tuple[int, bytes]

NAMES = st.sampled_from(["", "k", "key", "é"])
TOPICS = st.sampled_from(["t", "t", "a/b"])
PAYLOADS = st.sampled_from([b"", b"x", b"y", b"longer"])
HEADERS = st.none() | st.builds(
    Headers,
    partition_key=st.none() | NAMES.filter(bool),
    priority=st.integers(0, 9),
    message_id=st.none() | NAMES,
    user_properties=st.none() | st.lists(st.tuples(NAMES, NAMES | st.integers(-5, 5) | st.none()), max_size=2),
)
CHANCES = st.randoms(use_true_random=False)


def with_damage(frames: list[bytes], chance: random.Random) -> tuple[int, list[bytes]]:
    """Return which frame is damaged, and the frames with it."""
    victim = chance.randrange(len(frames))
    return victim, [mutated(chance, each) if at == victim else each for at, each in enumerate(frames)]


def flow_rows(engine: FlowEngine, reads: list[bytes]) -> list[FlowRow]:
    rows: list[FlowRow] = []
    for data in reads:
        for event in engine.feed(data, NOW_MS, WALL_MS):
            if isinstance(event, PublishesReceived):
                found = list(zip(event.sequences, event.topics, event.payloads, event.headers, strict=True))
                assert event.payload_bytes == sum(len(payload) for _, _, payload, _ in found)
                assert event.has_headers == any(headers is not None for _, _, _, headers in found)
                rows += found
    return rows


@given(messages=st.lists(st.tuples(TOPICS, PAYLOADS, HEADERS), min_size=1, max_size=8), chance=CHANCES)
def test_flow_rows_are_whole(messages: list[tuple[str, bytes, Headers | None]], chance: random.Random) -> None:
    """Flow: publishing."""
    frames = [
        write_publish(1, number, topic, payload, headers, to_queue=False, ttl_ms=0, delay_ms=0)
        for number, (topic, payload, headers) in enumerate(messages, 1)
    ]
    victim, sent = with_damage(frames, chance)

    rows = flow_rows(open_gateway(), [b"".join(sent)])

    assert rows == flow_rows(open_gateway(), sent)
    assert rows[:victim] == flow_rows(open_gateway(), frames[:victim])
    assert len(rows[:victim]) == victim


def mqtt_rows(level: int, reads: list[bytes]) -> list[Row]:
    conversation = connected(level)
    for data in reads:
        conversation.hears(data)
    return all_rows(conversation.events)


@given(
    level=st.sampled_from([4, 5]),
    messages=st.lists(st.tuples(TOPICS, PAYLOADS, st.integers(0, 2), st.none() | NAMES), min_size=1, max_size=8),
    chance=CHANCES,
)
def test_mqtt_rows_are_whole(
    level: int, messages: list[tuple[str, bytes, int, str | None]], chance: random.Random
) -> None:
    """MQTT 3.3."""
    packets = []
    for number, (topic, payload, qos, note) in enumerate(messages, 1):
        properties = b"" if note is None or level == 4 else mqtt.user_property("note", note)
        packets.append(
            mqtt.publish(topic, payload, level=level, qos=qos, packet_id=number if qos else 0, properties=properties)
        )
    victim, sent = with_damage(packets, chance)

    rows = mqtt_rows(level, [b"".join(sent)])

    assert rows == mqtt_rows(level, sent)
    assert rows[:victim] == mqtt_rows(level, packets[:victim])
    assert len(rows[:victim]) == victim


def amqp_rows(reads: list[bytes]) -> list[AmqpRow]:
    owner = EngineOwner()
    owner.hears(b"AMQP\x00\x01\x00\x00" + b"".join(golden("frames.txt")[name] for name in ("open", "begin")))
    owner.hears(golden("frames.txt")["attach-sender"])
    owner.hears(*reads)
    rows: list[AmqpRow] = []
    for event in owner.of(DeliveriesReceived):
        assert isinstance(event, DeliveriesReceived)
        assert len(event.tags) in (0, len(event.payloads))
        found = list(zip(event.delivery_ids, event.payloads, strict=True))
        assert event.payload_bytes == sum(len(payload) for _, payload in found)
        rows += found
    return rows


def transfers(handle: int, delivery_id: int, payload: bytes, pieces: int) -> list[bytes]:
    """Return the frames of a delivery."""
    step = len(payload) // pieces + 1
    frames: list[bytes] = []
    for start in range(0, max(1, len(payload)), step):
        more = start + step < len(payload)
        fields: list[AmqpValue] = [uint(handle), uint(delivery_id), b"t", uint(0), False, more]
        encoded = b"".join([encode(each) for each in fields])
        head = b"\x00\x53\x14\xd0" + (len(encoded) + 4).to_bytes(4, "big") + (6).to_bytes(4, "big")
        frames.append(frame(0, head + encoded + payload[start : start + step]))
    return frames


@given(messages=st.lists(st.tuples(PAYLOADS, st.integers(1, 3)), min_size=1, max_size=8), chance=CHANCES)
def test_amqp_rows_are_whole(messages: list[tuple[bytes, int]], chance: random.Random) -> None:
    """AMQP 2.6.12: deliveries of one frame and of several."""
    deliveries = [transfers(0, number, payload, pieces) for number, (payload, pieces) in enumerate(messages)]
    frames = [each for delivery in deliveries for each in delivery]
    victim, sent = with_damage(frames, chance)
    whole_count = sum(sum(map(len, deliveries[: number + 1])) <= victim for number in range(len(deliveries)))

    rows = amqp_rows([b"".join(sent)])

    assert rows == amqp_rows(sent)
    assert rows[:whole_count] == [(number, payload) for number, (payload, _) in enumerate(messages[:whole_count])]
