"""Connections are cut and refused, and clients notice."""

import pytest

import sluicegate
from sluicegate.testing import Broker
from support.mqtt.device import WITHIN_S, Device, device


def test_one_client_is_cut_off_and_may_come_back(broker: Broker) -> None:
    wills = broker.collect("wills/>")
    with device(broker, "one", will="wills/one") as one, device(broker, "other", will="wills/other") as other:
        assert broker.clients() == ["one", "other"]
        assert broker.cut("one") == 1
        assert one.lost.wait(WITHIN_S)
        one.connected.get(timeout=WITHIN_S)
        assert not other.lost.is_set()
        broker.wait_for_messages(wills)
        assert [each.text for each in broker.drain(wills)] == ["one"]
        broker.wait_for_client("one")
    assert broker.cut("nobody") == 0


def test_all_clients_are_cut_off_at_once_and_get_their_messages_again(broker: Broker) -> None:
    broker.create_queue("orders")
    broker.publish(sluicegate.Message(b"1", queue="orders"))
    with (
        device(broker, "device") as one,
        sluicegate.BlockingClient(broker.flow_url) as client,
        client.consumer("orders") as consumer,
    ):
        assert consumer.receive(timeout_s=WITHIN_S).redelivered is False
        assert broker.cut() == 2
        assert one.lost.wait(WITHIN_S)
        again = consumer.receive(timeout_s=WITHIN_S)
        assert again.redelivered is True
        again.accept()
        broker.wait_until_empty("orders")


def test_connections_are_refused_for_a_while_and_those_that_are_open_stay(broker: Broker) -> None:
    broker.create_queue("orders")
    with device(broker, "early") as early:
        with broker.refusing():
            with pytest.raises(ConnectionRefusedError):
                Device(broker, "late")
            early.client.publish("$queue/orders", b"1", qos=1).wait_for_publish(WITHIN_S)
            assert [each.text for each in broker.drain("orders")] == ["1"]
        with device(broker, "late"):
            assert broker.clients() == ["early", "late"]
        assert not early.lost.is_set()


def test_a_stop_during_a_refusal_ends_it(broker: Broker) -> None:
    with broker.refusing():
        broker.stop()
    broker.start()
    with device(broker, "device"):
        assert broker.clients() == ["device"]


def test_a_client_that_is_not_there_is_named_with_those_that_are(broker: Broker) -> None:
    with device(broker, "device"), pytest.raises(TimeoutError, match=r"'other' is not connected, only \['device'\]"):
        broker.wait_for_client("other", within_s=0)
