"""Devices speak MQTT 3.1.1 and can give no key: a queue takes it from their topics, and each device stays in order."""

from pathlib import Path

import pytest

from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireClient, WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import gateway

WITHIN_S = 60
DEVICES = [f"device-{number}" for number in range(40)]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_each_device_has_one_consumer_at_a_time_and_stays_in_order_over_a_restart(tmp_path: Path) -> None:
    """Two old publishers on `plant/DEVICE`, three consumers of which one leaves, a restart in the middle."""
    record = DeliveryRecord("readings")
    publishers = [
        WirePublisher("old-1", topic="plant", keys=DEVICES[:20], qos=1, level=4),
        WirePublisher("old-2", topic="plant", keys=DEVICES[20:], qos=2, level=4),
    ]
    consumers = [
        WireConsumer(f"c{number}", filter_text="$queue/readings", qos=1, record=record.note, hold_count=2)
        for number in range(3)
    ]
    clients: list[WireClient] = [*consumers, *publishers]

    def confirms(count: int) -> None:
        wanted = sum(each.confirmed_count for each in publishers) + count
        run_until(
            clients,
            lambda: sum(each.confirmed_count for each in publishers) >= wanted,
            within_s=WITHIN_S,
            what=f"{count} more confirmations",
        )

    with gateway(tmp_path) as node, hung_up_at_the_end(clients):
        node.create_queue(
            "readings",
            access_type="non-exclusive",
            partition_count=4,
            partition_key_source="topic-level:2",
            subscriptions=["plant/>"],
            partition_rebalance_delay_s=0,
            partition_rebalance_max_handoff_time_s=WITHIN_S,
        )
        for client in clients:
            client.connect(node.mqtt_port)
        confirms(1000)
        for client in clients:
            client.hang_up()
        node.restart()
        for client in clients:
            client.connect(node.mqtt_port)
        confirms(500)
        consumers[0].hang_up()
        confirms(500)

        for publisher in publishers:
            publisher.publishing = False
        for consumer in consumers:
            consumer.hold_count = 0
            consumer.settle_down_to(0)
        run_until(clients, lambda: all(each.is_idle for each in publishers), within_s=WITHIN_S, what="the last answers")
        run_until(clients, lambda: node.held_count("readings") == 0, within_s=WITHIN_S, what="an empty queue")

    for publisher in publishers:
        record.check_nothing_is_lost(publisher.confirmed)
    record.check_order()
    record.check_keys_stay_in_their_partition()
