"""Orders published with MQTT to a virtual topic reach two systems, each with a pool of AMQP consumers.

Each system has its own queue, made for its first consumer as a template says: partitioned, so that the orders of one
customer stay in order while its pool shares them. A wire tap keeps all of it; a filtered destination takes one
customer's orders, which nobody fetches in time: they end in a dead message queue, which is watched.
"""

from pathlib import Path

import pytest

from support.load.amqp_consumer import AmqpWireConsumer
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireClient, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import GatewayProcess, gateway

WITHIN_S = 60
CUSTOMERS = [f"customer-{number}" for number in range(32)]
LATE = CUSTOMERS[7]
TOPIC = "VirtualTopic/Orders"
SYSTEMS = ("A", "B")

TEMPLATES = (
    "[{name: consumers, queue_name_filter: 'Consumer*', access_type: non-exclusive, partition_count: 4, "
    "partition_rebalance_delay_s: 1}, "
    "{name: late, queue_name_filter: late, max_ttl: 1, respect_ttl_enabled: true, dead_msg_queue: too-late}, "
    "{name: dead, queue_name_filter: too-late, dead_msg_queue: ''}]"
)
TAPS = (
    "[{name: VirtualTopic.Orders.>, forward_only: false, forward_to: "
    f"[{{queue: tap}}, {{queue: late, selector: \"JMSXGroupID = '{LATE}'\"}}]}}]"
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def queue_of(system: str) -> str:
    """Return the name of a system's queue."""
    return f"Consumer.{system}.VirtualTopic.Orders.>"


class Systems:
    """The publisher of orders, and the pools of the systems that get them."""

    def __init__(self, node: GatewayProcess) -> None:
        self._node = node
        self.records = {system: DeliveryRecord(system) for system in SYSTEMS}
        self.orders = WirePublisher("shop", topic=TOPIC, keys=CUSTOMERS, qos=1)
        self.pools: dict[str, list[AmqpWireConsumer]] = {system: [] for system in SYSTEMS}
        self.clients: list[WireClient] = [self.orders]

    def joins(self, system: str) -> None:
        pool = self.pools[system]
        name = f"{system}{len(pool)}"
        worker = AmqpWireConsumer(name, queue=queue_of(system), record=self.records[system].note)
        pool.append(worker)
        self.clients.append(worker)
        worker.connect(self._node.amqp_port)

    def run_until_all_received(self, count: int) -> None:
        wanted = {worker: worker.received_count + count for pool in self.pools.values() for worker in pool}
        run_until(
            self.clients,
            lambda: all(worker.received_count >= least for worker, least in wanted.items()),
            within_s=WITHIN_S,
            what=f"{count} more orders for each worker",
        )

    def drain(self) -> None:
        self.orders.publishing = False
        run_until(
            self.clients,
            lambda: (
                self.orders.is_idle and all(record.has_all(self.orders.confirmed) for record in self.records.values())
            ),
            within_s=WITHIN_S,
            what="all orders to reach both systems",
        )


def test_orders_reach_two_systems_in_order_while_a_tap_and_a_dead_message_queue_watch(tmp_path: Path) -> None:
    """Virtual topic, composite and filtered destination in one: docs/concepts/virtual-destinations.md."""
    with gateway(
        tmp_path,
        amqp__idle_timeout_s=0,  # its workers send no heartbeats
        queues__templates=TEMPLATES,
        queues__declared="[{name: too-late, dead_msg_queue: ''}]",
        virtual_destinations__composite_topics=TAPS,
    ) as node:
        systems = Systems(node)
        with hung_up_at_the_end(systems.clients):
            for system in SYSTEMS:
                systems.joins(system)
            run_until(  # their queues are there, and so collect, before the first order is published
                systems.clients,
                lambda: all(node.metric("sluicegate_queue_flows", queue=queue_of(each)) > 0 for each in SYSTEMS),
                within_s=WITHIN_S,
                what="the queues of both systems",
            )
            systems.orders.connect(node.mqtt_port)
            systems.run_until_all_received(50)
            for system in SYSTEMS:
                systems.joins(system)
            systems.run_until_all_received(50)
            systems.drain()
            confirmed = systems.orders.confirmed
            run_until(
                systems.clients,
                lambda: node.held_count("too-late") == confirmed[LATE],
                within_s=WITHIN_S,
                what="the orders that nobody fetched",
            )
        for record in systems.records.values():
            record.check_nothing_is_lost(confirmed)
            record.check_order()
            record.check_keys_stay_in_their_partition()
        assert node.held_count("tap") == sum(confirmed.values())
        assert node.held_count("late") == 0
