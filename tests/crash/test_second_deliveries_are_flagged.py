"""kill -9 while consumers have messages that are not stored yet: a second delivery is flagged as redelivered.

Commits are rare, so at each kill some messages were sent to consumers and not stored. Their publishers send them again:
MQTT with DUP, AMQP with `resume`, and publishers of the flow protocol under their names.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from support.load.amqp_publisher import AmqpWirePublisher
from support.load.delivery_record import DeliveryRecord
from support.load.flow_clients import FlowWireConsumer, FlowWirePublisher
from support.load.mqtt_clients import (
    NumberedPublisher,
    Received,
    WireClient,
    WirePublisher,
    hung_up_at_the_end,
    run_until,
)
from support.processes.gateway import GatewayProcess, gateway
from support.thorough import cases

ROUNDS: Final = 3
COMMIT_INTERVAL_MS: Final = 150
WINDOW: Final = 25
HELD: Final = 60  # by the consumer, unsettled: else messages need not be stored at all
AHEAD: Final = 5  # messages that it has and whose publisher has no answer, at each kill
WITHIN_S: Final = 60
KEYS: Final = ["a", "b", "c"]

pytestmark = [pytest.mark.crash, pytest.mark.slow]

Publisher = WirePublisher | NumberedPublisher


def qos_2(topic: str) -> Publisher:
    return WirePublisher("sender", topic=topic, keys=KEYS, qos=2, level=5, window=WINDOW)


def qos_2_of_311(topic: str) -> Publisher:
    return WirePublisher("sender", topic=topic, keys=KEYS, qos=2, level=4, window=WINDOW)


def qos_1(topic: str) -> Publisher:
    return WirePublisher("sender", topic=topic, keys=KEYS, qos=1, level=5, window=WINDOW)


def named(topic: str) -> Publisher:
    return FlowWirePublisher("sender", topic=topic, keys=KEYS, window=WINDOW)


def resumed(topic: str) -> Publisher:
    return AmqpWirePublisher("sender", topic=topic, keys=KEYS, window=WINDOW)


PORTS: Final[dict[Callable[[str], Publisher], str]] = {
    qos_1: "mqtt",
    named: "flow",
    resumed: "amqp",
    qos_2: "mqtt",
    qos_2_of_311: "mqtt",
}


class Scene:
    """A publisher, and a consumer that gets everything at once and settles little of it."""

    def __init__(self, node: GatewayProcess, make: Callable[[str], Publisher]) -> None:
        self.record = DeliveryRecord("q")
        self.consumer = FlowWireConsumer("reader", queue="q", record=self._note, hold_count=HELD)
        self.publisher = make("t")
        self.clients: list[WireClient] = [self.consumer, self.publisher]
        self.highest: dict[str, int] = dict.fromkeys(KEYS, 0)  # that the consumer has
        self._node = node
        self._port = node.ports[PORTS[make]]

    def _note(self, received: Received) -> None:
        self.record.note(received)
        self.highest[received.key] = max(self.highest[received.key], received.number)

    def connect(self) -> None:
        self.consumer.connect(self._node.ports["flow"])
        self.publisher.connect(self._port)

    def ahead(self) -> int:
        """How many messages the consumer has whose publisher has no answer."""
        return sum(self.highest.values()) - self.publisher.confirmed_count

    def run_and_kill(self, *, ahead: int) -> None:
        """Kill the gateway once more is confirmed, and the consumer is ahead of that by so much."""
        wanted = self.publisher.confirmed_count + 2 * WINDOW
        self.run(lambda: self.publisher.confirmed_count >= wanted and self.ahead() >= ahead, "confirmations")
        self._node.kill9()
        for client in self.clients:
            client.read_to_the_end()

    def drain(self) -> None:
        """Let everything arrive, and be settled."""
        self.publisher.publishing = False
        self.run(lambda: self.publisher.is_idle and self.record.has_all(self.publisher.confirmed), "the last messages")
        self.consumer.hold_count = 0
        self.consumer.settle_down_to(0)
        self.run(lambda: self._node.held_count("q") == 0, "an empty queue")

    def run(self, condition: Callable[[], bool], what: str) -> None:
        run_until(self.clients, condition, within_s=WITHIN_S, what=what)

    def copies_max(self) -> int:
        """In how many places of the queue the consumer has found one message, at most."""
        return max(len(places) for places in self.consumer.places.values())


def play(folder: Path, make: Callable[[str], Publisher], *, ahead: int, after_commit: bool) -> Scene:
    """Publish and consume over some crashes, and hold what came against what was confirmed."""
    with gateway(folder, spool__commit_interval_ms=COMMIT_INTERVAL_MS) as node:
        node.create_queue("q", subscriptions=["t/#"], deliver_after_commit=after_commit)
        scene = Scene(node, make)
        with hung_up_at_the_end(scene.clients):
            scene.connect()
            for _ in range(ROUNDS):
                scene.run_and_kill(ahead=ahead)
                node.start()
                scene.connect()
            scene.drain()
    scene.record.check_nothing_is_lost(scene.publisher.confirmed)
    scene.record.check_order()
    scene.record.check_one_delivery_is_unmarked(KEYS)
    return scene


@pytest.mark.parametrize("make", cases(PORTS, each_run=3))
def test_redeliveries_are_flagged_although_the_store_never_had_the_message(
    tmp_path: Path, make: Callable[[str], Publisher]
) -> None:
    """Decision 0013: each message has one delivery without the flag, whoever sends it again."""
    scene = play(tmp_path, make, ahead=AHEAD, after_commit=False)
    assert scene.copies_max() > 1, "the consumer had messages that were not stored"


@pytest.mark.parametrize("make", cases([qos_2, named, qos_2_of_311], each_run=1))
def test_a_queue_that_delivers_after_the_commit_has_each_message_once(
    tmp_path: Path, make: Callable[[str], Publisher]
) -> None:
    """Decision 0013: what a consumer had is stored, so that what is sent again is known."""
    assert play(tmp_path, make, ahead=0, after_commit=True).copies_max() == 1
