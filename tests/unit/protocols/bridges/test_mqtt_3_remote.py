"""The MQTT 3.1.1 remote beside a foreign broker whose every packet is scripted: limits, silence, and subscriptions."""

from collections.abc import Iterator
from typing import Any

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.outcomes import REJECTED, RELEASED
from sluicegate.protocols.bridges.remotes.mqtt.mqtt_3 import Mqtt3Remote
from support.bridges.remote_side import RemoteSide
from support.bridges.scripted_mqtt import (
    DISCONNECT,
    PUBACK,
    PUBLISH,
    PUBREC,
    SUBSCRIBE,
    ScriptedBroker,
    connack,
    scripted,
)

IN_1 = [{"remote_topic": "a/#", "qos": 1}]
OUT_1 = [{"queue": "q", "qos": 1}]


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with scripted(level=4) as listening:
        yield listening


def side_of(broker: ScriptedBroker, **given: Any) -> RemoteSide:
    return RemoteSide(Mqtt3Remote, broker.port, mqtt_version="3.1.1", **given)


def test_a_released_message_is_not_acknowledged_nor_what_came_behind_it(broker: ScriptedBroker) -> None:
    """It was not stored; so the foreign broker has to send it again."""
    side = side_of(broker, incoming=IN_1)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        connection.send(*[mqtt.publish("a/1", b"%d" % number, qos=1, packet_id=number) for number in (1, 2, 3)])
        side.arrived(b"1", b"2", b"3")
        side.settle(b"1")
        assert connection.gets(PUBACK) == [1]
        side.settle(b"2", outcome=RELEASED)
        side.settle(b"3")
        side.line.close()
        assert connection.packet().kind == DISCONNECT
    side.ends()


# --- silence, and slowness that is none ---


def test_a_broker_that_falls_silent_is_given_up(broker: ScriptedBroker) -> None:
    """It is pinged, and answers nothing: the connection may be half open."""
    side = side_of(broker, incoming=IN_1, keep_alive_s=1)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        side.is_open()
        assert side.ends().reason == "the broker has been silent for 2 s, and did not answer a ping"


def test_a_broker_that_answers_pings_is_kept(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=IN_1, keep_alive_s=1)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        for _ in range(3):
            connection.pinged()
        connection.send(mqtt.publish("a/1", b"1", qos=1, packet_id=1))
        side.arrived(b"1")
        side.close()


@pytest.mark.slow
def test_a_broker_may_confirm_as_late_as_it_likes(broker: ScriptedBroker) -> None:
    """amqtt's own client waits for five seconds."""
    side = side_of(broker, outgoing=OUT_1, keep_alive_s=1)
    side.connect()
    with broker.accepts() as connection:
        side.send(b"1")
        got = connection.published()
        for _ in range(6):
            connection.pinged()
        connection.send(mqtt.puback(got.packet_id))
        side.until(lambda news: news.confirmed == [256])
        side.close()


# --- back-pressure ---


def test_no_more_than_two_windows_wait_for_the_bridge(broker: ScriptedBroker) -> None:
    """MQTT 3.1.1 has no Receive Maximum: the socket is not read until there is room."""
    side = side_of(broker, incoming=IN_1, window_messages=2, keep_alive_s=1)
    payloads = [b"%d" % number for number in range(1, 51)]
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        connection.send(
            *[mqtt.publish("a/1", each, qos=1, packet_id=index) for index, each in enumerate(payloads, start=1)]
        )
        side.until(lambda news: len(news.arrivals) >= 4)
        for _ in range(3):  # a peer that is not listened to is not silent, and is told that the bridge lives
            connection.pinged()
        side.arrived(*payloads[:4])
        for index, each in enumerate(payloads):
            side.until(lambda news, count=index: len(news.arrivals) > count)  # type: ignore[misc]  # bound at once
            side.settle(each)
        assert connection.gets(PUBACK, 50) == [*range(1, 51)]
        side.arrived(*payloads)
        side.close()


def test_large_messages_use_the_window_in_bytes(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=IN_1, window_bytes=65_536, keep_alive_s=1)
    payloads = [bytes([number]) * 40_000 for number in range(10)]
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        connection.send(
            *[mqtt.publish("a/1", each, qos=1, packet_id=index) for index, each in enumerate(payloads, start=1)]
        )
        connection.pinged()
        side.arrived(*payloads[:4])
        side.settle(payloads[0])
        side.arrived(*payloads[:5])
        side.close()


def test_confirmations_are_read_while_one_window_is_used_up(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=IN_1, outgoing=OUT_1, window_messages=2)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        connection.send(*[mqtt.publish("a/1", b"%d" % number, qos=1, packet_id=number) for number in (1, 2)])
        side.arrived(b"1", b"2")
        side.send(b"out")
        connection.send(mqtt.puback(connection.published().packet_id))
        side.until(lambda news: news.confirmed == [256])
        side.close()


@pytest.mark.slow
def test_a_broker_that_takes_no_answers_is_not_read(broker: ScriptedBroker) -> None:
    """They would fill the memory. It is silent then, as far as can be seen."""
    side = side_of(broker, incoming=IN_1, keep_alive_s=1)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        side.is_open()
        connection.takes_little()
        connection.sends_until_it_breaks(mqtt.pubrel(1))
        assert side.ends().reason == "the broker has been silent for 2 s, and did not answer a ping"


def test_no_more_messages_than_the_window_are_under_way(broker: ScriptedBroker) -> None:
    side = side_of(broker, outgoing=OUT_1, window_messages=2, keep_alive_s=1)
    side.connect()
    with broker.accepts() as connection:
        side.send(b"1", b"2", b"3")
        assert [connection.published().payload for _ in range(2)] == [b"1", b"2"]
        connection.pinged()  # nothing else is sent
        connection.send(mqtt.puback(1))
        third = connection.published()
        assert (third.payload, third.packet_id) == (b"3", 1)
        side.close()


# --- packets that are too large ---


def test_a_message_that_is_too_large_to_go_out_is_rejected(broker: ScriptedBroker) -> None:
    """A foreign broker that does not take it could say so by closing the connection only, each time again."""
    side = side_of(broker, outgoing=OUT_1, maximum_packet_size=2048)
    side.connect()
    with broker.accepts() as connection:
        side.send(b"x" * 2048, b"small")
        assert connection.published().payload == b"small"
        [refused] = side.until(lambda news: news.refused).refused
        assert (refused.number, refused.outcome) == (256, REJECTED)
        assert refused.reason.endswith("maximum_packet_size: 2048")
        side.close()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_that_is_too_large_to_come_in_is_invalid(broker: ScriptedBroker, qos: int) -> None:
    """Its payload is not kept while it comes in; those behind it come as ever."""
    side = side_of(broker, incoming=IN_1, maximum_packet_size=1024)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        large = mqtt.publish("a/large", b"x" * 3_000_000, qos=qos, packet_id=7)
        for end in range(1, 20):
            connection.send(large[end - 1 : end])
        connection.send(large[19:], mqtt.publish("a/1", b"small", qos=1, packet_id=8))
        side.arrived(b"", b"small")
        first, second = side.news.arrivals
        assert (first.topic, first.qos, second.fault) == ("a/large", qos, "")
        assert first.fault == f"its packet is too large: {3_000_009 + (2 if qos else 0)} bytes"
        side.settle(b"", b"small")
        assert connection.gets(PUBREC if qos == 2 else PUBACK) == [7 if qos else 8]
        side.close()


def test_only_a_message_may_be_large(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=IN_1, maximum_packet_size=1024)
    side.connect()
    with broker.accepts() as connection:
        connection.send(b"\x90\x80\x80\x80\x01")
        assert "malformed packet" in side.ends().reason


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
        with side.held(lambda: connection.send(mqtt.publish("a/1", b"in"))):
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
        connection.send(
            *[mqtt.publish("a/1", each, qos=1, packet_id=index) for index, each in enumerate(payloads, start=1)]
        )
        side.until(lambda news: len(news.arrivals) >= 2)
        side.settle(side.news.arrivals[0].payload)
        side.line.close()
        assert connection.gets(PUBACK) == [1]
        assert connection.packet().kind == DISCONNECT
        connection.ends()
    assert side.ends().reason == ""


# --- the connection and its subscriptions ---


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (5, "Not authorized (5)"),
        (2, "Identifier rejected (2)"),
        (77, "for a reason that MQTT 3.1.1 does not have (77)"),
    ],
)
def test_a_refused_connection_says_why(broker: ScriptedBroker, code: int, text: str) -> None:
    side = side_of(broker, outgoing=OUT_1)
    side.connect()
    with broker.accepts(reason=code):
        assert side.ends().reason == f"the connection was refused: {text}"


def test_a_session_is_kept_unless_it_is_to_expire_at_once(broker: ScriptedBroker) -> None:
    """[MQTT 3.1.2-4]: a session of MQTT 3.1.1 is kept for good, or not at all."""
    for expiry_s, clean in ((86_400, 0), (0, 2)):
        side = side_of(broker, outgoing=OUT_1, session_expiry_s=expiry_s)
        side.connect()
        with broker.accepts():
            side.is_open()
            side.close()
        assert broker.connect.body[7] == clean


def test_a_lower_qos_than_a_rule_wants_is_reported(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=[*IN_1, {"remote_topic": "b/#", "qos": 2}])
    side.connect()
    with broker.accepts() as connection:
        connection.grants(0, 2)
        side.is_open()
        [shortfall] = side.news.lowered
        assert shortfall.is_incoming
        assert (shortfall.rule, shortfall.text) == (0, "the foreign broker grants QoS 0; the rule asks for 1")
        side.close()


def test_a_refused_subscription_ends_the_connection(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=[*IN_1, {"remote_topic": "b/#"}])
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1, 0x80)
        assert side.ends().reason == "the subscription 'b/#' was refused"


def test_filters_of_an_earlier_configuration_are_unsubscribed_from(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=IN_1, stale_filters=("old/#", "older/+"))
    side.connect()
    with broker.accepts(session_present=True) as connection:
        connection.grants(1)
        assert connection.lets_go() == ["old/#", "older/+"]
        side.is_open()
        side.close()


def test_a_broker_that_does_not_answer_is_given_up(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names the packet that has no answer."""
    monkeypatch.setattr("sluicegate.protocols.bridges.remotes.mqtt.mqtt_3.CONNECT_S_MAX", 1)
    side = side_of(broker, incoming=IN_1, stale_filters=("old/#",))
    side.connect()
    with broker.connects():
        assert side.ends().reason == "no answer to CONNECT within 1 s"
    side.connect()
    with broker.accepts(session_present=True):
        assert side.ends().reason == "no answer to SUBSCRIBE within 1 s"
    side.connect()
    with broker.accepts(session_present=True) as connection:
        connection.grants(1)
        assert side.ends().reason == "no answer to UNSUBSCRIBE within 1 s"


def test_a_short_keep_alive_does_not_shorten_the_wait_for_connack(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.protocols.bridges.remotes.mqtt.mqtt_3.CONNECT_S_MAX", 3)
    side = side_of(broker, outgoing=OUT_1, keep_alive_s=1)
    side.connect()
    with broker.connects():
        assert side.ends().reason == "no answer to CONNECT within 3 s"


def test_subscriptions_are_asked_for_in_a_session_that_is_present_too(broker: ScriptedBroker) -> None:
    """A broker that crashed may have brought back an older state of the session, without them."""
    side = side_of(broker, incoming=[*IN_1, {"remote_topic": "b/#", "qos": 2}])
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1, 1)
        side.is_open()
    side.ends()
    side.connect()
    with broker.accepts(session_present=True) as connection:
        assert connection.grants(1, 1).kind == SUBSCRIBE
        side.is_open()
        assert [each.rule for each in side.news.lowered] == [1, 1]
        side.close()


def test_a_new_session_has_nothing_to_unsubscribe_from(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=IN_1, stale_filters=("old/#",))
    side.connect()
    with broker.accepts() as connection:
        assert connection.grants(1).kind == SUBSCRIBE
        side.is_open()
        side.close()


@pytest.mark.parametrize(("qos", "answer"), [(1, PUBACK), (2, PUBREC)])
def test_a_message_of_no_rule_is_counted_and_acknowledged(broker: ScriptedBroker, qos: int, answer: int) -> None:
    side = side_of(broker, incoming=IN_1)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        connection.send(mqtt.publish("old/1", b"1", qos=qos, packet_id=7), mqtt.publish("old/1", b"2"))
        assert connection.gets(answer) == [7]
        side.until(lambda news: news.unmatched_count == 2)
        assert not side.news.arrivals
        side.close()


@pytest.mark.parametrize(
    "malformed",
    [
        b"\x50\x01\x00",
        b"\x40\x02\x00\x00",
        b"\x41\x02\x00\x01",
        b"\x40\x03\x00\x01\x00",
        b"\x36\x07\x00\x01a\x00\x01hi",
        b"\x30\x04\x00\x02\xff\xfe",
        b"\x30\x03\x00\x01#",
        b"\x32\x05\x00\x01a\x00\x00",
        b"\x30\x02\x00\x09",
        b"\x10\xff\xff\xff\x7f",
        b"\x30\xff\xff\xff\xff\x7f",
        b"\x90\x03\xff\xff\x03",
    ],
    ids=[
        "short",
        "no identifier",
        "flags",
        "bytes behind it",
        "QoS 3",
        "no UTF-8",
        "wildcard",
        "PUBLISH without identifier",
        "topic beyond the end",
        "a client's packet",
        "length",
        "granted QoS 3",
    ],
)
def test_a_malformed_packet_is_a_fault_of_the_foreign_broker(broker: ScriptedBroker, malformed: bytes) -> None:
    side = side_of(broker, outgoing=OUT_1)
    side.connect()
    with broker.accepts() as connection:
        side.is_open()
        connection.send(malformed)
        ended = side.ends()
    assert "malformed packet" in ended.reason
    assert not ended.is_fault


@pytest.mark.parametrize(
    "packets",
    [[mqtt.publish("a/1", b"1")], [b"\xd0\x00"], [b"\x20\x02\x02\x00"], [connack(level=4), connack(level=4)]],
    ids=["PUBLISH", "PINGRESP", "reserved flag", "two CONNACKs"],
)
def test_nothing_comes_before_connack_and_that_once(broker: ScriptedBroker, packets: list[bytes]) -> None:
    """[MQTT 3.2.0-1], 3.2.2.1. A message would be stored that no session knows of."""
    side = side_of(broker, incoming=IN_1)
    side.connect()
    with broker.connects() as connection:
        connection.send(*packets)
        assert "malformed packet" in side.ends().reason
    assert not side.news.arrivals


@pytest.mark.parametrize("answer", [b"\x90\x03\xff\xff\x01", b"\x90\x03\x00\x01\x01", b"\xb0\x02\xff\xfe"])
def test_an_answer_to_nothing_is_a_fault_of_the_foreign_broker(broker: ScriptedBroker, answer: bytes) -> None:
    side = side_of(broker, incoming=IN_1)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        side.is_open()
        connection.send(answer)
        assert "malformed packet" in side.ends().reason


def test_a_packet_may_come_in_pieces(broker: ScriptedBroker) -> None:
    side = side_of(broker, incoming=IN_1)
    whole = mqtt.publish("a/1", b"x" * 300, qos=1, packet_id=1)
    side.connect()
    with broker.accepts() as connection:
        connection.grants(1)
        side.is_open()
        for byte in whole:
            connection.send(bytes([byte]))
        side.arrived(b"x" * 300)
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
