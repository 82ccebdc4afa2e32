"""Readers of a neighbor where the queue is: one chunk at a time, a link that is slow, limits, and lost connections."""

from collections.abc import Callable, Iterable

import pytest

from sluicegate.actors.messages.directory import FindQueue, QueueHandle
from sluicegate.actors.messages.readers import (
    AskPartitions,
    CursorPosition,
    CursorSeen,
    CursorStatus,
    LookAtCursor,
    NoSuchPartition,
    RangeChunk,
    ReadFailed,
)
from sluicegate.actors.queues.elsewhere import queue_elsewhere
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.messaging.bulk.range_reads import RangeRun
from sluicegate.messaging.network.link import LinkOutput
from sluicegate.messaging.network.queue_names import QueueFacts, QueueHome
from sluicegate.messaging.partitions.state.segments import Gap
from sluicegate.protocols.flow.codec.frames.link_flow import OF_READER, LinkDeliver, LinkFlow
from sluicegate.protocols.flow.links import DELIVERIES_BYTES_MAX
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.channel import QueuesChannel
from sluicegate.protocols.network.queues.home.readers import AT_ONCE_MAX, POLLS_MAX, REQUESTS_MAX, HomeReaders
from sluicegate.protocols.network.queues.notes import FlowNote, note_body, note_in
from support.cores.lone_actors import Idle, spawned, turn
from support.cores.messages import batch_of
from support.network.frame_socket import FrameSocket
from support.network.lone_wire import lone_wire

FRAME_BYTES_MAX = 1024 * 1024


class Asked(LoopActor):
    """Stands for the directory, a queue, or the cursors of a message VPN: answers as the test says."""

    def __init__(self, cell: ActorCell, answer: Callable[[object], object]) -> None:
        super().__init__(cell)
        self._answer = answer

    def on_receive(self, message: object) -> object:
        return self._answer(message)


class Home:
    """A link with readers at queue q, whose reads and cursors answer when the test says."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.reads: list[LoopFuture[object]] = []  # under way
        self.polls: list[LoopFuture[object]] = []
        self.waits: set[int] = set()  # milliseconds that they may take
        queue = spawned(runtime, lambda cell: Asked(cell, lambda message: self._begins(self.reads, message)))
        cursors = spawned(runtime, lambda cell: Asked(cell, lambda message: self._begins(self.polls, message)))
        facts = QueueFacts("exclusive", 0, 0, True, True, 0)
        handle = queue_elsewhere(QueueHome("q", LinkOutput("a"), facts), queue, set, 1, "default")
        self.handle: QueueHandle | None = handle
        self.directory = spawned(runtime, lambda cell: Asked(cell, self._found))
        self.link = spawned(runtime, Idle)
        self.readers = HomeReaders(self.link, "a", queues=self.directory, cursors=cursors)
        self.connects()

    def _found(self, message: object) -> QueueHandle | None:
        assert isinstance(message, FindQueue)
        return self.handle

    def _begins(self, under_way: list[LoopFuture[object]], message: object) -> LoopFuture[object]:
        assert isinstance(message, (AskPartitions, CursorStatus, LookAtCursor))
        if isinstance(message, CursorStatus):
            self.waits.add(message.wait_ms)
        under_way.append(LoopFuture())
        return under_way[-1]

    def connects(self) -> None:
        self.socket = FrameSocket()
        self.wire = lone_wire(self.link, self.socket)
        self.readers.connected(QueuesChannel(self.wire, 1, FRAME_BYTES_MAX, 99))

    def asks(self, number: int, *values: object) -> None:
        """A reader of the neighbor asks."""
        self.asks_all([number], *values)

    def asks_all(self, numbers: Iterable[int], *values: object) -> None:
        """Readers ask for the same, one behind the other."""

        def receive() -> None:
            for number in numbers:
                self.readers.received(note_in(note_body(notes.READER, number, *values)))

        self.runtime.loop.call_soon(receive)
        self.turns()

    def turns(self) -> None:
        """Let everything happen that needs nobody else."""
        for _ in range(3):  # one for the call, one for what is written at its end, one for what that wakes
            turn(self.runtime)
        while not self.runtime.dispatcher.is_idle():
            turn(self.runtime)

    def reads_one(self, number: int) -> None:
        self.asks(number, "read", "q", "ada", 0, 1, 1_000, 100)

    def gives(self, payloads: list[bytes]) -> None:
        """Answer the oldest read that is under way with these messages, from 1 on."""
        end = 1 + len(payloads)
        run = RangeRun(1, batch_of(payloads), 0, len(payloads))
        self.reads.pop(0).set([RangeChunk(0, 1, end, end, [run], [])])
        self.turns()

    def answers_all_polls(self, answer: object) -> None:
        polls, self.polls = self.polls, []
        for poll in polls:
            poll.set(answer)
        self.turns()

    def crossed(self) -> list[LinkDeliver | FlowNote]:
        """Return what was written to the link since the last call."""
        self.wire.flush()
        found: list[LinkDeliver | FlowNote] = []
        for frame in self.socket.take():
            assert isinstance(frame, (LinkDeliver, LinkFlow))
            found.append(frame if isinstance(frame, LinkDeliver) else note_in(frame.batch))
        return found

    def refusals(self) -> list[tuple[int, str]]:
        """Return number and code of what was refused since the last call."""
        found = [each for each in self.crossed() if isinstance(each, FlowNote)]
        return [(each.consumer, each.text(0)) for each in found if each.kind == notes.UNREAD]


@pytest.fixture
def home(runtime: Runtime) -> Home:
    return Home(runtime)


def test_a_chunk_crosses_in_pieces_and_ends_with_a_note(home: Home) -> None:
    home.reads_one(7)
    run = RangeRun(40, batch_of([bytes(100_000)] * 6), 1, 6)
    home.reads.pop(0).set([RangeChunk(3, 40, 50, 60, [run], [Gap(45, 50, "settled")])])
    home.turns()
    *parts, end = home.crossed()
    assert len(parts) > 1
    places = [
        (each.consumer, each.partition, each.flags, each.first) for each in parts if isinstance(each, LinkDeliver)
    ]
    assert places[0] == (7, 3, OF_READER, 40)
    assert [first for *_, first in places] == sorted({first for *_, first in places})
    assert isinstance(end, FlowNote)
    assert (end.kind, end.consumer, end.values) == (notes.CHUNK, 7, [50, 60, [[45, 50, "settled"]]])
    assert home.readers.read_count == 5


def test_one_chunk_is_read_at_a_time_and_readers_take_turns(home: Home) -> None:
    for number in (1, 2, 3):
        home.reads_one(number)
    order = []
    for _ in range(3):
        assert len(home.reads) == 1
        home.gives([b"x"])
        order += [each.consumer for each in home.crossed() if isinstance(each, FlowNote)]
    assert (order, home.reads) == ([1, 2, 3], [])


def test_a_link_that_is_slow_stops_reading_until_it_has_written(home: Home) -> None:
    home.wire.paused()
    size = 500_000
    for number in range(30):
        home.reads_one(number)
    given = 0
    while home.reads:
        home.gives([bytes(size)])
        given += 1
    assert DELIVERIES_BYTES_MAX // size <= given <= DELIVERIES_BYTES_MAX // size + 1
    home.runtime.loop.call_soon(home.wire.resumed)
    home.turns()
    assert len(home.reads) == 1


def test_a_message_that_no_frame_takes_fails_the_read_and_not_the_link(home: Home) -> None:
    home.reads_one(7)
    home.gives([b"small", bytes(2 * FRAME_BYTES_MAX)])
    small, end = home.crossed()  # what is before it can be read
    assert isinstance(small, LinkDeliver)
    assert isinstance(end, FlowNote)
    assert (end.kind, end.values) == (notes.CHUNK, [2, 3, []])
    home.reads_one(8)
    home.gives([bytes(2 * FRAME_BYTES_MAX)])
    assert home.refusals() == [(8, "too_large")]
    home.reads_one(9)
    assert len(home.reads) == 1


def test_a_broker_that_takes_no_answers_makes_none_wait_without_bound(home: Home) -> None:
    """Requests wait for the link like reads; beyond their number the link ends."""
    home.wire.paused()
    home.wire.deliver(LinkDeliver(1, 1, 0, OF_READER, 0, 0, 1, 0, b"", bytes(DELIVERIES_BYTES_MAX + 1)))
    home.asks_all(range(REQUESTS_MAX), "status", "q", "ada", "c", 1, [], 0)
    assert home.polls == []
    one_more = note_in(note_body(notes.READER, 9_999, "status", "q", "ada", "c", 1, [], 0))
    unknown = note_in(note_body(notes.READER, 9_998, "of a later release", "q", "ada"))
    home.readers.received(unknown)
    for _ in range(REQUESTS_MAX - 1):
        home.readers.received(one_more)
    with pytest.raises(ValueError, match="takes no answers"):
        home.readers.received(one_more)
    assert home.polls == []
    home.wire.resumed()
    home.runtime.loop.call_soon(home.wire.flush)
    home.turns()
    assert len(home.polls) == AT_ONCE_MAX
    refused = home.refusals()
    assert refused[0] == (9_998, "unserved")
    assert refused[1:] == [(9_999, "busy")] * (REQUESTS_MAX - 1)


def test_a_read_that_fails_is_refused_and_the_next_begins(home: Home) -> None:
    home.reads_one(7)
    home.reads_one(8)
    home.reads.pop(0).set_exception((ReadFailed, ReadFailed("the disk"), None))
    home.turns()
    assert (home.refusals(), len(home.reads)) == ([(7, "unreadable")], 1)
    home.reads.pop(0).set_exception((KeyError, RuntimeError("a fault of ours"), None))
    home.turns()
    assert home.refusals() == [(8, "failed")]


def test_requests_without_answer_are_bounded(home: Home) -> None:
    """Those of one neighbor; what was answered counts no more."""
    numbers = range(REQUESTS_MAX)
    home.asks_all(numbers, "look", "q", "ada", "c")
    home.asks(9_999, "look", "q", "ada", "c")
    assert home.refusals() == [(9_999, "busy")]
    home.polls.pop().set(CursorSeen(1, "", []))
    home.turns()
    home.reads_one(10_000)
    assert (home.refusals(), len(home.reads)) == ([], 1)


def test_a_few_requests_are_carried_out_at_a_time(home: Home) -> None:
    """Their answers would wait for a slow link all at once."""
    home.asks_all(range(100), "look", "q", "ada", "c")
    assert len(home.polls) == AT_ONCE_MAX
    home.polls.pop(0).set(CursorSeen(1, "", []))
    home.turns()
    assert len(home.polls) == AT_ONCE_MAX
    assert [each.consumer for each in home.crossed()] == [0]
    home.wire.paused()
    home.wire.deliver(LinkDeliver(1, 1, 0, OF_READER, 0, 0, 1, 0, b"", bytes(DELIVERIES_BYTES_MAX + 1)))
    home.answers_all_polls(CursorSeen(1, "", []))
    assert home.polls == []  # the others wait until the link takes more
    home.wire.resumed()
    home.runtime.loop.call_soon(home.wire.flush)
    home.turns()
    assert len(home.polls) == 100 - 1 - AT_ONCE_MAX


def test_long_polls_leave_room_for_other_requests(home: Home) -> None:
    """They stand for a minute, and a neighbor with many readers has many of them."""
    home.asks_all(range(POLLS_MAX), "status", "q", "ada", "c", 1, [], 60_000)
    home.asks(9_999, "status", "q", "ada", "c", 1, [], 60_000)
    assert home.refusals() == [(9_999, "busy")]
    home.asks(10_000, "status", "q", "ada", "c", 1, [], 0)
    home.polls.pop().set([])
    home.polls.pop(0).set([])
    home.turns()
    assert sorted(each.consumer for each in home.crossed()) == [0, 10_000]
    home.asks(10_001, "status", "q", "ada", "c", 1, [], 60_000)
    assert home.refusals() == []


def test_polls_that_are_answered_while_the_link_is_slow_are_carried_out_again(home: Home) -> None:
    """One message ends all of them: their answers would wait all at once, and would be old when they are written."""
    home.asks_all(range(200), "status", "q", "ada", "c", 1, [], 60_000)
    assert len(home.polls) == 200
    home.wire.paused()
    home.wire.deliver(LinkDeliver(1, 1, 0, OF_READER, 0, 0, 1, 0, b"", bytes(DELIVERIES_BYTES_MAX + 1)))
    home.answers_all_polls([CursorPosition(0, 1, 1, 1, 7, 0)])
    assert home.polls == []
    home.wire.resumed()
    home.runtime.loop.call_soon(home.wire.flush)
    home.turns()
    assert (len(home.polls), home.waits) == (AT_ONCE_MAX, {0, 60_000})
    home.crossed()
    answered = 0
    while home.polls:
        home.answers_all_polls([CursorPosition(0, 1, 1, 1, 8, 0)])
        told = [each for each in home.crossed() if isinstance(each, FlowNote)]
        assert {each.rows(0, 6)[0][4] for each in told} == {8}
        answered += len(told)
    assert answered == 200
    home.asks_all(range(POLLS_MAX), "status", "q", "ada", "c", 1, [], 60_000)
    assert home.refusals() == []


def test_requests_of_a_lost_connection_take_no_room_on_the_next(home: Home) -> None:
    """Polls go on for up to a minute, and nobody waits for their answers."""
    home.asks_all(range(POLLS_MAX), "status", "q", "ada", "c", 1, [], 60_000)
    home.asks_all(range(5_000, 5_000 + REQUESTS_MAX), "look", "q", "ada", "c")
    home.readers.disconnected()
    home.connects()
    lost, home.polls = home.polls, []
    home.asks(1, "status", "q", "ada", "c", 1, [], 60_000)
    home.asks(2, "look", "q", "ada", "c")
    assert len(home.polls) == 2
    for poll in lost:
        poll.set([])
    home.turns()
    assert home.crossed() == []
    home.asks_all(range(10, 10 + POLLS_MAX), "status", "q", "ada", "c", 1, [], 60_000)
    assert home.refusals() == [(9 + POLLS_MAX, "busy")]


def test_a_missing_partition_is_told_and_a_fault_is_not_taken_for_one(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    home.reads_one(7)
    home.reads.pop(0).set_exception((NoSuchPartition, NoSuchPartition("'q' has no partition 0"), None))
    home.turns()
    assert home.refusals() == [(7, "no_partition")]
    home.reads_one(8)
    home.reads.pop(0).set_exception((KeyError, KeyError("of ours"), None))
    home.turns()
    assert home.refusals() == [(8, "failed")]
    assert "a request of a reader at a to queue 'q' failed" in caplog.text
    caplog.clear()  # of the fault


def test_a_request_without_an_agreement_on_readers_is_a_fault_of_the_neighbor(home: Home) -> None:
    """It would wait for an answer for ever."""
    home.readers.disconnected()
    with pytest.raises(ValueError, match="no readers were agreed on"):
        home.readers.received(FlowNote(notes.READER, 1, ["look", "q", "ada", "c"]))


def test_requests_that_fail_at_once_are_all_refused(home: Home) -> None:
    """Each begins the next: thousands of them must not be calls within calls."""
    home.wire.paused()
    home.wire.deliver(LinkDeliver(1, 1, 0, OF_READER, 0, 0, 1, 0, b"", bytes(DELIVERIES_BYTES_MAX + 1)))
    reads, others = range(1_500), range(1_500, 3_000)
    home.asks_all(reads, "read", "q", "ada", 0, 1, 1_000, 100)
    home.asks_all(others, "look", "q", "ada", "c")
    home.directory.stop()
    home.wire.resumed()
    home.runtime.loop.call_soon(home.wire.flush)
    home.turns()
    assert sorted(home.refusals()) == [(number, "gone") for number in (*reads, *others)]


def test_what_waits_when_a_connection_ends_is_answered_on_no_other(home: Home) -> None:
    home.reads_one(1)
    home.reads_one(2)
    home.asks(3, "status", "q", "ada", "c", 1, [], 60_000)
    home.readers.disconnected()
    home.connects()
    home.reads_one(4)
    home.gives([b"x"])  # to the first
    home.polls.pop().set([])
    home.turns()
    assert home.crossed() == []
    home.gives([b"y"])
    assert [each.consumer for each in home.crossed()] == [4, 4]


def test_a_queue_that_is_not_there_or_a_request_that_is_not_known_is_refused(home: Home) -> None:
    home.asks(1, "colour", "q", "ada")
    home.handle = None
    home.reads_one(2)
    home.asks(3, "look", "q", "ada", "c")
    assert home.refusals() == [(1, "unserved"), (2, "gone"), (3, "gone")]
