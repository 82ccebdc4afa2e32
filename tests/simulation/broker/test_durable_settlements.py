"""A settlement reported as durable holds for ever, also where it dead-letters the message; on virtual time."""

from random import Random

import pytest

from simulation.checks.node_checks import queues_of
from simulation.faults import FAILURES_MAX, Unheard
from simulation.world import World
from sluicegate.actors.messages.data import Confirmed, Deliveries, PublishFailed, Settle, SettleDurably
from sluicegate.actors.messages.queues import BindFlow
from sluicegate.actors.spool.health import TRIES_MAX
from sluicegate.actors.transactions.commit import TransactionCommit, UnsettledRanges
from sluicegate.gateway.node.node import Node
from sluicegate.messaging.message.outcomes import ACCEPTED, REJECTED
from sluicegate.messaging.partitions.state.unsettled import DeliverySource
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE
from support.cores.lone_actors import recorder

QUEUE = "first"
A_MOMENT_US, A_REFUSAL_US, A_WHILE_US, FAILURES_US = 50, 100_000, 2_000_000, 10_000_000

pytestmark = pytest.mark.usefixtures("a_message_waits")


class Consumer:
    """Has one message of the queue."""

    def __init__(self, world: World) -> None:
        self._world = world
        heard: list[object] = []
        runtime = world.node.services.runtime
        address = recorder(runtime, heard).inbox
        (queue,) = [each for each in queues_of(world.node) if each.name == QUEUE]
        self.answers: list[object] = []
        self._answered = recorder(runtime, self.answers).inbox
        flow_id = runtime.next_urn()

        async def bind() -> None:
            await queue.cell.ask(BindFlow(flow_id, "worker", "", address, CreditWindow(1)))

        world.ask(bind())
        world.advance(A_WHILE_US)
        (self._message,) = [each for each in heard if isinstance(each, Deliveries)]

    def settle(self, outcome: int) -> None:
        """Settle it, and wait until the answer comes."""
        self.begins_to_settle(outcome)
        while not self.answers:
            self._world.advance(A_MOMENT_US)

    async def commits(self, node: Node) -> str:
        """Settle it in a transaction that publishes nothing; return why nothing of that happened, or nothing."""
        (delivery,) = self._message.deliveries
        partition, flow_id = self._message.partition, self._message.flow.flow_id
        source = DeliverySource(partition, 0, flow_id, delivery.epoch, delivery.delivery_count)
        commit = TransactionCommit(space=node.default.space, spool=node.services.spool.inbox, rng=Random(1))
        held = UnsettledRanges(source, [(delivery.first_sequence, delivery.first_sequence + 1)])
        return await commit.commit(None, [held])

    def begins_to_settle(self, outcome: int) -> None:
        (delivery,) = self._message.deliveries
        first = delivery.first_sequence
        settle = Settle(self._message.flow.flow_id, delivery.epoch, first, first + 1, outcome)
        self._message.partition.post(SettleDurably(settle, self._answered))


def break_partition(world: World) -> None:
    """Have the queue's partition fail until it is read back from the store."""
    world.log.expected.append("failed: AssertionError(")
    (queue,) = [each for each in queues_of(world.node) if each.name == QUEUE]
    (partition,) = list(queue.cell.children or ())
    for _ in range(FAILURES_MAX):
        partition.inbox.post(Unheard())


def depth(world: World, queue: str) -> int:
    return len(world.ask(world.view.browse_queue(queue)))


@pytest.mark.parametrize("failures", [0, 1, 3])
@pytest.mark.parametrize(("outcome", "dead"), [(ACCEPTED, 0), (REJECTED, 1)])
def test_confirmed_settlements_are_in_the_store(world: World, outcome: int, dead: int, failures: int) -> None:
    """With a store that refuses so often; a message that was rejected is in the dead message queue by then."""
    consumer = Consumer(world)
    world.faults.failures_left = failures

    consumer.settle(outcome)

    assert isinstance(consumer.answers[0], Confirmed)
    assert world.faults.failures_left == 0
    world.power_fails()
    assert (depth(world, QUEUE), depth(world, DEAD_MESSAGE_QUEUE)) == (0, dead)


def test_a_rejection_that_came_to_nothing_is_refused(world: World) -> None:
    """Its partition is read back from the store, which did not take the message into the dead message queue."""
    consumer = Consumer(world)
    world.faults.failures_left = 1
    consumer.begins_to_settle(REJECTED)
    world.advance(A_REFUSAL_US)
    assert world.faults.failures_left == 0

    break_partition(world)
    world.advance(A_WHILE_US)

    assert isinstance(consumer.answers[0], PublishFailed)
    world.power_fails()
    assert (depth(world, QUEUE), depth(world, DEAD_MESSAGE_QUEUE)) == (1, 0)


@pytest.mark.parametrize(("failures", "is_made"), [(0, True), (TRIES_MAX - 1, True), (TRIES_MAX + 2, False)])
def test_a_transaction_of_settlements_that_was_given_up_never_comes_true(
    world: World, failures: int, is_made: bool
) -> None:
    """Decision 0025: its consumer heard that nothing happened. The store recovers, and writes what it still has."""
    consumer = Consumer(world)
    world.faults.failures_left = failures

    reason = world.ask(consumer.commits(world.node))

    assert (reason == "") == is_made
    world.advance(FAILURES_US)
    assert world.faults.failures_left == 0
    world.power_fails()
    assert depth(world, QUEUE) == (0 if is_made else 1)
