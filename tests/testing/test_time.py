"""The broker's clock is put forward, and what is due happens before the test goes on."""

import pytest

import sluicegate
from sluicegate.testing import Broker
from support.foreign.paho_client import PahoClient
from support.mqtt.device import WITHIN_S, device
from support.processes.gateway import wait_until

HOUR_S = 3600


def test_messages_expire_and_go_to_the_dead_message_queue(broker: Broker) -> None:
    broker.create_queue("dead")
    broker.create_queue("orders", dead_msg_queue="dead", respect_ttl_enabled=True)
    for payload, ttl_ms in ((b"short", 60_000), (b"long", 2 * HOUR_S * 1000), (b"ever", 0)):
        broker.publish(sluicegate.Message(payload, queue="orders", ttl_ms=ttl_ms, dmq_eligible=True))
    broker.forward(59)
    assert [each.text for each in broker.browse("orders")] == ["short", "long", "ever"]
    broker.forward(2)
    broker.wait_for_messages("dead")
    assert [each.text for each in broker.browse("orders")] == ["long", "ever"]
    [dead] = broker.drain("dead")
    assert (dead.text, dead.dead_reason, dead.dead_queue) == ("short", "expired", "orders")
    broker.forward(3 * HOUR_S)
    assert [each.text for each in broker.drain("orders")] == ["ever"]


def test_delayed_messages_are_delivered(broker: Broker) -> None:
    broker.create_queue("orders")
    broker.publish(sluicegate.Message(b"later", queue="orders", delay_ms=HOUR_S * 1000))
    state = broker.queue("orders")
    assert (state.message_count, state.ready_count) == (1, 0)
    broker.forward(HOUR_S)
    assert broker.queue("orders").ready_count == 1


def test_failed_messages_come_again_after_their_delay(broker: Broker) -> None:
    broker.create_queue(
        "orders",
        redelivery_delay_enabled=True,
        redelivery_delay_initial_interval_ms=HOUR_S * 1000,
        redelivery_delay_max_interval_ms=HOUR_S * 1000,
    )
    broker.publish(sluicegate.Message(b"1", queue="orders"))
    with sluicegate.BlockingClient(broker.flow_url) as client, client.consumer("orders") as consumer:
        consumer.receive(timeout_s=WITHIN_S).fail()
        # Settlements are not answered: the broker has it when the message is nobody's.
        wait_until(lambda: not broker.queue("orders").unacked_count, within_s=WITHIN_S, what="the settlement")
        broker.forward(HOUR_S)
        assert consumer.receive(timeout_s=WITHIN_S).delivery_count == 2


def test_sessions_end(broker: Broker) -> None:
    with PahoClient("device", persistent=True) as client:
        client.connect(broker.mqtt_port)  # its session has an hour
    wait_until(lambda: not broker.clients(), within_s=WITHIN_S, what="the client to be gone")
    assert broker.metric("sluicegate_sessions") == 1
    broker.forward(HOUR_S - 10)
    assert broker.metric("sluicegate_sessions") == 1
    broker.forward(11)
    assert broker.metric("sluicegate_sessions") == 0


def test_clients_stay_connected_unless_the_test_has_them_be_silent(broker: Broker) -> None:
    wills = broker.collect("wills/>")
    with device(broker, "device", will="wills/device", keep_alive_s=30) as one:
        with sluicegate.BlockingClient(broker.flow_url) as client:
            broker.forward(HOUR_S)
            broker.forward(HOUR_S)
            assert client.is_connected
            assert "device" in broker.clients()
        assert not one.lost.is_set()
        broker.forward(50, keeps_clients=False)
        assert one.lost.wait(WITHIN_S)
        broker.wait_for_messages(wills)


def test_the_clock_stays_forward_when_the_broker_starts_again(broker: Broker) -> None:
    broker.create_queue("orders", respect_ttl_enabled=True)
    broker.publish(sluicegate.Message(b"1", queue="orders", ttl_ms=2 * HOUR_S * 1000))
    broker.forward(HOUR_S)
    broker.crash()
    broker.start()
    assert len(broker.browse("orders")) == 1
    broker.forward(HOUR_S + 1)
    assert broker.browse("orders") == []


def test_the_clock_goes_forward_only(broker: Broker) -> None:
    with pytest.raises(ValueError, match="forward only"):
        broker.forward(-1)
