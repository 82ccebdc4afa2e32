"""What becomes of what an HTTP worker's flow was delivered: when the flow ends, and while requests wait for it."""

import logging

import pytest

from sluicegate.actors.messages.data import Confirmed, Deliveries, PublishFailed, SettleDurably
from sluicegate.actors.messages.queues import DrainFlow, FlowDrained, FlowGone, FlowState
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.runtime.tasks import run
from sluicegate.messaging.message.outcomes import ACCEPTED
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.protocols.http.consuming.flow import READ_ELSEWHERE, FlowOptions, HttpFlow, PollingReader
from support.cores.lone_actors import recorder, spawned, turn
from support.cores.messages import batch_of, flow_of, published, window_of


class DrainedQueue(LoopActor):
    """A queue that leaves the answer to a drain to the test."""

    def on_receive(self, message: DrainFlow) -> None:
        """Leave it."""


class Worker:
    """A flow of one partition, what its queue says to it, and requests that wait for its messages."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.window = window_of(10)
        options = FlowOptions("f", queue_name="q", user="", host="h", client="c", lock_ms=1000, unsettled_max=10)
        self.queue = spawned(runtime, DrainedQueue)
        self.cell = spawned(runtime, lambda cell: HttpFlow(cell, options=options, queue=self.queue, window=self.window))
        self.flow: HttpFlow = self.cell.behaviour
        self.bound = flow_of(1, window=self.window)
        self.ledger = Ledger(durable=False, rules=DeliveryRules())
        self.ledger.attach(self.bound, 1)
        self.asked: list[object] = []  # of the partition, that leaves its answers to the test
        self.partition = recorder(runtime, self.asked).inbox
        self.request: LoopFuture[None] = LoopFuture()

    def has_partitions(self, *partitions: int) -> None:
        self.cell.inbox.post(FlowState(1, bool(partitions), list(partitions)))

    def is_delivered(self, payload: bytes) -> None:
        batch = batch_of([payload])
        self.ledger.append(batch, published(batch))
        self.cell.inbox.post(Deliveries(self.bound, self.partition, 0, self.ledger.deliver(0)))

    def settles(self, payload: bytes) -> LoopFuture[list[int]]:
        """Accept the only message, which is delivered and shown; return the deliveries that were not held."""
        self.has_partitions(0)
        self.flow.read(PollingReader(self.flow, count_max=1), after=None)
        turn(self.runtime)
        self.is_delivered(payload)
        turn(self.runtime)
        assert self.shown() == [payload]
        begun: list[LoopFuture[list[int]]] = []
        self.runtime.loop.call_soon(lambda: begun.append(run(self.runtime, self.flow.settle([1], ACCEPTED))))
        turn(self.runtime)
        return begun[0]

    def is_drained(self, number: int) -> None:
        self.cell.inbox.post(FlowDrained(1, number))

    def is_read_by(self, poll: PollingReader) -> None:
        """Begin a request that waits for a minute."""

        def begin() -> None:
            self.flow.read(poll, after=None)
            self.request = run(self.runtime, poll.wait(60_000))

        self.runtime.loop.call_soon(begin)

    def is_answered(self) -> bool:
        """Tell whether the last request has what it waited for, after whatever was said."""
        turn(self.runtime)
        return self.request.done

    def shown(self) -> list[bytes]:
        return [each.payload() for each in self.flow.unsettled.show(10)]


@pytest.fixture
def worker(runtime: Runtime) -> Worker:
    return Worker(runtime)


def test_deliveries_after_the_end_of_a_flow_stay_with_the_queue(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    """It was on its way as the queue's egress was shut down: the partition takes it back with the flow."""
    worker.cell.inbox.post(FlowGone(1, "503 Queue Shutdown", may_return=True))
    worker.is_delivered(b"late")
    turn(worker.runtime)
    assert worker.window.used == 0
    assert [each.message for each in caplog.records if each.levelno >= logging.ERROR] == []
    assert worker.cell.inbox.dead_letters == 1


def test_a_request_waits_on_when_what_came_goes_with_its_partition(worker: Worker) -> None:
    """Another worker has the partition now, and it may come back: 204 would say that the time is over."""
    worker.is_read_by(PollingReader(worker.flow, count_max=2))
    turn(worker.runtime)
    worker.has_partitions(0)
    worker.is_delivered(b"theirs")
    worker.has_partitions()
    worker.is_drained(1)
    assert not worker.is_answered()
    worker.has_partitions(0)
    worker.is_delivered(b"ours")
    turn(worker.runtime)
    worker.is_drained(2)
    assert worker.is_answered()
    assert worker.shown() == [b"ours"]


def test_a_request_waits_on_when_what_came_goes_before_it_was_read(worker: Worker) -> None:
    """A request goes on in a turn of its own; the partition may have gone in one before that."""
    worker.is_read_by(PollingReader(worker.flow, count_max=1))
    turn(worker.runtime)
    worker.has_partitions(0)
    worker.is_delivered(b"theirs")
    worker.has_partitions()
    assert not worker.is_answered()
    worker.has_partitions(0)
    worker.is_delivered(b"ours")
    assert worker.is_answered()
    assert worker.shown() == [b"ours"]


def test_waiting_messages_go_to_the_later_request(worker: Worker) -> None:
    """A worker that lost its connection asks anew: the request before has nobody to tell any more."""
    earlier, later = PollingReader(worker.flow, count_max=1), PollingReader(worker.flow, count_max=1)
    worker.has_partitions(0)
    worker.is_read_by(earlier)
    turn(worker.runtime)
    worker.is_delivered(b"one")
    worker.is_read_by(later)
    assert worker.is_answered()
    assert (earlier.end_reason, later.end_reason) == (READ_ELSEWHERE, "")
    assert worker.shown() == [b"one"]


def test_a_request_for_a_flow_that_ended_while_it_came_does_not_wait(worker: Worker) -> None:
    worker.flow.gone("its worker has ended it")
    poll = PollingReader(worker.flow, count_max=1)
    worker.is_read_by(poll)
    assert worker.is_answered()
    assert poll.end_reason == "its worker has ended it"


def test_a_request_that_ended_is_not_held_up_by_a_drain_that_is_answered_then(worker: Worker) -> None:
    poll = PollingReader(worker.flow, count_max=1)
    worker.is_read_by(poll)
    turn(worker.runtime)
    poll.ended("the node stops")
    worker.is_drained(1)
    assert worker.is_answered()


def test_delivered_messages_are_not_returned_when_a_repeated_request_ends(worker: Worker) -> None:
    """It was delivered: given back untouched it would come to others as if it had not been tried."""
    worker.has_partitions(0)
    earlier, later = PollingReader(worker.flow, count_max=1), PollingReader(worker.flow, count_max=2)
    worker.is_read_by(earlier)
    turn(worker.runtime)
    worker.is_delivered(b"shown")
    turn(worker.runtime)
    assert worker.shown() == [b"shown"]
    worker.flow.leave(earlier)
    worker.flow.read(later, after=0)
    worker.is_delivered(b"unseen")
    turn(worker.runtime)
    assert worker.flow.unsettled.waiting() == [1, 2]

    worker.flow.leave(later)

    assert worker.flow.unsettled.get(1) is not None
    assert (worker.flow.unsettled.count, worker.flow.unsettled.waiting_count) == (1, 0)


@pytest.mark.parametrize("word", [FlowState(1, False, []), FlowGone(1, "503 Queue Shutdown", may_return=True)])
@pytest.mark.parametrize(("answer", "not_unsettled"), [(Confirmed(0), []), (PublishFailed(0, "it has moved on"), [1])])
def test_whether_a_settlement_came_before_its_partition_was_taken_away_the_partition_says(
    worker: Worker, word: FlowState | FlowGone, answer: Confirmed | PublishFailed, not_unsettled: list[int]
) -> None:
    """409 says that somebody else has the message, or will: its worker undoes what it has done with it."""
    settled = worker.settles(b"one")
    worker.cell.inbox.post(word)
    turn(worker.runtime)
    assert not settled.done, settled.error()
    (settlement,) = worker.asked
    assert isinstance(settlement, SettleDurably)
    assert settlement.settle.delivery_count == 1
    settlement.reply_to.post(answer)
    turn(worker.runtime)
    assert settled.get() == not_unsettled


def test_settlements_to_a_deleted_queue_are_not_waited_for(worker: Worker) -> None:
    settled = worker.settles(b"one")
    worker.queue.stop()
    worker.cell.inbox.post(FlowGone(1, "the queue was deleted", may_return=False))
    turn(worker.runtime)
    assert settled.get() == [1]
