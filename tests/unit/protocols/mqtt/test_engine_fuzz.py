"""Any bytes give events, never an exception, and never a hang (mqtt T120)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.mqtt.codec.events import DisconnectReceived, PeerViolated
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.engine.publish_writer import encode_at_most_once
from support.hostile.mutated_bytes import ROUNDS, chance_of, mutated
from support.mqtt.conversation import WALL_MS, Conversation, all_rows, connected

LIMITS = MqttLimits(packet_bytes_max=4096, connect_bytes_max=4096)


def seeds(level: int) -> list[bytes]:
    """Valid packets to begin with."""
    rich = mqtt.payload_format() + mqtt.message_expiry(9) + mqtt.content_type("x") + mqtt.response_topic("r")
    rich += mqtt.correlation_data(b"\0") + mqtt.topic_alias(2) + mqtt.user_property("JMSXGroupID", "k")
    properties = rich if level == 5 else b""
    return [
        mqtt.connect("c", level=level, user_name="u", password=b"p", will=mqtt.WillPart(qos=1)),
        mqtt.publish("a/b", b"payload", level=level, properties=properties) * 3,
        mqtt.publish("a/b", b"payload", level=level) * 5,
        b"".join(mqtt.publish("a/b", b"payload", level=level, qos=1, packet_id=n) for n in range(1, 5)),
        mqtt.publish("é", b"", level=level, qos=2, packet_id=9, retain=True, properties=properties),
        b"".join(mqtt.puback(n) for n in range(1, 30)) + mqtt.pubrel(5) + mqtt.pubcomp(6),
        mqtt.subscribe(("a/#", 1), ("b", 2), level=level),
        mqtt.unsubscribe("a/#", "b", level=level),
        mqtt.pingreq() + mqtt.disconnect(),
        mqtt.auth(0x19) + mqtt.disconnect(4, mqtt.session_expiry(3)),
    ]


def check(conversation: Conversation) -> None:
    """What came out can be used: rows can be read and encoded, an end is the last event."""
    for event in conversation.events[:-1]:
        assert not isinstance(event, PeerViolated | DisconnectReceived)
    all_rows(conversation.events)
    for event in conversation.events:
        batch = getattr(event, "batch", None)
        if batch is not None:
            for level in (4, 5):
                assert len(mqtt.all_published(encode_at_most_once(batch, level, WALL_MS), level)) == batch.count
    conversation.packets()


@pytest.mark.parametrize("level", [3, 4, 5])
def test_mutated_packets_of_a_connected_client_give_events_only(level: int) -> None:
    chance = chance_of(20_000 + level)
    valid = seeds(level)
    for _ in range(ROUNDS // 3):
        conversation = connected(level, limits=LIMITS)
        stream = mutated(chance, b"".join(chance.choices(valid[1:], k=chance.randint(1, 3))))
        cut = chance.randint(0, len(stream))
        conversation.hears(stream[:cut])
        conversation.hears(stream[cut:])
        check(conversation)


@pytest.mark.parametrize("level", [3, 4, 5])
def test_mutated_connects_give_events_only(level: int) -> None:
    chance = chance_of(30_000 + level)
    rich = (
        mqtt.session_expiry(9)
        + mqtt.receive_maximum(5)
        + mqtt.authentication_method("M")
        + mqtt.user_property("a", "b")
    )
    will = mqtt.WillPart("w", b"p", 1, True, mqtt.will_delay(1) + mqtt.content_type("x") if level == 5 else b"")
    valid = mqtt.connect("c", level=level, user_name="u", password=b"p", will=will, properties=rich)
    for _ in range(ROUNDS // 3):
        conversation = Conversation(level, LIMITS)
        conversation.hears(mutated(chance, valid), mqtt.publish(level=level))
        check(conversation)
