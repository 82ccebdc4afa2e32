"""Micro-benchmark of the MQTT engine: what one message costs on its way in, and on its way out.

Run with `python bench/cores/bench_mqtt_engine.py`, the repository's root on PYTHONPATH; for the compiled figures,
after a compiled build. Each row is the best of several rounds, for the machine's other work only ever adds time.
One round is one full read of a busy socket: as many packets as 256 KiB hold.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.protocols.mqtt.codec.events import PublishReceived
from sluicegate.protocols.mqtt.codec.fixed_header import PUBACK
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.engine import engine as engine_module
from sluicegate.protocols.mqtt.engine.engine import MqttEngine
from sluicegate.protocols.mqtt.engine.publish_run import PublishRun
from sluicegate.protocols.mqtt.engine.publish_writer import encode_at_most_once
from sluicegate.protocols.mqtt.session.subscriptions import DeliveryOptions

READ_BYTES: Final = 256 * 1024
PAYLOAD: Final = b"x" * 100
TOPIC: Final = "site/7/device/123/temperature"
ROUNDS: Final = 30
WALL_MS: Final = 1_700_000_000_000

LIMITS: Final = MqttLimits(receive_maximum=65_535)


def varint(value: int) -> bytes:
    """Encode a variable byte integer below 16,384."""
    return bytes([value]) if value < 128 else bytes([value & 0x7F | 0x80, value >> 7])


def packet(level: int, qos: int, packet_id: int, payload: bytes, topic: str = TOPIC, properties: bytes = b"") -> bytes:
    """Encode a PUBLISH."""
    body = len(topic).to_bytes(2, "big") + topic.encode()
    body += packet_id.to_bytes(2, "big") if qos else b""
    body += varint(len(properties)) + properties if level == 5 else b""
    return bytes([0x30 | qos << 1]) + varint(len(body) + len(payload)) + body + payload


def opened(level: int) -> MqttEngine:
    """Return an engine behind CONNECT and CONNACK."""
    engine = MqttEngine(LIMITS, 0)
    body = b"\0\x04MQTT" + bytes([level, 2, 0, 0]) + (b"\0" if level == 5 else b"") + b"\0\x01c"
    engine.feed(bytes([0x10, len(body)]) + body, 0, WALL_MS)
    engine.accept(False)
    engine.take()
    return engine


def filled(level: int, qos: int, topics: int = 1, lengths: int = 1, properties: bytes = b"") -> tuple[bytes, int]:
    """Return one read full of PUBLISH packets, and their number."""
    packets: list[bytes] = []
    size = 0
    while size < READ_BYTES:
        number = len(packets)
        topic = TOPIC if topics == 1 else f"{TOPIC}/{number % topics}"
        payload = PAYLOAD[: 100 - number % lengths]
        packets.append(packet(level, qos, number + 1, payload, topic, properties))
        size += len(packets[-1])
    return b"".join(packets), len(packets)


def best_ns(action: Callable[[], object], messages: int, prepare: Callable[[], object] | None = None) -> float:
    """Return the nanoseconds per message of the fastest round."""
    best = float("inf")
    for _ in range(ROUNDS):
        if prepare is not None:
            prepare()
        start = perf_counter_ns()
        action()
        best = min(best, perf_counter_ns() - start)
    return best / messages


def decode(level: int, qos: int, topics: int = 1, lengths: int = 1, properties: bytes = b"") -> float:
    """Feed one read of PUBLISH packets."""
    data, count = filled(level, qos, topics, lengths, properties)
    engine = opened(level)
    prepare = None if qos == 0 else lambda: engine.acknowledge(PUBACK, 1, count)
    return best_ns(lambda: engine.feed(data, 0, WALL_MS), count, prepare)


def decode_and_cut(level: int) -> float:
    """Feed QoS 0 packets and extract their payloads, as another version or protocol needs them."""
    data, count = filled(level, 0)
    engine = opened(level)

    def action() -> None:
        event = engine.feed(data, 0, WALL_MS).first
        assert isinstance(event, PublishReceived)
        event.batch.payloads()

    return best_ns(action, count)


def decode_acknowledgements(step: int) -> float:
    """Feed PUBACKs: ids one after the other, or with gaps."""
    data = b"".join([b"\x40\x02" + packet_id.to_bytes(2, "big") for packet_id in range(1, 5000 * step, step)])
    engine = opened(4)

    return best_ns(lambda: engine.feed(data, 0, WALL_MS), len(data) // 4)


def encode_acknowledgements() -> float:
    """Acknowledge a run of 2500."""
    engine = opened(4)

    def action() -> None:
        engine.acknowledge(PUBACK, 1, 2500)
        engine.take()

    return best_ns(action, 2500)


def rows(count: int) -> MessageBatch:
    """Return a batch on one topic."""
    return MessageBatch(
        topic=TOPIC, topics=None, payloads=[PAYLOAD + bytes([i & 0xFF]) for i in range(count)], headers=None, qos=1,
        retain=False, publisher="p", received_ms=WALL_MS, payload_bytes=count * 101,
    )  # fmt: skip


def encode_numbered(level: int, identifiers: list[int] | None = None) -> float:
    """Send 2500 rows at QoS 1 and join them for one write."""
    engine = opened(level)
    options = DeliveryOptions(1, False, identifiers)
    to_send = PublishRun(rows(2500), 0, 2500, 1, options, None, WALL_MS, None)

    def action() -> None:
        engine.publish(to_send, 1, dup=False)
        b"".join(engine.take())

    return best_ns(action, 2500)


def encode_shared() -> float:
    """Encode the block that all QoS 0 subscribers share."""
    batch = rows(2500)

    def forget() -> None:
        batch.encodings = None

    return best_ns(lambda: encode_at_most_once(batch, 4, WALL_MS), 2500, forget)


KEYED: Final = b"\x26\0\x0bJMSXGroupID\0\x08device-1"

SCENARIOS: Final[list[tuple[str, Callable[[], float]]]] = [
    ("decode QoS 0, 3.1.1", lambda: decode(4, 0)),
    ("decode QoS 0, 5.0", lambda: decode(5, 0)),
    ("decode QoS 0, 3.1.1, payloads cut", lambda: decode_and_cut(4)),
    ("decode QoS 0, 3.1.1, 100 lengths", lambda: decode(4, 0, lengths=99)),
    ("decode QoS 0, 3.1.1, 500 topics", lambda: decode(4, 0, topics=500)),
    ("decode QoS 1, 3.1.1", lambda: decode(4, 1)),
    ("decode QoS 1, 5.0", lambda: decode(5, 1)),
    ("decode QoS 1, 3.1.1, 500 topics", lambda: decode(4, 1, topics=500)),
    ("decode QoS 1, 5.0, with a key", lambda: decode(5, 1, properties=KEYED)),
    ("decode PUBACK, a run", lambda: decode_acknowledgements(1)),
    ("decode PUBACK, with gaps", lambda: decode_acknowledgements(2)),
    ("encode PUBACK, a run", encode_acknowledgements),
    ("encode QoS 1, 3.1.1", lambda: encode_numbered(4)),
    ("encode QoS 1, 5.0", lambda: encode_numbered(5)),
    ("encode QoS 1, 5.0, with identifier", lambda: encode_numbered(5, [7])),
    ("encode QoS 0, shared", encode_shared),
]


def main() -> None:
    """Print a row for each scenario."""
    compiled = not engine_module.__file__.endswith(".py")
    print(f"MQTT engine, {'compiled' if compiled else 'interpreted'}: ns per message, payload {len(PAYLOAD)} bytes")
    for name, scenario in SCENARIOS:
        print(f"  {name:40} {scenario():8.1f}")


if __name__ == "__main__":
    main()
