"""Queues of a neighbor where the consumers are: why they cannot be reached, and what the neighbor's answers mean."""

from sluicegate.actors.messages.data import PublishFailed, RenewLock, Settle
from sluicegate.actors.messages.queues import BindFlow, UnbindFlow
from sluicegate.actors.network.link_batches import link_body
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.outcomes import ACCEPTED
from sluicegate.messaging.message.refusals import REFUSAL_TEXTS, REFUSED_NOT_STORED
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.protocols.flow.codec.frames.link_flow import LinkDeliver, LinkFlow
from sluicegate.protocols.flow.links import LinkWire
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.channel import QueuesChannel
from sluicegate.protocols.network.queues.notes import note_body, note_in
from sluicegate.protocols.network.queues.remote.queues import RemoteQueues
from support.cores.lone_actors import Idle, recorder, spawned, turn
from support.cores.messages import batch_of
from support.network.frame_socket import FrameSocket
from support.network.lone_wire import lone_wire

CONSUMER = 5


def connected(runtime: Runtime, *, serves_consumers: bool = True) -> tuple[RemoteQueues, LinkWire, FrameSocket]:
    cell, socket = spawned(runtime, Idle), FrameSocket()
    wire = lone_wire(cell, socket)
    queues = RemoteQueues(cell, "b", "default")
    channel = QueuesChannel(wire, 1, 1, 99)
    queues.connected(channel, serves_consumers=serves_consumers, serves_readers=True)
    return queues, wire, socket


def test_it_is_told_why_queues_cannot_be_reached(runtime: Runtime) -> None:
    queues, _, _ = connected(runtime)
    assert (queues.absence(), queues.incarnation) == ("", 99)
    queues.disconnected()
    assert (queues.absence(), queues.incarnation) == ("the link to its broker b is down", 0)
    queues, _, _ = connected(runtime, serves_consumers=False)
    assert queues.absence() == "its broker b has a release that serves no consumers of other brokers"
    queues.disconnected()
    assert queues.absence() == "the link to its broker b is down"


def test_a_neighbor_that_delivers_to_a_consumer_that_is_gone_is_told_so(runtime: Runtime) -> None:
    """Else it would hold the messages, and with them their keys, for as long as the link is up."""
    queues, wire, socket = connected(runtime)
    queues.delivered(LinkDeliver(1, CONSUMER, 0, 0, 1, 1, 1, 0, b"", b"messages"))
    wire.flush()
    (frame,) = socket.take()
    assert isinstance(frame, LinkFlow)
    note = note_in(frame.batch)
    assert (note.kind, note.consumer, note.values) == (notes.UNBIND, CONSUMER, [False, True])


def test_a_verdict_of_a_later_release_is_a_refusal(runtime: Runtime) -> None:
    queues, _, _ = connected(runtime)
    heard: list[object] = []
    queues.begin(CONSUMER, queues.queue("q")[1])
    token = queues.awaits(CONSUMER, recorder(runtime, heard).inbox)
    queues.received(note_in(note_body(notes.SETTLED, 0, token, len(REFUSAL_TEXTS) + 3, "")))
    turn(runtime)
    assert isinstance(heard[0], PublishFailed)
    assert heard[0].verdict == REFUSED_NOT_STORED


def test_locks_are_renewed_when_the_neighbor_says_so(runtime: Runtime) -> None:
    """Not before: a worker that believes in a lock which it has lost is the second owner of a key."""
    queues, wire, socket = connected(runtime)
    queues.begin(CONSUMER, queues.queue("q")[1])
    renewed = queues.renew(0, RenewLock(CONSUMER, 1, [(1, 3)], 1))
    wire.flush()
    (frame,) = socket.take()
    assert isinstance(frame, LinkFlow)
    assert not renewed.done
    queues.received(note_in(note_body(notes.RENEWED, CONSUMER, note_in(frame.batch).number(4), 2)))
    assert renewed.get() == 2

    lost = queues.renew(0, RenewLock(CONSUMER, 1, [(1, 3)], 1))
    queues.disconnected()
    assert lost.get() == 0


def test_what_a_consumer_has_settled_goes_before_the_end_of_its_flow(runtime: Runtime) -> None:
    """A client that confirms a message and leaves at once would find it again."""
    queues, wire, socket = connected(runtime)
    cell, queue = queues.queue("q")
    window: CreditWindow[Address] = CreditWindow(10)
    cell.inbox.post(BindFlow(CONSUMER, "c", "", recorder(runtime, []).inbox, window))
    turn(runtime)
    queues.received(note_in(note_body(notes.BOUND, CONSUMER)))
    partition = queue._partition(0)
    cell.inbox.post(UnbindFlow(CONSUMER))
    for sequence in range(200):  # more than one turn handles
        partition.post(Settle(CONSUMER, 1, sequence, sequence + 1, ACCEPTED))
    for _ in range(10):
        turn(runtime)
    wire.flush()
    kinds = [note_in(frame.batch).kind for frame in socket.take() if isinstance(frame, LinkFlow)]
    assert kinds.count(notes.SETTLE) == 200
    assert kinds[-1] == notes.UNBIND


def test_what_is_unsettled_of_a_partition_that_a_consumer_has_lost_counts_no_longer(runtime: Runtime) -> None:
    """The home has it back. A settlement that was under way lowers the count of no other partition."""
    queues, _, _ = connected(runtime)
    cell, queue = queues.queue("q")
    window: CreditWindow[Address] = CreditWindow(10)
    cell.inbox.post(BindFlow(CONSUMER, "c", "", recorder(runtime, []).inbox, window))
    turn(runtime)
    queues.received(note_in(note_body(notes.BOUND, CONSUMER)))
    queues.received(note_in(note_body(notes.STATE, CONSUMER, True, [0, 1])))
    for number, count in ((0, 3), (1, 2)):
        body = link_body(batch_of([b"x"] * count))
        queues.delivered(LinkDeliver(1, CONSUMER, number, 0, 1, 1, 1, 0, b"", body))

    def unsettled() -> int:
        return sum(each.unacked_count for each in queue.flows())

    assert unsettled() == 5
    queues.settle(1, Settle(CONSUMER, 1, 1, 2, ACCEPTED), 0)
    assert unsettled() == 4
    queues.received(note_in(note_body(notes.STATE, CONSUMER, True, [1])))
    assert unsettled() == 1
    queues.settle(0, Settle(CONSUMER, 1, 1, 4, ACCEPTED), 0)
    assert unsettled() == 1
    queues.settle(1, Settle(CONSUMER, 1, 2, 3, ACCEPTED), 0)
    assert unsettled() == 0
