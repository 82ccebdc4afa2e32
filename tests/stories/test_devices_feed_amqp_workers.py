"""Devices publish with MQTT into a partitioned queue; four workers take from it with AMQP, one dies and one is added.

The order of each key, which is the group-id of messages, holds all the while, nobody gets a message of a key that
somebody else still holds, and nothing is lost.
"""

from pathlib import Path

import pytest

from support.load.amqp_consumer import AmqpWireConsumer
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import Received, WireClient, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import GatewayProcess, gateway

WITHIN_S = 60
KEYS = [f"device-{number}" for number in range(64)]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class Workers:
    """The devices' publisher, and the workers that share its queue."""

    def __init__(self, node: GatewayProcess) -> None:
        self._node = node
        self.record = DeliveryRecord("readings")
        self.two_owners: list[str] = []
        self.devices = WirePublisher("devices", topic="readings", keys=KEYS, qos=1)
        self.members: list[AmqpWireConsumer] = []
        self.clients: list[WireClient] = [self.devices]

    def joins(self, name: str) -> AmqpWireConsumer:
        worker = AmqpWireConsumer(name, queue="readings", record=self._note, hold_count=2)
        self.members.append(worker)
        self.clients.append(worker)
        worker.connect(self._node.amqp_port)
        return worker

    def run_until_received(self, worker: AmqpWireConsumer, count: int) -> None:
        wanted = worker.received_count + count
        what = f"{count} more messages for {worker.client_id}"
        run_until(self.clients, lambda: worker.received_count >= wanted, within_s=WITHIN_S, what=what)

    def drain(self) -> None:
        self.devices.publishing = False
        for worker in self.members:
            worker.hold_count = 0
            if worker.socket is not None:
                worker.settle_down_to(0)
        run_until(
            self.clients,
            lambda: self.devices.is_idle and self._node.held_count("readings") == 0,
            within_s=WITHIN_S,
            what="the queue to be empty",
        )

    def _note(self, received: Received) -> None:
        """Record a delivery. Nobody else who lives may hold an unsettled message of the same key."""
        for other in self.members:
            if other.client_id != received.consumer and other.socket is not None:
                held = [each for _, each in other.unsettled if each.key == received.key]
                if held:
                    self.two_owners.append(f"{received} while {held}")
        self.record.note(received)


def test_order_holds_for_each_device_while_workers_die_and_join(tmp_path: Path) -> None:
    """AMQP reference, case 80: the key that MQTT wrote is the group-id that AMQP reads, and order is by key."""
    with gateway(tmp_path, amqp__idle_timeout_s=0) as node:  # its workers send no heartbeats
        node.create_queue(
            "readings",
            access_type="non-exclusive",
            partition_count=8,
            subscriptions=["readings/>"],
            partition_rebalance_delay_s=1,
            partition_rebalance_max_handoff_time_s=WITHIN_S,  # nobody is to lose a partition for being slow
        )
        workers = Workers(node)
        with hung_up_at_the_end(workers.clients):
            workers.devices.connect(node.mqtt_port)
            first = [workers.joins(f"w{number}") for number in range(4)]
            for worker in first:
                workers.run_until_received(worker, 100)

            first[1].hold_count = 20  # it dies with its hands full
            run_until(
                workers.clients,
                lambda: len(first[1].unsettled) >= 10,
                within_s=WITHIN_S,
                what="the worker that dies to hold some messages",
            )
            first[1].hang_up()
            first[1].unsettled.clear()
            for worker in (first[0], first[2], first[3]):
                workers.run_until_received(worker, 100)

            added = workers.joins("w4")
            workers.run_until_received(added, 200)
            workers.drain()
        workers.record.check_nothing_is_lost(workers.devices.confirmed)
        workers.record.check_order()
        workers.record.check_repetitions_are_marked()
        assert workers.two_owners == []
