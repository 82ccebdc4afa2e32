"""A store whose own pages are broken, on virtual time."""

import pytest

from simulation.clients.client import ONLINE
from simulation.world import World
from sluicegate.actors.messages.data import StoreRefused

A_WHILE_US = 2_000_000


def test_a_deletion_that_is_not_stored_is_refused_and_the_queue_is_there_after_the_next_start(world: World) -> None:
    world.faults.broken = True

    with pytest.raises(StoreRefused, match="broken pages"):
        world.ask(world.view.delete_queue("first"))

    world.faults.broken = False
    world.power_fails()
    assert "first" in [view.config.name for view in world.ask(world.view.list_queues())]


def test_a_damaged_store_refuses_publishes_and_a_stop_does_not_wait_for_it(world: World) -> None:
    """Nothing is written any more, though the store would take it again; the next start is as after a crash."""
    publisher = world.clients["p0"]
    publisher.connect(clean_start=False)
    world.advance(A_WHILE_US)
    assert publisher.state == ONLINE
    records = world.image.log
    world.faults.broken = True
    publisher.publish("work/a/x", "k", 1, 10)
    world.advance(A_WHILE_US)
    world.faults.broken = False
    publisher.publish("work/a/x", "k", 1, 10)
    world.advance(A_WHILE_US)
    assert world.node.services.spool_health.is_damaged()
    assert world.image.log == records

    before_us = world.loop.now_us
    world.ask(world.node.stop())
    assert world.loop.now_us - before_us < A_WHILE_US
    assert not world.image.clean
