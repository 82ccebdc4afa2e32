"""A disk that cannot be read for a while costs time and no messages. Found by seeds."""

from simulation.clients.client import HOLD
from simulation.run import drain
from simulation.world import World

A_WHILE_US = 2_000_000
BACKLOG_COUNT = 60
LARGE_BYTES = 8_000


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

    consumer.consume("first", 1)
    world.advance(10 * A_WHILE_US)

    assert world.faults.reads_fail == 0
    assert len(world.truth.targets["first"].seen) == BACKLOG_COUNT
    drain(world)


def test_rejected_messages_are_dead_lettered_when_the_disk_is_readable_again(world: World) -> None:
    """It does not come to a consumer again: that a page cannot be read now says nothing about the message."""
    publisher, consumer = world.clients["p0"], world.clients["c0"]
    publisher.connect(clean_start=False)
    consumer.connect(clean_start=False)
    world.advance(A_WHILE_US)
    consumer.mode = HOLD
    consumer.consume("first", 1)
    world.advance(A_WHILE_US)
    for _ in range(BACKLOG_COUNT):
        publisher.publish("work/a/x", "k", 1, LARGE_BYTES)
    world.advance(A_WHILE_US)
    rejected_count = len(consumer.held)
    assert rejected_count > 0
    assert world.image.pages, "the backlog is large enough to lie in pages, with what the consumer holds"
    world.faults.reads_fail = 5

    consumer.settle(rejected_count, order=0, reason_code=0x80, twice=False)
    world.advance(10 * A_WHILE_US)

    assert world.faults.reads_fail == 0
    seen = world.truth.targets["first"].seen.values()
    assert [each.count for each in seen if each.was_rejected] == [1] * rejected_count
    drain(world)
