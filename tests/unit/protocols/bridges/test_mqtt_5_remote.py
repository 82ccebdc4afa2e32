"""The MQTT 5 remote beside a foreign broker whose every packet is scripted: states that outlive a connection."""

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.outcomes import REJECTED, RELEASED
from sluicegate.protocols.bridges.remotes.mqtt import mqtt_5
from sluicegate.protocols.bridges.remotes.mqtt.mqtt_5 import Mqtt5Remote
from sluicegate.protocols.bridges.remotes.mqtt.paho_client import Packed, PahoClient
from sluicegate.protocols.bridges.remotes.sockets import READ_BYTES, TURN_BYTES_MAX
from support.bridges.remote_side import RemoteSide
from support.bridges.scripted_mqtt import (
    ANSWER_S,
    DISCONNECT,
    PUBACK,
    PUBLISH,
    PUBREC,
    PUBREL,
    ScriptedBroker,
    connack,
    scripted,
)

OUT_2 = [{"queue": "q", "qos": 2}]
TWO_IN_2 = [{"remote_topic": "a/#", "qos": 2}, {"remote_topic": "b/#", "qos": 2}]


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with scripted() as listening:
        yield listening


def side_of(broker: ScriptedBroker, **given: Any) -> RemoteSide:
    return RemoteSide(Mqtt5Remote, broker.port, **given)


def publish(topic: str, payload: bytes, packet_id: int, *, qos: int = 2, dup: bool = False) -> bytes:
    return mqtt.publish(topic, payload, level=5, qos=qos, packet_id=packet_id, dup=dup)


# --- outgoing: what the foreign broker has of ours ---


@pytest.mark.parametrize("reason", [0x86, 0x88, 0x89])
def test_a_refused_connection_changes_nothing_of_what_is_under_way(broker: ScriptedBroker, reason: int) -> None:
    """[MQTT 3.2.2-6]: a refusal says that no session is present, whether or not there is one."""
    side = side_of(broker, outgoing=OUT_2)
    side.connect()
    with broker.accepts() as connection:
        side.send(b"1", qos=2)
        assert connection.packet().kind == PUBLISH
        packet_id = 1
        connection.send(mqtt.pubrec(packet_id))
        assert connection.gets(PUBREL) == [packet_id]
    side.ends()
    side.connect()
    with broker.accepts(reason=reason):
        assert f"0x{reason:02x}" in side.ends().reason
    side.connect()
    with broker.accepts(session_present=True) as connection:
        assert connection.gets(PUBREL) == [packet_id], "and not PUBLISH"
        connection.send(mqtt.pubcomp(packet_id))
        side.until(lambda news: news.confirmed == [256])
        side.close()


def test_a_refused_connection_does_not_make_a_repeated_message_new(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=TWO_IN_2)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(2, 2)
        connection.send(publish("a/1", b"1", 7))
        side.arrived(b"1")
        side.settle(b"1")
        assert connection.gets(PUBREC) == [7]
    side.ends()
    side.connect()
    with broker.accepts(reason=0x88):
        side.ends()
    side.connect()
    with broker.accepts(session_present=True) as connection:
        connection.grants(2, 2)
        connection.send(publish("a/1", b"1", 7, dup=True))
        assert connection.gets(PUBREC) == [7]
        side.arrived(b"1")
        side.close()


def test_nothing_waits_for_the_next_look_at_the_keep_alive(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mqtt_5, "_TICK_S", 2.0 * ANSWER_S)
    side = side_of(broker, outgoing=OUT_2)
    side.connect()
    with broker.accepts() as connection:
        side.is_open()
        side.send(b"1", qos=2)
        assert connection.packet().kind == PUBLISH
        side.close()
        assert connection.packet().kind == DISCONNECT


def release_ids(broker: ScriptedBroker, side: RemoteSide) -> None:
    """Connect to a session of an earlier run, and lose the connection before PUBCOMP."""
    side.connect()
    with broker.accepts(session_present=True) as connection:
        assert connection.gets(PUBREL, 3) == [1, 2, 3]
        connection.send(mqtt.pubcomp(1, 0x92))
        side.send(b"1", qos=2)
    side.ends()


def test_packet_ids_whose_release_was_cut_off_are_released_again(broker: ScriptedBroker) -> None:
    side = side_of(broker, outgoing=OUT_2, window_messages=3)
    release_ids(broker, side)
    side.connect()
    with broker.accepts(session_present=True) as connection:
        got = connection.gets(PUBREL, 2)
        assert set(got) <= {1, 2, 3}
        for packet_id in got:
            connection.send(mqtt.pubcomp(packet_id, 0x92))
        if 1 in got:
            connection.send(*[mqtt.pubcomp(each, 0x92) for each in connection.gets(PUBREL)])
        assert connection.packet().kind == PUBLISH
        side.close()


def test_a_foreign_broker_that_has_lost_the_session_has_nothing_to_release(broker: ScriptedBroker) -> None:
    side = side_of(broker, outgoing=OUT_2, window_messages=3)
    release_ids(broker, side)
    side.connect()
    with broker.accepts() as connection:
        assert connection.packet().kind == PUBLISH
        side.close()


@pytest.mark.parametrize(("qos", "properties"), [(1, b""), (2, mqtt.byte_property(36, 1))])
def test_packet_ids_are_released_only_where_qos_2_is_used(broker: ScriptedBroker, qos: int, properties: bytes) -> None:
    """Foreign brokers without QoS 2 may take PUBREL for an error; they say so with Maximum QoS."""
    side = side_of(broker, outgoing=[{"queue": "q", "qos": qos}])
    side.connect()
    with broker.accepts(session_present=True, properties=properties) as connection:
        side.send(b"1", qos=qos)
        assert connection.packet().kind == PUBLISH
        side.close()


def test_a_message_of_qos_0_that_the_socket_has_taken_goes_at_most_once(broker: ScriptedBroker) -> None:
    """The connection ends while the socket takes no more: what was written is not sent again."""
    side = side_of(broker, outgoing=[{"queue": "q", "qos": 0}])
    side.connect()
    with broker.accepts() as connection:
        side.send(*[b"%d" % number * 200_000 for number in range(60)], qos=0)
        received = [connection.packet() for _ in range(20)]
        assert [each.kind for each in received] == [PUBLISH] * 20
    side.ends()
    assert len(side.news.confirmed) >= 20
    assert not {*side.news.confirmed} & {each.number for each in side.news.refused}


def test_a_repeated_pubcomp_confirms_no_later_message(broker: ScriptedBroker) -> None:
    """mosquitto repeats PUBREC in a resumed session, and answers the repeated PUBLISH: PUBREL and PUBCOMP go twice."""
    side = side_of(broker, outgoing=OUT_2, window_messages=1)
    side.connect()
    with broker.accepts() as connection:
        side.send(b"1", b"2", qos=2)
        first = connection.published().packet_id
        connection.send(mqtt.pubrec(first), mqtt.pubrec(first))
        assert connection.gets(PUBREL, 2) == [first, first]
        connection.send(mqtt.pubcomp(first))
        second = connection.published().packet_id
        connection.send(mqtt.pubcomp(first), mqtt.pubrec(second))
        assert connection.gets(PUBREL) == [second]
        side.until(lambda news: news.confirmed == [256])
        connection.send(mqtt.pubcomp(second))
        side.until(lambda news: news.confirmed == [256, 512])
        side.close()


def test_a_pubrec_for_no_message_is_answered(broker: ScriptedBroker) -> None:
    """[MQTT 4.3.3-4]. Not released, the foreign broker would take a later message of this id for a repetition."""
    side = side_of(broker, outgoing=OUT_2)
    side.connect()
    with broker.accepts() as connection:
        side.is_open()
        connection.send(mqtt.pubrec(7))
        assert connection.gets(PUBREL) == [7]
        side.close()


def test_the_packet_id_that_was_longest_unused_is_the_next(broker: ScriptedBroker) -> None:
    """What comes late for an earlier message is then least likely to meet a new one."""
    side = side_of(broker, outgoing=[{"queue": "q"}], window_messages=3)
    side.connect()
    with broker.accepts() as connection:
        side.send(b"1", b"2", b"3")
        assert [connection.published().packet_id for _ in range(3)] == [1, 2, 3]
        connection.send(mqtt.puback(1), mqtt.puback(2), mqtt.puback(3))
        side.until(lambda news: len(news.confirmed) == 3)
        side.send(b"4", b"5")
        assert [connection.published().packet_id for _ in range(2)] == [1, 2]
        side.close()


# --- incoming: what we have of the foreign broker's ---


def test_what_was_settled_behind_another_message_is_not_waited_for_again(broker: ScriptedBroker) -> None:
    """PUBREC goes in order, so a stored message may wait for an earlier one, when the connection is cut."""
    side = side_of(broker, incoming=TWO_IN_2)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(2, 2)
        connection.send(publish("a/1", b"full", 1), publish("b/1", b"stored", 2))
        side.arrived(b"full", b"stored")
        side.settle(b"stored")
        side.send(b"marker", qos=0)
        assert connection.packet().kind == PUBLISH, "the settlement was taken"
    side.ends()
    side.settle(b"full", outcome=RELEASED)
    side.connect()
    with broker.accepts(session_present=True) as connection:
        connection.grants(2, 2)
        connection.send(publish("a/1", b"full", 1, dup=True), publish("b/1", b"stored", 2, dup=True))
        connection.send(publish("b/2", b"new", 3))
        side.arrived(b"full", b"stored", b"full", b"new")
        side.settle(b"full", b"new")
        assert connection.gets(PUBREC, 3) == [1, 2, 3], "in order [MQTT 4.6.0-2]"
        side.close()


def test_what_is_at_the_store_when_the_connection_is_cut_is_acknowledged_when_it_comes_again(
    broker: ScriptedBroker,
) -> None:
    side = side_of(broker, incoming=TWO_IN_2)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(2, 2)
        connection.send(publish("a/1", b"1", 1))
        side.arrived(b"1")
    side.ends()
    side.connect()
    with broker.accepts(session_present=True) as connection:
        connection.grants(2, 2)
        connection.send(publish("a/1", b"1", 1, dup=True), publish("a/1", b"2", 2))
        side.arrived(b"1", b"2")
        side.settle(b"1", b"2")
        assert connection.gets(PUBREC, 2) == [1, 2]
        side.close()


@pytest.mark.parametrize(("qos", "answer"), [(1, PUBACK), (2, PUBREC)])
def test_a_released_message_is_not_acknowledged(broker: ScriptedBroker, qos: int, answer: int) -> None:
    """It was not stored; so the foreign broker has to send it again."""
    side = side_of(broker, incoming=[{"remote_topic": "a/#", "qos": qos}])
    side.connect()
    with broker.accepts() as connection:
        connection.grants(qos)
        connection.send(publish("a/1", b"1", 1, qos=qos), publish("a/1", b"2", 2, qos=qos))
        side.arrived(b"1", b"2")
        side.settle(b"1")
        assert connection.gets(answer) == [1]
        side.settle(b"2", outcome=RELEASED)
        side.line.close()
        assert connection.packet().kind == DISCONNECT
    side.ends()
    side.connect()
    with broker.accepts(session_present=True) as connection:
        connection.grants(qos)
        connection.send(publish("a/1", b"2", 2, qos=qos, dup=True))
        side.arrived(b"1", b"2", b"2")
        side.settle(b"2")
        assert connection.gets(answer) == [2]
        side.close()


@pytest.mark.parametrize(
    "malformed",
    [b"\x50\x01\x00", b"\x62\x01\x00", b"\x32\x07\x00\x01a\x00\x01\xff\xff", b"\x40\x06\x00\x01\x80\xff\xff\xff"],
    ids=["PUBREC", "PUBREL", "PUBLISH", "PUBACK"],
)
def test_a_malformed_packet_is_a_fault_of_the_foreign_broker(broker: ScriptedBroker, malformed: bytes) -> None:
    """Taken for one of ours, it would have the bridge forget what is under way, and send it twice."""
    side = side_of(broker, outgoing=OUT_2)
    side.connect()
    with broker.accepts() as connection:
        side.is_open()
        connection.send(malformed)
        ended = side.ends()
    assert ended.reason
    assert not ended.is_fault


@pytest.mark.parametrize(
    "packets",
    [[publish("a/1", b"1", 0, qos=0)], [b"\xd0\x00"], [connack(session_present=True), connack()]],
    ids=["PUBLISH", "PINGRESP", "two CONNACKs"],
)
def test_nothing_comes_before_connack_and_that_once(broker: ScriptedBroker, packets: list[bytes]) -> None:
    """[MQTT 3.2.0-1], [MQTT 3.2.0-2]. A second one would clear the states of messages of QoS 2."""
    side = side_of(broker, incoming=TWO_IN_2)
    side.connect()
    with broker.connects() as connection:
        connection.send(*packets)
        assert "malformed packet" in side.ends().reason
    assert not side.news.arrivals


def test_a_foreign_broker_that_ignores_receive_maximum_is_served_and_told_of(broker: ScriptedBroker) -> None:
    """[MQTT 3.3.4-9]. mosquitto 2.0.11 would send the same messages again, as many, after each disconnection."""
    side = side_of(broker, incoming=[{"remote_topic": "a/#", "qos": 1}], window_messages=2)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        connection.send(*[publish("a/1", b"%d" % number, number, qos=1) for number in (1, 2, 3, 4)])
        side.arrived(b"1", b"2", b"3", b"4")
        side.settle(b"1", b"2", b"3", b"4")
        assert connection.gets(PUBACK, 4) == [1, 2, 3, 4]
        side.close()
    assert [each.text for each in side.news.lowered] == [
        "the foreign broker sends more than 2 unconfirmed messages, the Receive Maximum"
    ]


def test_a_foreign_broker_that_ignores_receive_maximum_does_not_fill_the_memory(broker: ScriptedBroker) -> None:
    """Beyond `window_bytes` nothing more is read. Its answers to PINGREQ wait there, and are not missed."""
    payloads = [b"%d" % number * 25_000 for number in range(10, 30)]
    side = side_of(broker, incoming=[{"remote_topic": "a/#"}], window_messages=2, window_bytes=65_536, keep_alive_s=2)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        connection.send(*[publish("a/1", each, number, qos=1) for number, each in enumerate(payloads, start=1)])
        for _ in range(2):  # longer than keep-alive: it would be given up
            connection.pinged()
        count = len(side.until(lambda news: len(news.arrivals) > 2).arrivals)
        assert count * 50_000 <= 65_536 + TURN_BYTES_MAX + READ_BYTES
        side.settle(*payloads[:count])
        assert connection.gets(PUBACK, count) == [*range(1, count + 1)]
        while count < len(payloads):
            side.until(lambda news, count=count: len(news.arrivals) > count)  # type: ignore[misc]
            before, count = count, len(side.news.arrivals)
            side.settle(*payloads[before:count])
        side.arrived(*payloads)
        side.close()


@pytest.mark.slow
def test_a_broker_that_takes_no_answers_is_not_read(broker: ScriptedBroker) -> None:
    """They would fill the memory. It is silent then, as far as can be seen."""
    side = side_of(broker, incoming=[{"remote_topic": "a/#"}], keep_alive_s=1)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        side.is_open()
        connection.takes_little()
        connection.sends_until_it_breaks(mqtt.pubrel(1))
        assert side.ends().reason == "no answer to PINGREQ within 1 s"


def test_a_lower_qos_than_a_rule_asks_for_is_told(broker: ScriptedBroker) -> None:
    """3.9.3: SUBACK says which QoS is granted. 3.2.2.3.4: CONNACK has the Maximum QoS."""
    side = side_of(broker, outgoing=OUT_2, incoming=TWO_IN_2)
    side.connect()
    with broker.accepts(properties=mqtt.byte_property(36, 1)) as connection:
        connection.grants(2, 1)
        side.is_open()
        side.close()
    assert [(each.is_incoming, each.rule, each.text) for each in side.news.lowered] == [
        (False, 0, "the foreign broker grants QoS 1; the rule asks for 2"),
        (True, 1, "the foreign broker grants QoS 1; the rule asks for 2"),
    ]


def test_filters_of_an_earlier_configuration_are_unsubscribed_from(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=[{"remote_topic": "a/#"}], stale_filters=("old/#", "older/+"))
    side.connect()
    with broker.accepts(session_present=True) as connection:
        connection.grants(1)
        assert connection.lets_go(0x87, 0) == ["old/#", "older/+"]
        side.is_open()
        assert side.news.opened is not None
        assert side.news.opened.still_subscribed == ("old/#",)
        side.close()


def test_a_message_of_no_rule_is_counted_and_acknowledged(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=[{"remote_topic": "a/#"}])
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        connection.send(publish("old/1", b"1", 7, qos=1))
        assert connection.gets(PUBACK) == [7]
        side.until(lambda news: news.unmatched_count == 1)
        side.close()


# --- packets that are too large ---


@pytest.mark.parametrize("theirs", [b"", b"\x27\x00\x00\x08\x00"], ids=["our limit", "their limit"])
def test_a_message_that_is_too_large_to_go_out_is_rejected(broker: ScriptedBroker, theirs: bytes) -> None:
    """3.2.2.3.6: the foreign broker's Maximum Packet Size. The smaller one counts."""
    ours = 1_000_000 if theirs else 2048
    side = side_of(broker, outgoing=OUT_2, maximum_packet_size=ours)
    side.connect()
    with broker.accepts(properties=theirs) as connection:
        side.send(b"x" * 2048, b"small")
        assert connection.published().payload == b"small"
        [refused] = side.until(lambda news: news.refused).refused
        assert (refused.number, refused.outcome) == (256, REJECTED)
        assert refused.reason.endswith(": 2048")
        side.close()


def test_a_foreign_broker_is_told_the_largest_packet_and_sends_no_larger_one(broker: ScriptedBroker) -> None:
    """[MQTT 3.1.2-24]. It is not received, so it does not fill the memory."""
    side = side_of(broker, incoming=TWO_IN_2, maximum_packet_size=1024)
    side.connect()
    with broker.accepts() as connection:
        assert b"\x27\x00\x00\x04\x00" in broker.connect.body
        connection.grants(2, 2)
        connection.send(publish("a/1", b"x" * 1024, 1)[:100])
        assert "allowed are 1024" in side.ends().reason


# --- the end of a connection ---


def test_a_message_that_a_broker_closes_the_connection_because_of_is_named(broker: ScriptedBroker) -> None:
    side = side_of(broker, outgoing=[{"queue": "q"}])
    reasons = []
    for number in range(3):
        side.connect()
        with broker.accepts(session_present=number > 0) as connection:
            if number == 0:
                side.send(b"good", b"poison!", b"good")
                connection.send(mqtt.puback(connection.published().packet_id))
                side.until(lambda news: news.confirmed)
            assert connection.published().payload == b"poison!"
        reasons.append(side.ends().reason)
    assert "message" not in reasons[0]
    assert "as before, the message to 'out' with 7 bytes" in reasons[1]
    assert "as before, the message to 'out' with 7 bytes" in reasons[2]
    side.connect()
    with broker.connects():
        pass  # it closes before it has got the message
    assert "message" not in side.ends().reason


def test_nothing_is_published_in_the_turn_that_ends_the_connection(broker: ScriptedBroker) -> None:
    """The queue gets it back, so it would come twice."""
    side = side_of(broker, outgoing=[{"queue": "q"}], incoming=[{"remote_topic": "a/#"}])
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        side.is_open()
        with side.held(lambda: connection.send(publish("a/1", b"in", 0, qos=0))):
            side.send(b"out")
            side.close()
        assert connection.packet().kind == DISCONNECT


def test_all_that_is_to_be_written_comes_before_the_end(broker: ScriptedBroker) -> None:
    side = side_of(broker, outgoing=[{"queue": "q", "qos": 0}])
    side.connect()
    with broker.accepts() as connection:
        side.send(b"1", b"x" * 12_000_000, qos=0)  # more than the socket takes at once
        side.until(lambda news: news.confirmed)
        side.line.close()
        while connection.packet().kind != DISCONNECT:
            pass
        connection.ends()
    side.ends()


def test_a_connection_is_not_reset_when_it_ends_with_messages_that_nobody_has_read(broker: ScriptedBroker) -> None:
    """The last acknowledgements would be lost with it, and messages come twice."""
    payloads = [b"%d" % number * 20_000 for number in range(10, 30)]
    side = side_of(broker, incoming=[{"remote_topic": "a/#"}], window_messages=1, window_bytes=65_536)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        connection.send(*[publish("a/1", each, index, qos=1) for index, each in enumerate(payloads, start=1)])
        side.until(lambda news: len(news.arrivals) >= 2)
        side.settle(side.news.arrivals[0].payload)
        side.line.close()
        assert connection.gets(PUBACK) == [1]
        assert connection.packet().kind == DISCONNECT
        connection.ends()
    assert side.ends().reason == ""


# --- time ---


def test_a_short_keep_alive_does_not_shorten_the_wait_for_connack(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.protocols.bridges.remotes.mqtt.mqtt_5.CONNECT_S_MAX", 3)
    side = side_of(broker, outgoing=OUT_2, keep_alive_s=1)
    side.connect()
    with broker.connects():
        assert side.ends().reason == "no answer to CONNECT within 3 s"


def test_a_connection_attempt_outlives_a_step_of_the_clock(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = side_of(broker, outgoing=OUT_2)
    side.connect()
    with broker.connects() as connection:
        ahead_ns = time.time_ns() + 3600 * 1_000_000_000
        monkeypatch.setattr(time, "time_ns", lambda: ahead_ns)
        side.send(b"1")  # it looks at the time
        connection.send(connack())
        side.is_open()
        side.close()


def test_bytes_to_be_written_are_counted_when_a_packet_is_queued() -> None:
    """So that it costs the same however many packets wait."""
    client = PahoClient("c", received=lambda *_: None, confirmed=lambda *_: None, packet_bytes_max=1 << 20)
    ours, theirs = socket.socketpair()
    with theirs:
        client._sock = ours
        for number in range(1, 1001):
            client.publish_as("t", b"x" * 100, qos=0, retain=False, properties=Packed(b""))
            assert client.output_bytes == number * (2 + 3 + 1 + 100)
        assert not client._out_packet, "paho's own queue, which knows no sizes"
        client.close()
