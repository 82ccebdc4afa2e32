"""What runs of three brokers have found, each as a story of its own."""

from collections.abc import Iterator
from random import Random

import pytest

from simulation.clients.client import HOLD, PROMPT
from simulation.network.network import Network
from simulation.network.steps import network_scenario_of

LINKED_S_MAX = 60
SECOND_US = 1_000_000


class NeverQuiet(Random):
    """Has the loop make no commit itself."""

    def random(self) -> float:
        return 1.0


@pytest.fixture
def network() -> Iterator[Network]:
    """Three brokers that are linked."""
    network = Network(1, network_scenario_of(1))
    network.wait_for_links(LINKED_S_MAX)
    yield network
    network.close()


def test_a_message_that_a_neighbor_lost_after_delivering_it_comes_again_as_redelivered(network: Network) -> None:
    """Its consumer had it before the store of its broker did; then the power failed there, and the link sends again."""
    there = network.worlds["b"]
    publisher, consumer = network.worlds["a"].clients["p0"], there.clients["c0"]
    publisher.connect(clean_start=True)
    consumer.connect(clean_start=True)
    network.advance(SECOND_US)
    consumer.mode = HOLD
    consumer.consume("first", 1)
    network.advance(SECOND_US)
    there.pace.quiet_rng = NeverQuiet()
    there.pace.slow_left = 1000
    publisher.publish("work/a/x", "key", 1, 40)
    target, number = there.truth.targets["first"], 1
    while number not in target.seen:
        network.advance(1_000)
    network.dies("b", SECOND_US)
    there.pace.slow_left = 0
    network.advance(2 * SECOND_US)
    network.wait_for_links(LINKED_S_MAX)
    consumer.mode = PROMPT
    consumer.connect(clean_start=False)
    network.advance(SECOND_US)
    consumer.consume("first", 1)
    network.advance(SECOND_US)  # the judge says so if it comes as new
    assert (target.seen[number].count, target.seen[number].fresh_count) == (2, 1)
