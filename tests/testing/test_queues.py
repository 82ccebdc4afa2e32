"""Helpers fill queues, look into them, empty them and wait for them."""

import contextlib
import threading

import pytest

import sluicegate
from sluicegate.testing import Broker, OperationRefused, StoredMessage

NOW_S = 0.0  # what is not there is not waited for


def orders(*numbers: int) -> list[sluicegate.Message]:
    return [sluicegate.Message(b"order %d" % number, topic="orders/eu", key=f"customer-{number}") for number in numbers]


def test_a_queue_gets_what_is_published_to_its_topics(broker: Broker) -> None:
    broker.create_queue("orders", subscriptions=["orders/>"], max_redelivery_count=3)
    broker.publish(*orders(1, 2), sluicegate.Message(b"elsewhere", topic="bills/eu"))
    state = broker.wait_for_messages("orders", 2)
    assert (state.message_count, state.ready_count, state.unacked_count, state.accepted_total) == (2, 2, 0, 2)
    assert state.subscriptions == ("orders/>",)
    assert state.attributes["max_redelivery_count"] == 3


def test_messages_are_browsed_with_all_their_properties_and_stay(broker: Broker) -> None:
    broker.create_queue("orders")
    broker.publish(
        sluicegate.Message(
            b"\xff" * 10_000,
            queue="orders",
            key="customer-7",
            priority=9,
            ttl_ms=60_000,
            message_id="m-1",
            correlation=b"c",
            reply_to="answers/1",
            content_type="image/png",
            properties=[("color", "green"), ("size", 7), ("color", "red")],
        )
    )
    [message] = broker.browse("orders")
    assert (message.payload, message.topic, message.key) == (b"\xff" * 10_000, "$queue/orders", "customer-7")
    assert (message.priority, message.message_id, message.correlation) == (9, "m-1", b"c")
    assert (message.reply_to, message.content_type) == ("answers/1", "image/png")
    assert message.properties == (("color", "green"), ("size", 7), ("color", "red"))
    assert message.expires_at_ms // 1000 - message.received_ms // 1000 in (59, 60, 61)  # each is rounded
    assert (message.is_held, message.delivery_count) == (False, 0)
    assert broker.browse("orders") == [message]


def test_a_selector_selects_among_the_messages_of_a_queue(broker: Broker) -> None:
    broker.create_queue("orders")
    broker.publish(*[sluicegate.Message(b"%d" % each, queue="orders", priority=each) for each in range(5)])
    assert [each.text for each in broker.browse("orders", selector="JMSPriority > 2")] == ["3", "4"]


def test_draining_returns_all_messages_in_their_order_and_leaves_none(broker: Broker) -> None:
    broker.create_queue("orders", subscriptions=["orders/>"])
    broker.publish(*orders(*range(2500)))  # more than one request to the broker takes
    assert [each.text for each in broker.drain("orders")] == [f"order {number}" for number in range(2500)]
    assert broker.queue("orders").message_count == 0
    assert broker.drain("orders") == []


def test_messages_that_a_consumer_holds_are_seen_and_not_drained(broker: Broker) -> None:
    broker.create_queue("orders", subscriptions=["orders/>"])
    broker.publish(*orders(1, 2, 3))
    with sluicegate.BlockingClient(broker.flow_url) as client, client.consumer("orders", unsettled_max=1) as consumer:
        held = consumer.receive(timeout_s=10)
        assert [each.is_held for each in broker.browse("orders")] == [True, False, False]
        assert broker.queue("orders").unacked_count == 1
        assert [each.text for each in broker.drain("orders")] == ["order 2", "order 3"]
        held.accept()
        state = broker.wait_until_empty("orders")
    assert state.settled_total == 1


def test_what_a_consumer_takes_while_a_queue_is_drained_is_got_once(broker: Broker) -> None:
    broker.create_queue("orders", subscriptions=["orders/>"])
    broker.publish(*orders(*range(1500)))
    consumed: list[str] = []
    drained: list[StoredMessage] = []
    draining = threading.Thread(target=lambda: drained.extend(broker.drain("orders")))
    with sluicegate.BlockingClient(broker.flow_url) as client, client.consumer("orders", unsettled_max=10) as consumer:
        draining.start()
        while draining.is_alive() or broker.queue("orders").message_count:
            with contextlib.suppress(TimeoutError):  # all is drained
                delivery = consumer.receive(timeout_s=0.1)
                delivery.accept()
                consumed.append(delivery.payload.decode())
        draining.join()
    assert sorted([*consumed, *(each.text for each in drained)]) == sorted(f"order {each}" for each in range(1500))


def test_a_collecting_queue_has_what_was_published_since(broker: Broker) -> None:
    broker.publish(*orders(1))
    collected, others = broker.collect("orders/>", "bills/>"), broker.collect("bills/>")
    broker.publish(*orders(2), sluicegate.Message(b"bill", topic="bills/eu"))
    assert [each.text for each in broker.drain(collected)] == ["order 2", "bill"]
    assert [each.text for each in broker.drain(others)] == ["bill"]


def test_queues_are_listed_purged_and_deleted(broker: Broker) -> None:
    broker.create_queue("b")
    broker.create_queue("a", durable=False)
    broker.publish(sluicegate.Message(b"1", queue="b"), sluicegate.Message(b"2", queue="b"))
    assert broker.queues() == ["a", "b"]
    assert (broker.purge("b"), broker.queue("b").message_count) == (2, 0)
    broker.delete_queue("a")
    assert broker.queues() == ["b"]


def test_what_the_broker_refuses_is_raised_with_its_reason(broker: Broker) -> None:
    broker.create_queue("orders")
    with pytest.raises(OperationRefused, match="orders"):
        broker.create_queue("orders")
    with pytest.raises(OperationRefused, match="max_redelivery"):
        broker.create_queue("bills", max_redelivery_count=-5)
    with pytest.raises(OperationRefused, match="nowhere"):
        broker.queue("nowhere")
    with pytest.raises(OperationRefused, match="nowhere"):
        broker.browse("nowhere")
    with pytest.raises(OperationRefused):
        broker.browse("orders", selector="a = = b")
    with pytest.raises(sluicegate.PublishRefused, match="nowhere"):
        broker.publish(sluicegate.Message(b"", queue="nowhere"))


def test_waiting_in_vain_says_what_there_was(broker: Broker) -> None:
    broker.create_queue("orders", subscriptions=["orders/>"])
    broker.publish(*orders(1, 2))
    with pytest.raises(TimeoutError, match="waited for 3 messages: queue 'orders' has 2 messages"):
        broker.wait_for_messages("orders", 3, within_s=NOW_S)
    with pytest.raises(TimeoutError, match="waited for no message: queue 'orders' has 2 messages"):
        broker.wait_until_empty("orders", within_s=NOW_S)
    with pytest.raises(TimeoutError, match="waited for 1 consumers"):
        broker.wait_for_consumers("orders", within_s=NOW_S)


def test_a_metric_is_read_by_its_labels(broker: Broker) -> None:
    broker.create_queue("orders", subscriptions=["orders/>"])
    broker.create_queue("copies", subscriptions=["orders/>"])
    broker.publish(*orders(1, 2))
    assert broker.metric("sluicegate_queue_messages_accepted_total", queue="orders") == 2
    assert broker.metric("sluicegate_queue_messages_accepted_total") == 4
    assert broker.metric("sluicegate_queue_messages_accepted_total", queue="orders", vpn="other") == 0
    with pytest.raises(LookupError, match="no metric 'sluicegate_nothing'"):
        broker.metric("sluicegate_nothing")


def test_a_message_vpn_has_queues_of_its_own() -> None:
    with Broker({"vpns": {"sales": {}}}, thread=True) as broker:
        broker.create_queue("orders", vpn="sales")
        broker.publish(sluicegate.Message(b"1", queue="orders"), vpn="sales")
        assert [each.text for each in broker.drain("orders", vpn="sales")] == ["1"]
        assert broker.queues() == []
