"""A change of the number of partitions with a store that refuses or is slow. Seeds found each case."""

from collections.abc import Iterator

import pytest

from simulation.clients.client import HOLD
from simulation.run import drain
from simulation.scenario import PLAIN
from simulation.world import World
from sluicegate.gateway.views.errors import Refused

A_WHILE_US, A_MOMENT_US = 2_000_000, 1_000
KEYS = ("k0", "k1", "k2", "k3")


@pytest.fixture
def world() -> Iterator[World]:
    """A queue whose partitions were doubled while a consumer had a message of each key in flight."""
    made = World(1, PLAIN)
    publisher, consumer = made.clients["p0"], made.clients["c1"]
    publisher.connect(clean_start=False)
    consumer.connect(clean_start=False)
    made.advance(A_WHILE_US)
    consumer.mode = HOLD
    consumer.consume("keyed", 1)
    made.advance(A_WHILE_US)
    for key in KEYS:
        publisher.publish("work/c/x", key, 1, 40)
    made.advance(A_WHILE_US)
    made.ask(made.change("keyed", {"partition_count": 8}))
    for key in KEYS:
        publisher.publish("work/c/x", key, 1, 40)
    made.advance(A_WHILE_US)
    yield made
    made.close()


def settle_all(world: World) -> None:
    for client in world.clients.values():
        client.settle(len(client.held), order=0, reason_code=0, twice=False)


def test_an_update_that_the_store_refuses_takes_no_partition_away(world: World) -> None:
    """The partitions that the change under way has added go on: they have messages that were confirmed."""
    world.faults.full = True
    with pytest.raises(Refused):
        world.ask(world.change("keyed", {"partition_count": 6}))
    world.faults.full = False

    drain(world)  # and nothing is lost


def test_a_change_that_ends_while_an_update_is_being_stored_does_not_undo_it(world: World) -> None:
    """The world compares, after a restart, what it finds with what it was told was done."""
    world.pace.slow_left = 100
    asked = world.loop.create_task(world.change("keyed", {"max_redelivery_count": 7}))
    settle_all(world)
    world.advance(A_WHILE_US)
    settle_all(world)
    world.advance(10 * A_WHILE_US)
    assert asked.done()

    world.power_fails()

    drain(world)


def test_a_crash_before_a_partition_is_deleted_does_not_bring_its_settled_messages_back() -> None:
    """A checkpoint between the two trims the log, which had the settlements."""
    world = World(6, PLAIN)  # its log is short, so that messages move into pages
    publisher, consumer = world.clients["p0"], world.clients["c1"]
    for client in (publisher, consumer):
        client.connect(clean_start=False)
    world.advance(A_WHILE_US)
    consumer.mode = HOLD
    consumer.consume("keyed", 1)
    for key in KEYS:
        publisher.publish("work/c/x", key, 1, 4_000)
    for _ in KEYS:
        world.advance(A_WHILE_US)
        settle_all(world)
    world.advance(A_WHILE_US)
    world.ask(world.change("keyed", {"partition_count": 2}))
    world.pace.slow_left = 1  # the commit that deletes two partitions

    world.checkpoint()
    world.power_fails()

    drain(world)
    world.close()
