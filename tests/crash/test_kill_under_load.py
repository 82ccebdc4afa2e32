"""kill -9 under load, repeatedly on one data folder: confirmed messages come in order, and at QoS 2 exactly once.

The clients behave like devices: after a crash they connect again, resume their sessions, and send unconfirmed messages
again. So a message may come twice at QoS 1, but not at QoS 2 from a persistent session to a persistent session.
"""

import random
from pathlib import Path

import pytest

from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireClient, WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import GatewayProcess
from support.thorough import amount

ROUNDS = amount(6, thorough=20)
CONFIRMED_PER_ROUND = (200, 1500)  # how much is confirmed before the next kill; drawn, so that kills hit all places
SEED = 20_260_131
DRAIN_S = 60

pytestmark = [pytest.mark.crash, pytest.mark.slow]


class Load:
    """Publishers and consumers of every kind of guarantee, and what they were given."""

    def __init__(self) -> None:
        self.queue = DeliveryRecord("the partitioned queue")
        self.session = DeliveryRecord("the QoS 1 session")
        self.exact = DeliveryRecord("the QoS 2 session")
        keys = [f"k{number}" for number in range(12)]
        self.at_least_once = [
            WirePublisher("p1", topic="load", keys=keys[:6], qos=1),
            WirePublisher("p2", topic="load", keys=keys[6:], qos=1, window=200),
        ]
        self.exactly_once = [
            WirePublisher("x1", topic="exact", keys=["a", "b"], qos=2, level=4, window=20),
            WirePublisher("x2", topic="exact", keys=["c", "d"], qos=2, level=5),
        ]
        queue, session, exact = self.queue.note, self.session.note, self.exact.note
        self.consumers = [
            WireConsumer("q1", filter_text="$queue/load", qos=1, record=queue, hold_count=20),
            WireConsumer("q2", filter_text="$queue/load", qos=1, record=queue, hold_count=3),
            WireConsumer("s1", filter_text="load/#", qos=1, level=4, record=session, hold_count=10),
            WireConsumer("e1", filter_text="exact/#", qos=2, record=exact),
        ]
        self.publishers = self.at_least_once + self.exactly_once
        self.clients: list[WireClient] = [*self.consumers, *self.publishers]

    def connect(self, port: int) -> None:
        """Connect everybody; nothing is published before all have subscribed."""
        for consumer in self.consumers:
            consumer.connect(port)
        everybody = self.consumers
        run_until(everybody, lambda: all(each.subscribed for each in everybody), within_s=DRAIN_S, what="SUBACKs")
        for publisher in self.publishers:
            publisher.connect(port)

    def confirmed_count(self) -> int:
        return sum(publisher.confirmed_count for publisher in self.publishers)

    def confirm(self, count: int) -> None:
        """Run until so many more messages are confirmed."""
        wanted = self.confirmed_count() + count
        run_until(
            self.clients, lambda: self.confirmed_count() >= wanted, within_s=DRAIN_S, what=f"{count} confirmations"
        )

    def lose_the_gateway(self) -> None:
        """The gateway is dead: take what it sent before."""
        for client in self.clients:
            client.read_to_the_end()

    def drain(self) -> None:
        """Publish no more, and run until everything has been confirmed and consumed."""
        for publisher in self.publishers:
            publisher.publishing = False
        run_until(
            self.clients,
            lambda: all(publisher.is_idle for publisher in self.publishers),
            within_s=DRAIN_S,
            what="the last confirmations",
        )
        for consumer in self.consumers:
            consumer.hold_count = 0
            consumer.settle_down_to(0)
        run_until(self.clients, self._all_arrived, within_s=DRAIN_S, what="the last deliveries")

    def confirmed(self, publishers: list[WirePublisher]) -> dict[str, int]:
        return {key: number for publisher in publishers for key, number in publisher.confirmed.items()}

    def check(self) -> None:
        for record, publishers in (
            (self.queue, self.at_least_once),
            (self.session, self.at_least_once),
            (self.exact, self.exactly_once),
        ):
            record.check_nothing_is_lost(self.confirmed(publishers))
            record.check_order()
        self.exact.check_nothing_is_repeated()
        self.queue.check_keys_stay_in_their_partition()

    def _all_arrived(self) -> bool:
        return (
            self.queue.has_all(self.confirmed(self.at_least_once))
            and self.session.has_all(self.confirmed(self.at_least_once))
            and self.exact.has_all(self.confirmed(self.exactly_once))
        )


def next_sequences(gateway: GatewayProcess) -> list[int]:
    """The sequence that each partition of the queue gives out next."""
    partitions = gateway.queue("load")["partitions"]
    assert isinstance(partitions, list)
    return [partition["next_sequence"] for partition in partitions]


@pytest.mark.timeout(600)
def test_confirmed_messages_survive_crashes(tmp_path: Path) -> None:
    """Nothing is confirmed before it is safe; sequences are never reused."""
    draw, load = random.Random(SEED), Load()
    gateway = GatewayProcess(tmp_path)
    with gateway, hung_up_at_the_end(load.clients):
        gateway.create_queue(
            "load",
            access_type="non-exclusive",
            partition_count=4,
            subscriptions=["load/>"],
            partition_rebalance_delay_s=0,
            partition_rebalance_max_handoff_time_s=1,
        )
        sequences = next_sequences(gateway)
        for _ in range(ROUNDS):
            load.connect(gateway.mqtt_port)
            load.confirm(draw.randint(*CONFIRMED_PER_ROUND))
            before, sequences = sequences, next_sequences(gateway)
            assert all(now >= then for then, now in zip(before, sequences, strict=True)), (before, sequences)
            gateway.kill9()
            load.lose_the_gateway()
            gateway.start()
        load.connect(gateway.mqtt_port)
        load.drain()
        load.check()
        run_until(load.clients, lambda: gateway.held_count("load") == 0, within_s=DRAIN_S, what="an empty queue")
