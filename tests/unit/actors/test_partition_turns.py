"""A partition in its turns: with a consumer that takes within them, and with one that is paused."""

from sluicegate.actors.messages.data import Append, Deliveries, Settle
from sluicegate.actors.messages.partitions import Attach, DeliverAgain, Pause
from sluicegate.actors.partitions.triggers import wake_waiters
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.outcomes import ACCEPTED
from sluicegate.messaging.partitions.state.flows import Flow
from sluicegate.messaging.queues.credit import CreditWindow
from support.cores.lone_actors import spawned, spawned_partition, turn
from support.cores.messages import numbered, window_of


class GivesBackAtOnce(LoopActor):
    """A consumer that holds nothing: what it gets counts for nothing any more before its turn is over."""

    def __init__(self, cell: ActorCell, window: CreditWindow[Address]) -> None:
        super().__init__(cell)
        self.got_count = 0
        self._window = window

    def on_receive(self, message: Deliveries) -> None:
        count = sum(each.stop_row - each.start_row for each in message.deliveries)
        self.got_count += count
        self._window.give(count)
        wake_waiters(self._window, self.cell.runtime.dispatcher)

    def on_turn_ended(self) -> None:
        self.cell.inbox.accepts_inline = True


def test_a_partition_is_called_for_credit_that_comes_back_while_it_hands_over(runtime: Runtime) -> None:
    """It stands in line before anybody can give credit: else it would wait for what it has already been given."""
    window = window_of(1)
    consumer = spawned(runtime, lambda cell: GivesBackAtOnce(cell, window))
    consumer.inbox.accepts_inline = True
    flow = Flow(flow_id=1, queue_name="q", client="c", address=consumer.inbox, window=window, bound_order=1)
    batch = numbered(3)
    partition = spawned_partition(runtime, consumer.inbox)
    partition.inbox.post(Attach(flow, 1))
    partition.actor._partition._gate.reserve(batch)
    partition.inbox.post(Append(batch, None, None))

    for _ in range(10):
        turn(runtime)
    assert consumer.actor.got_count == 3

    partition.inbox.post(DeliverAgain(1, 1, [(1, 4)]))
    for _ in range(10):
        turn(runtime)
    assert consumer.actor.got_count == 6


class Hears(LoopActor):
    """A queue and a consumer, who keep what they are told."""

    def __init__(self, cell: ActorCell) -> None:
        super().__init__(cell)
        self.heard: list[object] = []

    def on_receive(self, message: object) -> None:
        self.heard.append(message)


def test_a_flow_that_goes_on_is_not_reported_to_hold_nothing(runtime: Runtime) -> None:
    """Heard behind the next pause, which has the same epoch, it would hand over what the flow still holds."""
    queue, consumer = spawned(runtime, Hears), spawned(runtime, Hears)
    flow = Flow(flow_id=1, queue_name="q", client="c", address=consumer.inbox, window=window_of(9), bound_order=1)
    partition = spawned_partition(runtime, queue.inbox)
    partition.actor._partition._gate.reserve(numbered(1))
    partition.inbox.post(Attach(flow, 1))
    partition.inbox.post(Append(numbered(1), None, None))
    turn(runtime)
    for message in (Pause(1, 1), Attach(flow, 1), Settle(1, 1, 1, 2, ACCEPTED)):
        partition.inbox.post(message)
        turn(runtime)

    assert len(consumer.actor.heard) == 1
    assert queue.actor.heard == []
