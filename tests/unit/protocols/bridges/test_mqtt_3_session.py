"""The MQTT 3.1.1 remote beside a scripted foreign broker: states of messages that outlive a connection."""

from collections.abc import Iterator
from typing import Any

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.outcomes import RELEASED
from sluicegate.protocols.bridges.remotes.mqtt.mqtt_3 import Mqtt3Remote
from support.bridges.remote_side import RemoteSide
from support.bridges.scripted_mqtt import PUBCOMP, PUBREC, PUBREL, ScriptedBroker, scripted

OUT_1 = [{"queue": "q", "qos": 1}]
OUT_2 = [{"queue": "q", "qos": 2}]
IN_2 = [{"remote_topic": "a/#", "qos": 2}]


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with scripted(level=4) as listening:
        yield listening


def side_of(broker: ScriptedBroker, **given: Any) -> RemoteSide:
    return RemoteSide(Mqtt3Remote, broker.port, mqtt_version="3.1.1", **given)


def publish(payload: bytes, packet_id: int, *, dup: bool = False) -> bytes:
    return mqtt.publish("a/1", payload, qos=2, packet_id=packet_id, dup=dup)


def send_and_cut(broker: ScriptedBroker, side: RemoteSide, *payloads: bytes, is_first_released: bool = True) -> None:
    """Publish with QoS 2 over a first connection, have PUBREC come for the first of them, and cut the connection."""
    side.connect()
    with broker.accepts() as connection:
        side.send(*payloads, qos=2)
        assert [connection.published().packet_id for _ in payloads] == [*range(1, len(payloads) + 1)]
        if is_first_released:
            connection.send(mqtt.pubrec(1))
            assert connection.gets(PUBREL) == [1]
    side.ends()


def receive_and_cut(broker: ScriptedBroker, side: RemoteSide, payload: bytes, packet_id: int, *, stores: bool) -> None:
    """Receive a message of QoS 2 over a first connection, store it or not, and cut the connection."""
    side.connect()
    with broker.accepts() as connection:
        connection.grants(2)
        connection.send(publish(payload, packet_id))
        side.arrived(payload)
        if stores:
            side.settle(payload)
            assert connection.gets(PUBREC) == [packet_id]
    side.ends()


# --- outgoing: what the foreign broker has of ours ---


def test_what_was_not_confirmed_is_repeated_in_order_when_the_session_is_there(broker: ScriptedBroker) -> None:
    """[MQTT 4.4.0-1], [MQTT 4.6.0-1]: PUBLISH with DUP and its identifier, PUBREL where PUBREC had come."""
    side = side_of(broker, outgoing=OUT_2)
    send_and_cut(broker, side, b"1", b"2", b"3")
    side.connect()
    with broker.accepts(session_present=True) as connection:
        assert connection.gets(PUBREL) == [1]
        again = [connection.published() for _ in range(2)]
        assert [(each.payload, each.packet_id, each.dup) for each in again] == [(b"2", 2, True), (b"3", 3, True)]
        connection.send(mqtt.pubcomp(1), mqtt.pubrec(2), mqtt.pubrec(3))
        assert connection.gets(PUBREL, 2) == [2, 3]
        connection.send(mqtt.pubcomp(2), mqtt.pubcomp(3))
        side.until(lambda news: news.confirmed == [256, 512, 768])
        side.close()


def test_what_was_not_confirmed_begins_anew_when_the_session_is_lost(broker: ScriptedBroker) -> None:
    """Session Present 0: PUBREL alone would lose a message that the foreign broker has forgotten."""
    side = side_of(broker, outgoing=OUT_2)
    send_and_cut(broker, side, b"1", b"2")
    side.connect()
    with broker.accepts() as connection:
        again = [connection.published() for _ in range(2)]
        assert [(each.payload, each.dup) for each in again] == [(b"1", False), (b"2", False)]
        side.close()


def test_a_refused_connection_changes_nothing_of_what_is_under_way(broker: ScriptedBroker) -> None:
    """[MQTT 3.2.2-4]: a refusal says that no session is present, whether or not there is one."""
    side = side_of(broker, outgoing=OUT_2)
    send_and_cut(broker, side, b"1")
    side.connect()
    with broker.accepts(reason=3):
        side.ends()
    side.connect()
    with broker.accepts(session_present=True) as connection:
        assert connection.gets(PUBREL) == [1], "and not PUBLISH"
        connection.send(mqtt.pubcomp(1))
        side.until(lambda news: news.confirmed == [256])
        side.close()


def test_more_than_fits_into_the_output_is_repeated_before_new_messages(broker: ScriptedBroker) -> None:
    side = side_of(broker, outgoing=OUT_1)
    large = [bytes([number]) * 400_000 for number in range(1, 6)]
    side.connect()
    with broker.accepts() as connection:
        side.send(*large)
        assert [connection.published().payload for _ in range(5)] == large
    side.ends()
    side.send(b"new")
    side.connect()
    with broker.accepts(session_present=True) as connection:
        again = [connection.published() for _ in range(6)]
        assert [each.payload for each in again] == [*large, b"new"]
        assert [each.dup for each in again] == [True] * 5 + [False]
        side.close()


def test_identifiers_of_an_earlier_run_are_released_before_they_are_used(broker: ScriptedBroker) -> None:
    """The foreign broker would take a new message of QoS 2 under such an identifier for a repetition, and drop it."""
    side = side_of(broker, outgoing=OUT_2, window_messages=3)
    side.connect()
    with broker.accepts(session_present=True) as connection:
        side.send(b"1", qos=2)
        assert connection.gets(PUBREL, 3) == [1, 2, 3]
        connection.send(mqtt.pubcomp(1))
    side.ends()
    side.connect()
    with broker.accepts(session_present=True) as connection:
        released = connection.gets(PUBREL, 2)
        assert set(released) < {1, 2, 3}
        connection.send(*[mqtt.pubcomp(each) for each in (1, 2, 3)])
        if 1 in released:
            connection.gets(PUBREL)
        assert connection.published().payload == b"1"
        side.close()


def test_a_broker_that_does_not_answer_a_release_on_suspicion_holds_up_nothing(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MQTT 3.1.1 does not say what PUBREL for an unknown identifier is answered with."""
    monkeypatch.setattr("sluicegate.protocols.bridges.remotes.mqtt.mqtt_3.CONNECT_S_MAX", 1)
    side = side_of(broker, outgoing=OUT_2, window_messages=2, keep_alive_s=1)
    side.connect()
    with broker.accepts(session_present=True) as connection:
        side.send(b"1", qos=2)
        assert connection.gets(PUBREL, 2) == [1, 2]
        assert connection.published().payload == b"1"
        connection.send(mqtt.pubcomp(1), mqtt.pubcomp(2))  # late, and for no message of this run
        connection.send(mqtt.pubrec(1))
        assert connection.gets(PUBREL) == [1]
        assert not side.news.confirmed
        connection.send(mqtt.pubcomp(1))
        side.until(lambda news: news.confirmed == [256])
        side.close()


def test_a_repeated_pubcomp_confirms_no_later_message(broker: ScriptedBroker) -> None:
    """PUBREL went twice, so PUBCOMP comes twice; the second belongs to none that is under way."""
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


def test_no_more_messages_of_qos_2_are_under_way_than_mosquitto_takes(broker: ScriptedBroker) -> None:
    """It closes the connection at the 21st, and MQTT 3.1.1 has no way to say so."""
    side = side_of(broker, outgoing=OUT_2, keep_alive_s=1)
    side.connect()
    with broker.accepts() as connection:
        side.send(*[b"%d" % number for number in range(25)], qos=2)
        assert [connection.published().packet_id for _ in range(20)] == [*range(1, 21)]
        connection.pinged()  # nothing else is sent
        connection.send(mqtt.pubrec(1), mqtt.pubcomp(1))
        assert connection.gets(PUBREL) == [1]
        assert connection.published().payload == b"20"
        side.close()


# --- incoming: what we have of the foreign broker's ---


def test_a_message_that_is_stored_is_acknowledged_again_and_arrives_once(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=IN_2)
    receive_and_cut(broker, side, b"1", 7, stores=True)
    side.connect()
    with broker.accepts(session_present=True) as connection:
        connection.grants(2)
        connection.send(publish(b"1", 7, dup=True))
        assert connection.gets(PUBREC) == [7]
        connection.send(mqtt.pubrel(7))
        assert connection.gets(PUBCOMP) == [7]
        connection.send(publish(b"2", 7))
        side.arrived(b"1", b"2")
        side.close()


def test_a_message_that_is_repeated_while_it_is_stored_arrives_once(broker: ScriptedBroker) -> None:
    """[MQTT 4.3.3]: some brokers of 3.1.1 repeat PUBLISH on the same connection when PUBREC takes long."""
    side = side_of(broker, incoming=IN_2)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(2)
        connection.send(publish(b"1", 7), publish(b"1", 7, dup=True), publish(b"2", 8))
        side.arrived(b"1", b"2")
        side.settle(b"1", b"2")
        assert connection.gets(PUBREC, 2) == [7, 8]
        side.close()


def test_a_repeated_message_is_acknowledged_behind_those_that_came_before_it(broker: ScriptedBroker) -> None:
    """[MQTT 4.6.0-2]: PUBREC goes in the order of PUBLISH, so also for one that was stored on an earlier connection."""
    side = side_of(broker, incoming=IN_2)
    receive_and_cut(broker, side, b"1", 7, stores=True)
    side.connect()
    with broker.accepts(session_present=True) as connection:
        connection.grants(2)
        connection.send(publish(b"2", 8), publish(b"1", 7, dup=True), mqtt.publish("other", b"3", qos=2, packet_id=9))
        side.arrived(b"1", b"2")
        side.until(lambda news: news.unmatched_count == 1)
        side.settle(b"2")
        assert connection.gets(PUBREC, 3) == [8, 7, 9]
        side.close()


def test_a_repetition_that_waits_does_not_acknowledge_the_next_message_of_its_identifier(
    broker: ScriptedBroker,
) -> None:
    """The foreign broker repeated PUBLISH while PUBREC was on its way to it, and then released the message."""
    side = side_of(broker, incoming=IN_2)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(2)
        connection.send(publish(b"1", 7))
        side.arrived(b"1")
        side.settle(b"1")
        assert connection.gets(PUBREC) == [7]
        connection.send(publish(b"2", 8), publish(b"1", 7, dup=True), mqtt.pubrel(7), publish(b"3", 7))
        assert connection.gets(PUBCOMP) == [7]
        side.arrived(b"1", b"2", b"3")
        side.settle(b"2")
        assert connection.gets(PUBREC) == [8]
        side.settle(b"3")
        assert connection.gets(PUBREC) == [7]
        side.close()


def test_a_lost_session_makes_every_identifier_new(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=IN_2)
    receive_and_cut(broker, side, b"1", 7, stores=True)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(2)
        connection.send(publish(b"other", 7))
        side.arrived(b"1", b"other")
        side.close()


def test_what_is_at_the_store_when_the_connection_is_cut_is_acknowledged_when_it_comes_again(
    broker: ScriptedBroker,
) -> None:
    side = side_of(broker, incoming=IN_2)
    receive_and_cut(broker, side, b"1", 1, stores=False)
    side.connect()
    with broker.accepts(session_present=True) as connection:
        connection.grants(2)
        connection.send(publish(b"1", 1, dup=True), publish(b"2", 2))
        side.arrived(b"1", b"2")
        side.settle(b"1", b"2")
        assert connection.gets(PUBREC, 2) == [1, 2]
        side.close()


def test_a_released_message_is_not_acknowledged_and_arrives_again(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=IN_2)
    receive_and_cut(broker, side, b"1", 1, stores=False)
    side.settle(b"1", outcome=RELEASED)
    side.connect()
    with broker.accepts(session_present=True) as connection:
        connection.grants(2)
        connection.send(publish(b"1", 1, dup=True))
        side.arrived(b"1", b"1")
        side.settle(b"1")
        assert connection.gets(PUBREC) == [1]
        side.close()
