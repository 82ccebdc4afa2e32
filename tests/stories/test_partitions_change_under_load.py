"""The number of partitions changes while publishers publish and consumers consume: nobody is refused or waits in vain.

Three consumers, 4 partitions, then 6, then 2; and again with a gateway that is killed in the middle. Each key stays in
order, nothing is lost, and no two living consumers hold messages of one key.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.http.plain import HTTP
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import Received, WireClient, WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import GatewayProcess, gateway

WITHIN_S = 60
KEYS = [f"device-{number}" for number in range(60)]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class Rescaled:
    """Two publishers of keyed sequences, three consumers, and the operator who changes the queue between them."""

    def __init__(self, node: GatewayProcess) -> None:
        self.node = node
        self.record = DeliveryRecord("orders")
        self.was_killed = False
        self.two_owners: list[str] = []
        self.publishers = [
            WirePublisher("p1", topic="orders", keys=KEYS[:30], qos=1),
            WirePublisher("p2", topic="orders", keys=KEYS[30:], qos=1),
        ]
        self.consumers = [self._consumer(f"c{number}") for number in range(3)]
        self.clients: list[WireClient] = [*self.publishers, *self.consumers]

    def connects(self) -> None:
        for client in self.clients:
            client.connect(self.node.mqtt_port)

    def publishes(self, count: int) -> None:
        """Publish until so many more are confirmed."""
        until = self.confirmed_count + count
        self.runs_until(lambda: self.confirmed_count >= until, f"{count} more confirmations")

    @property
    def confirmed_count(self) -> int:
        return sum(publisher.confirmed_count for publisher in self.publishers)

    def gets_partitions(self, count: int) -> None:
        changed = HTTP.patch(f"{self.node.admin_url}/queues/orders", json={"partition_count": count}, timeout=WITHIN_S)
        assert changed.status_code == 200, changed.text

    def runs_until_there_are(self, count: int) -> None:
        """See the change through. A partition that a message is held of cannot go, so nobody keeps any for good."""
        for consumer in self.consumers:
            consumer.hold_count = 0
            consumer.settle_down_to(0)
        self.runs_until(
            lambda: self.shown("scale_status") == "ready" and self.shown("partition_operational_count") == count,
            f"{count} partitions",
        )
        for consumer in self.consumers:
            consumer.hold_count = 3

    def shown(self, field: str) -> object:
        return self.node.queue("orders")[field]

    def is_killed(self) -> None:
        self.was_killed = True
        self.node.kill9()
        for client in self.clients:
            client.read_to_the_end()
        self.node.start()
        self.connects()

    def drains(self) -> None:
        for publisher in self.publishers:
            publisher.publishing = False
        for consumer in self.consumers:
            consumer.hold_count = 0
            consumer.settle_down_to(0)
        self.runs_until(lambda: self.node.held_count("orders") == 0, "the queue to be empty")

    def checks(self) -> None:
        for publisher in self.publishers:
            assert publisher.refused == []
            self.record.check_nothing_is_lost(publisher.confirmed)
        self.record.check_order()
        if not self.was_killed:  # what was not confirmed before a kill is published anew, as another message
            self.record.check_repetitions_are_marked()
        assert self.two_owners == []

    def runs_until(self, condition: Callable[[], bool], what: str) -> None:
        run_until(self.clients, condition, within_s=WITHIN_S, what=what)

    def _consumer(self, client_id: str) -> WireConsumer:
        return WireConsumer(
            client_id, filter_text="$queue/orders", qos=1, record=self._note, hold_count=3, receive_maximum=20
        )

    def _note(self, received: Received) -> None:
        """Record a delivery. Nobody else who lives may hold an unsettled message of the same key."""
        for other in self.consumers:
            if other.client_id != received.consumer and other.socket is not None:
                held = [each for _, each in other.unsettled if each.key == received.key]
                if held:
                    self.two_owners.append(f"{received} while {held}")
        self.record.note(received)


@pytest.fixture
def rescaled(tmp_path: Path) -> Iterator[Rescaled]:
    with gateway(tmp_path) as node:
        node.create_queue(
            "orders",
            access_type="non-exclusive",
            partition_count=4,
            subscriptions=["orders/>"],
            partition_rebalance_delay_s=1,
            partition_rebalance_max_handoff_time_s=5,
        )
        story = Rescaled(node)
        with hung_up_at_the_end(story.clients):
            story.connects()
            story.publishes(500)
            yield story


def test_partitions_are_added_and_taken_away_under_load(rescaled: Rescaled) -> None:
    rescaled.gets_partitions(6)
    rescaled.publishes(1500)
    rescaled.runs_until_there_are(6)
    rescaled.publishes(500)
    rescaled.gets_partitions(2)
    rescaled.publishes(1500)
    rescaled.runs_until_there_are(2)
    rescaled.publishes(500)

    rescaled.drains()
    rescaled.checks()
    assert {each.partition for each in rescaled.record.received} == {str(number) for number in range(6)}


def test_a_change_that_follows_before_the_last_one_is_through_comes_next(rescaled: Rescaled) -> None:
    """Only the last count that was asked for matters."""
    for count in (8, 3, 5):
        rescaled.gets_partitions(count)
        rescaled.publishes(200)
    rescaled.runs_until_there_are(5)

    rescaled.drains()
    rescaled.checks()


@pytest.mark.crash
@pytest.mark.parametrize("count", [6, 2])
def test_a_gateway_killed_in_the_middle_goes_on_with_the_change(rescaled: Rescaled, count: int) -> None:
    rescaled.consumers[0].hold_count = 20  # so that the change takes as long as the test wants
    rescaled.gets_partitions(count)
    rescaled.publishes(800)
    rescaled.is_killed()
    rescaled.publishes(800)
    rescaled.is_killed()
    rescaled.publishes(400)
    rescaled.runs_until_there_are(count)

    rescaled.drains()
    rescaled.checks()
