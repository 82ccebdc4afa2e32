"""A disk that cannot be read for a while costs time and no messages. Found by a seed."""

from collections.abc import Iterator

import pytest

from simulation.run import drain
from simulation.scenario import queue_id
from simulation.world import World

A_WHILE_US = 2_000_000
BACKLOG_COUNT = 60
LARGE_BYTES = 8_000


@pytest.fixture
def world() -> Iterator[World]:
    made = World(1)
    yield made
    made.close()


def test_messages_of_a_page_that_cannot_be_read_now_come_later(world: World) -> None:
    """The page is neither damaged nor set aside, and everything that was confirmed is delivered in order."""
    publisher, consumer = world.clients["p0"], world.clients["c0"]
    publisher.connect(clean_start=False)
    consumer.connect(clean_start=False)
    world.advance(A_WHILE_US)
    for _ in range(BACKLOG_COUNT):
        publisher.publish("work/a/x", "k", 1, LARGE_BYTES)
    world.advance(A_WHILE_US)
    assert world.image.pages, "the backlog is large enough to lie in pages"
    world.faults.reads_fail = 5

    consumer.consume(queue_id("first"), "first", 1)
    world.advance(10 * A_WHILE_US)

    assert world.faults.reads_fail == 0
    assert len(world.truth.targets["first"].seen) == BACKLOG_COUNT
    drain(world)
