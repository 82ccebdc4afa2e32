"""The fixtures of the simulation tests."""

from collections.abc import Iterator

import pytest

from simulation.scenario import PLAIN
from simulation.world import World

A_WHILE_US = 2_000_000


@pytest.fixture
def world() -> Iterator[World]:
    """A node that takes traffic, and nothing in it."""
    made = World(1, PLAIN)
    made.advance(A_WHILE_US)
    yield made
    made.close()


@pytest.fixture
def a_message_waits(world: World) -> None:
    """The queue `first` has a message, and the store has it, too."""
    publisher = world.clients["p0"]
    publisher.connect(clean_start=False)
    world.advance(A_WHILE_US)
    publisher.publish("work/a/x", "k0", 1, 40)
    world.advance(A_WHILE_US)
