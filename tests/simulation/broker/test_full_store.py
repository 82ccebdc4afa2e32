"""Faults of a full store that seeds found, on virtual time."""

import pytest

from simulation.clients.client import OFFLINE, ONLINE
from simulation.run import look_at_what_is_retained
from simulation.world import World
from sluicegate.gateway.views.errors import QueueNotFound
from sluicegate.storage.interface import Table

A_WHILE_US, A_MOMENT_US = 2_000_000, 100


def names_of_queues(world: World) -> list[str]:
    return [view.config.name for view in world.ask(world.view.list_queues())]


def test_a_queue_can_be_deleted_from_a_full_store_and_does_not_come_back(world: World) -> None:
    """Deleting makes room: it is written from the reserve, with the queue's messages, in one commit."""
    world.faults.full = True
    world.truth.ends("first")

    world.ask(world.view.delete_queue("first"))
    world.power_fails()

    assert "first" not in names_of_queues(world)


def test_a_deletion_is_not_answered_before_a_store_that_refuses_has_taken_it(world: World) -> None:
    """A queue whose deletion was refused would come back empty, and count its sequences from 1 again."""
    world.faults.failures_left = 3
    world.truth.ends("first")

    world.ask(world.view.delete_queue("first"))

    assert world.faults.failures_left == 0
    assert b"queue/first" not in world.image.keys(Table.CATALOG)


def test_that_a_queue_is_gone_is_said_when_the_store_has_deleted_it(world: World) -> None:
    """Whoever repeats a request whose answer does not come takes it for done when there is no such queue any more."""
    world.truth.ends("first")
    world.faults.failures_left = 3
    world.loop.create_task(deleted(world))
    world.advance(A_MOMENT_US)

    with pytest.raises(QueueNotFound):
        world.ask(world.view.delete_queue("first"))

    assert b"queue/first" not in world.image.keys(Table.CATALOG)


async def deleted(world: World) -> None:
    await world.view.delete_queue("first")


def test_a_node_starts_on_a_full_store_without_the_declared_queues_it_cannot_write(world: World) -> None:
    """A full store has to be opened, or it could not be emptied."""
    world.truth.ends("first")
    world.ask(world.view.delete_queue("first"))
    world.faults.full = True

    world.power_fails()
    assert "first" not in names_of_queues(world)

    world.faults.full = False
    world.power_fails()
    assert "first" in names_of_queues(world)


def test_a_client_whose_session_cannot_be_stored_gets_an_error(world: World) -> None:
    """It is disconnected with 0x97, and nothing of it is an error of the node: those fail the world's checks."""
    client = world.clients["s0"]
    client.connect(clean_start=False)
    world.advance(A_WHILE_US)
    assert client.state == ONLINE
    world.faults.full = True

    client.subscribe("work/", 1)
    world.advance(A_WHILE_US)

    assert client.state == OFFLINE
    assert client.disconnected_with == 0x97


def test_a_retained_message_that_comes_again_is_confirmed_when_the_store_has_it(world: World) -> None:
    """At QoS 2 it is known by its packet id. The store refused it when nobody was there any more to hear that."""
    publisher = world.clients["p0"]
    publisher.connect(clean_start=False)
    world.advance(A_WHILE_US)
    world.pace.slow_left, world.faults.failures_left = 1, 1
    publisher.retain(2)
    while not world.node.default.space.retained.count:
        world.advance(A_MOMENT_US)
    publisher.cut()
    world.advance(A_WHILE_US)
    assert world.faults.failures_left == 0

    publisher.connect(clean_start=False)
    world.advance(A_WHILE_US)
    assert world.truth.retained.newest == 1

    world.power_fails()
    look_at_what_is_retained(world)
