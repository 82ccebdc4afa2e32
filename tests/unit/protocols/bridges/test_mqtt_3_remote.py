"""The MQTT 3.1.1 remote beside a foreign broker whose every packet is scripted."""

from collections.abc import Iterator
from typing import Any

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.outcomes import RELEASED
from sluicegate.protocols.bridges.remotes.mqtt_3 import Mqtt3Remote
from support.bridges.remote_side import RemoteSide
from support.bridges.scripted_mqtt import DISCONNECT, PUBACK, ScriptedBroker, scripted

IN_1 = [{"remote_topic": "a/#", "qos": 1}]


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
