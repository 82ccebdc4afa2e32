"""Consumers share a partitioned queue while some join and some die: order per key, one owner at a time, nothing lost.

The consumers speak MQTT 5 from sockets of their own. One that dies is a socket that closes without a word, with
messages unsettled: more does not reach the gateway when a consumer's process is killed.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import Received, WireClient, WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import GatewayProcess, gateway

WITHIN_S = 60
PARTITIONS = 8
KEYS = [f"customer-{number}" for number in range(100)]  # enough for each partition to have some

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class SharedQueue:
    """One publisher of keyed sequences, and the consumers of the queue it feeds."""

    def __init__(self, node: GatewayProcess) -> None:
        self.node = node
        self.record = DeliveryRecord("orders")
        self.two_owners: list[str] = []
        self.publisher = WirePublisher("publisher", topic="orders", keys=KEYS, qos=1)
        self.consumers: list[WireConsumer] = []
        self.clients: list[WireClient] = [self.publisher]

    def joins(self, client_id: str, *, hold_count: int = 2) -> WireConsumer:
        consumer = WireConsumer(
            client_id, filter_text="$queue/orders", qos=1, record=self._note, hold_count=hold_count, receive_maximum=20
        )
        self.consumers.append(consumer)
        self.clients.append(consumer)
        consumer.connect(self.node.mqtt_port)
        return consumer

    def runs_until(self, confirmed: int) -> None:
        """Publish until so many messages are confirmed altogether."""
        run_until(
            self.clients,
            lambda: self.publisher.confirmed_count >= confirmed,
            within_s=WITHIN_S,
            what=f"{confirmed} confirmations",
        )

    def runs_until_consumed_by(self, consumer: WireConsumer, count: int) -> None:
        run_until(
            self.clients,
            lambda: consumer.received_count >= count,
            within_s=WITHIN_S,
            what=f"{count} messages for {consumer.client_id}",
        )

    def drains(self) -> None:
        self.publisher.publishing = False
        for consumer in self.consumers:
            consumer.hold_count = 0
            consumer.settle_down_to(0)
        run_until(
            self.clients, lambda: self.node.held_count("orders") == 0, within_s=WITHIN_S, what="the queue to be empty"
        )

    def checks(self) -> None:
        self.record.check_nothing_is_lost(self.publisher.confirmed)
        self.record.check_order()
        self.record.check_repetitions_are_marked()
        self.record.check_keys_stay_in_their_partition()
        assert self.two_owners == []

    def _note(self, received: Received) -> None:
        """Record a delivery. Nobody else who lives may hold an unsettled message of the same key."""
        for other in self.consumers:
            if other.client_id != received.consumer and other.socket is not None:
                held = [each for _, each in other.unsettled if each.key == received.key]
                if held:
                    self.two_owners.append(f"{received} while {held}")
        self.record.note(received)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedQueue]:
    with gateway(tmp_path) as node:
        node.create_queue(
            "orders",
            access_type="non-exclusive",
            partition_count=PARTITIONS,
            subscriptions=["orders/>"],
            partition_rebalance_delay_s=1,
            partition_rebalance_max_handoff_time_s=WITHIN_S,  # nobody is to lose a partition for being slow
        )
        shared = SharedQueue(node)
        with hung_up_at_the_end(shared.clients):
            shared.publisher.connect(node.mqtt_port)
            yield shared


def test_a_consumer_that_joins_takes_its_share_and_one_that_dies_leaves_its_own(shared: SharedQueue) -> None:
    """Three consumers, a fourth in the middle, one dead with messages in hand: all comes, each key in order."""
    first, second, third = shared.joins("c1"), shared.joins("c2"), shared.joins("c3")
    shared.runs_until(2000)
    for consumer in (first, second, third):
        shared.runs_until_consumed_by(consumer, 50)

    fourth = shared.joins("c4")
    shared.runs_until_consumed_by(fourth, 200)

    second.hold_count = 20  # it will die with its hands full
    shared.runs_until(shared.publisher.confirmed_count + 1000)
    second.hang_up()
    shared.runs_until(shared.publisher.confirmed_count + 3000)

    shared.drains()
    shared.checks()
    assert len({each.partition for each in shared.record.received}) == PARTITIONS


def test_partitions_are_spread_evenly_once_everybody_has_settled_in(shared: SharedQueue) -> None:
    for number in range(4):
        shared.joins(f"c{number}")

    def owned() -> list[int]:
        flows = shared.node.queue("orders")["flows"]
        assert isinstance(flows, list)
        return sorted(len(flow["partitions"]) for flow in flows)

    run_until(shared.clients, lambda: owned() == [2, 2, 2, 2], within_s=WITHIN_S, what="two partitions for each")
    shared.drains()
    shared.checks()


def test_a_consumer_that_leaves_in_good_order_hands_over_without_repetition(shared: SharedQueue) -> None:
    """A goodbye with nothing in hand: the others go on where it ended, and no message comes twice."""
    leaving = shared.joins("c1", hold_count=0)
    shared.joins("c2", hold_count=0)
    shared.runs_until_consumed_by(leaving, 300)

    shared.publisher.publishing = False
    run_until(
        shared.clients, lambda: shared.node.held_count("orders") == 0, within_s=WITHIN_S, what="the queue to be empty"
    )
    leaving.say_goodbye()
    shared.publisher.publishing = True
    shared.runs_until(shared.publisher.confirmed_count + 1000)

    shared.drains()
    shared.checks()
    shared.record.check_nothing_is_repeated()
