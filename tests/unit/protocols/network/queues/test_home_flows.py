"""Consumers of a neighbor where the queue is: credit that is counted at both ends, and a link that is slow."""

import pytest

from sluicegate.actors.messages.data import Deliveries, Settle
from sluicegate.actors.messages.directory import FindQueue, QueueHandle
from sluicegate.actors.messages.queues import BindFlow, FlowState
from sluicegate.actors.queues.elsewhere import queue_elsewhere
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.outcomes import ACCEPTED, REJECTED
from sluicegate.messaging.network.link import LinkOutput
from sluicegate.messaging.network.queue_names import QueueFacts, QueueHome
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.protocols.flow.codec.frames.link_flow import LinkDeliver, LinkFlow
from sluicegate.protocols.flow.links import DELIVERIES_BYTES_MAX
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.channel import QueuesChannel
from sluicegate.protocols.network.queues.home.flows import HomeFlows
from sluicegate.protocols.network.queues.notes import NO_QUEUE, note_body, note_in
from support.cores.lone_actors import Idle, recorder, spawned, turn
from support.cores.messages import batch_of, flow_of
from support.network.frame_socket import FrameSocket
from support.network.lone_wire import lone_wire

CONSUMER = 5  # number of the consumer at its own broker
BAD_USER = "bad"  # whom the queue fails to bind
FRAME_BYTES_MAX = 1024 * 1024


class Directory(LoopActor):
    """Knows queue q."""

    def __init__(self, cell: ActorCell, handle: QueueHandle) -> None:
        super().__init__(cell)
        self._handle = handle

    def on_receive(self, message: object) -> QueueHandle:
        assert isinstance(message, FindQueue)
        return self._handle


class Queue(LoopActor):
    """Takes flows."""

    def __init__(self, cell: ActorCell, bound: list[BindFlow]) -> None:
        super().__init__(cell)
        self._bound = bound

    def on_receive(self, message: object) -> None:
        assert isinstance(message, BindFlow)
        if message.user == BAD_USER:
            raise RuntimeError("a fault of the queue")
        self._bound.append(message)


class Home:
    """A link with a consumer that is bound to queue q."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.bound: list[BindFlow] = []
        queue = spawned(runtime, lambda cell: Queue(cell, self.bound))
        facts = QueueFacts("exclusive", 0, 0, True, True, 0)
        handle = queue_elsewhere(QueueHome("q", LinkOutput("a"), facts), queue, set, 1, "default")
        self.link = spawned(runtime, Idle)
        self.pool: CreditPool[Address] = CreditPool(1_000_000)
        self.flows = HomeFlows(
            self.link,
            "a",
            queues=spawned(runtime, lambda cell: Directory(cell, handle)),
            selectors=Selectors({}),
            credit=self.pool,
        )
        self.socket = FrameSocket()
        self.wire = lone_wire(self.link, self.socket)
        self.flows.connected(QueuesChannel(self.wire, 1, FRAME_BYTES_MAX, 99))
        self.settled: list[object] = []
        self.partition = recorder(runtime, self.settled).inbox
        self.says(notes.BIND, "q", "client", "user", "flow", "", False, 0)
        turn(runtime)
        self.window = self.bound[0].window
        self.flow_id = self.bound[0].flow_id

    def says(self, kind: int, *values: object) -> None:
        """The consumer's broker says something of the consumer."""
        self.flows.received(note_in(note_body(kind, CONSUMER, *values)))

    def partition_delivers(self, batch: MessageBatch, first: int, *, number: int = 0) -> Deliveries:
        """Take credit for messages, as a partition does; return what it posts to the link."""
        self.window.take(batch.count)
        flow = flow_of(self.flow_id, window=self.window)
        delivery = Delivery(flow, 1, batch, 0, batch.count, first, False, 1, None)
        return Deliveries(flow, self.partition, number, [delivery])

    def crossed(self) -> int:
        """Return how many messages were written to the link since the last time."""
        self.wire.flush()
        return len([each for each in self.socket.take() if isinstance(each, LinkDeliver)])


@pytest.fixture
def home(runtime: Runtime) -> Home:
    return Home(runtime)


def one(size: int = 10) -> MessageBatch:
    return batch_of([bytes(size)])


def test_credit_is_given_once_though_notes_come_before_the_deliveries_that_used_it(home: Home) -> None:
    """A partition has used the credit, and its deliveries wait in the link's inbox."""
    home.says(notes.CREDIT, 3)
    waiting = [home.partition_delivers(one(), first) for first in (1, 2, 3)]
    assert home.window.room() == 0
    home.says(notes.CREDIT, 3)
    assert home.window.room() == 0
    for message in waiting:
        assert home.flows.take(message)
    assert home.window.room() == 0
    home.says(notes.SETTLE, 0, 1, ACCEPTED, 1, "", 0, [[1, 4]])
    assert home.window.room() == 0, "a settlement is no credit"
    home.says(notes.CREDIT, 5)
    assert home.window.room() == 2


def test_what_cannot_cross_is_rejected_and_takes_no_credit(home: Home) -> None:
    home.says(notes.CREDIT, 2)
    home.flows.take(home.partition_delivers(one(2 * FRAME_BYTES_MAX), 1))
    assert (home.flows.unwritable_count, home.flows.delivered_count, home.window.room()) == (1, 0, 2)
    turn(home.runtime)
    settle = home.settled[0]
    assert isinstance(settle, Settle)
    assert (settle.outcome, settle.ranges) == (REJECTED, [(1, 2)])
    home.flows.take(home.partition_delivers(one(), 2))
    assert (home.crossed(), home.window.room()) == (1, 1)


def test_what_partitions_have_back_is_credit_no_longer_used(home: Home) -> None:
    """Partitions that have moved to another flow have back what this one holds of them."""
    home.says(notes.CREDIT, 4)
    home.flows.take(home.partition_delivers(one(), 1, number=0))
    home.flows.take(home.partition_delivers(one(), 1, number=1))
    home.flows.take(FlowState(home.flow_id, True, [1]))
    assert (home.window.used, home.window.room(), home.pool.used) == (1, 2, 1)
    home.says(notes.SETTLE, 0, 1, ACCEPTED, 1, "", 0, [[1, 2]])  # of the partition that has moved
    assert home.window.used == 1


def test_partitions_deliver_no_more_while_the_link_is_slow(home: Home) -> None:
    home.says(notes.CREDIT, 1_000)
    home.wire.paused()
    size, count = 64 * 1024, 0
    while home.window.room() > 0:
        count += 1
        home.flows.take(home.partition_delivers(one(size), count))
    assert DELIVERIES_BYTES_MAX // size <= count <= DELIVERIES_BYTES_MAX // size + 1
    assert home.crossed() == 0
    home.wire.resumed()
    assert home.crossed() == count
    assert home.window.room() == 1_000 - count


def test_a_consumer_that_binds_while_the_link_is_slow_waits_as_well(home: Home) -> None:
    home.says(notes.CREDIT, 1_000)
    home.wire.paused()
    while home.window.room() > 0:
        home.flows.take(home.partition_delivers(one(256 * 1024), home.window.used + 1))
    other = CONSUMER + 1
    for kind, values in ((notes.BIND, ["q", "other", "user", "flow", "", False, 0]), (notes.CREDIT, [10])):
        home.flows.received(note_in(note_body(kind, other, *values)))
    turn(home.runtime)
    window = home.bound[1].window
    assert window.room() == 0
    home.wire.resumed()
    home.wire.flush()
    assert window.room() == 10


@pytest.mark.parametrize("kind", [notes.BIND, notes.BROWSE])
def test_a_number_that_is_bound_is_not_bound_again(home: Home, kind: int) -> None:
    with pytest.raises(ValueError, match=f"consumer {CONSUMER} is bound already"):
        home.says(kind, "q", "client", "user", "flow", "", 1, 0, 0)


@pytest.mark.parametrize("kind", [notes.BIND, notes.BROWSE])
def test_a_neighbor_without_consumers_binds_none(home: Home, kind: int) -> None:
    """It would hold messages that never reach it."""
    home.flows.disconnected()
    with pytest.raises(ValueError, match="no consumers were agreed on"):
        home.says(kind, "q", "client", "user", "flow", "", 1, 0, 0)


def test_a_fault_of_the_queue_is_logged_and_told_as_no_deletion(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    home.wire.flush()
    home.socket.take()
    home.flows.received(note_in(note_body(notes.BIND, CONSUMER + 1, "q", "client", BAD_USER, "flow", "", False, 0)))
    turn(home.runtime)
    home.wire.flush()
    (frame,) = home.socket.take()
    assert isinstance(frame, LinkFlow)
    refused = note_in(frame.batch)
    assert (refused.kind, refused.text(0)) == (notes.REFUSED, NO_QUEUE)
    assert refused.text(1) == "a fault kept the flow from queue 'q'"
    assert "a fault of the queue" in caplog.text
