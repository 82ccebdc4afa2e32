"""Readers of this broker at queues of a neighbor: what its answers mean, and what becomes of them with the link."""

import pytest

from sluicegate.actors.messages.readers import (
    AWAY,
    TOO_LARGE,
    UNSERVED,
    AskHome,
    AskPartitions,
    CursorStatus,
    DescribeLog,
    FindRangeEnd,
    NoSuchPartition,
    RangeChunk,
    ReaderRefused,
    ReadFailed,
    ReadRange,
)
from sluicegate.actors.network.link_batches import body_once
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.messaging.bulk.durable_cursors import AHEAD, FENCED, CursorFenced, CursorRefused
from sluicegate.messaging.partitions.state.segments import Gap
from sluicegate.protocols.flow.codec.frames.link_flow import OF_READER, LinkDeliver, LinkFlow
from sluicegate.protocols.flow.links import LinkWire
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.channel import QueuesChannel
from sluicegate.protocols.network.queues.notes import FlowNote, note_body, note_in
from sluicegate.protocols.network.queues.remote.readers import PARTS_BYTES_MAX, RemoteReaders
from support.cores.lone_actors import Idle, spawned
from support.cores.messages import batch_of
from support.network.frame_socket import FrameSocket
from support.network.lone_wire import lone_wire

READ = AskHome("ada", AskPartitions(1, ReadRange(5, 20, 1_000)), 99)
STATUS = AskHome("ada", CursorStatus("q", "c", 1, 60_000, {}), 99)


class Asking:
    """Readers, connected to a neighbor b whose answers the test gives."""

    def __init__(self, runtime: Runtime, *, is_served: bool = True, frame_bytes_max: int = 1 << 20) -> None:
        cell, self.socket = spawned(runtime, Idle), FrameSocket()
        self.wire: LinkWire = lone_wire(cell, self.socket)
        self.readers = RemoteReaders(cell, "b")
        self.readers.connected(QueuesChannel(self.wire, 1, frame_bytes_max, 99), is_served=is_served)

    def asks(self, asked: AskHome) -> tuple[LoopFuture[object], FlowNote]:
        """Ask; return the answer to be, and the note that the neighbor gets."""
        answer = self.readers.ask("q", asked)
        self.wire.flush()
        (frame,) = self.socket.take()
        assert isinstance(frame, LinkFlow)
        return answer, note_in(frame.batch)

    def comes(self, number: int, first: int, payloads: list[bytes]) -> None:
        body = body_once(batch_of(payloads))
        self.readers.delivered(LinkDeliver(1, number, 1, OF_READER, 0, 0, first, 0, b"", body))

    def says(self, kind: int, number: int, *values: object) -> None:
        self.readers.received(note_in(note_body(kind, number, *values)))


@pytest.fixture
def asking(runtime: Runtime) -> Asking:
    return Asking(runtime)


def test_a_chunk_is_the_messages_that_came_and_the_note_behind_them(asking: Asking) -> None:
    answer, note = asking.asks(READ)
    assert (note.kind, note.values) == (notes.READER, ["read", "q", "ada", 1, 5, 20, 1_000])
    asking.comes(note.consumer, 5, [b"5", b"6"])
    asking.comes(note.consumer, 9, [b"9"])
    assert not answer.done
    asking.says(notes.CHUNK, note.consumer, 12, 30, [[7, 9, "settled"], [10, 12, "expired"]])
    chunks = answer.get()
    assert isinstance(chunks, list)
    (chunk,) = chunks
    assert isinstance(chunk, RangeChunk)
    assert (chunk.partition_number, chunk.first, chunk.next_sequence, chunk.synced_end) == (1, 5, 12, 30)
    assert [(run.first_sequence, run.batch.payloads()) for run in chunk.runs] == [(5, [b"5", b"6"]), (9, [b"9"])]
    assert chunk.gaps == [Gap(7, 9, "settled"), Gap(10, 12, "expired")]
    assert asking.readers.count == 0


@pytest.mark.parametrize(
    ("asked", "code", "error"),
    [
        (READ, "unreadable", ReadFailed),
        (READ, "no_partition", NoSuchPartition),
        (STATUS, FENCED, CursorFenced),
        (STATUS, AHEAD, CursorRefused),
        (READ, "of a later release", ReaderRefused),
        (READ, FENCED, ReaderRefused),
        (STATUS, "unreadable", ReaderRefused),
        (STATUS, "no_partition", ReaderRefused),
    ],
)
def test_a_refusal_is_what_such_a_request_raises(
    asking: Asking, asked: AskHome, code: str, error: type[Exception]
) -> None:
    answer, note = asking.asks(asked)
    if asked is READ:
        asking.comes(note.consumer, 5, [b"5"])  # it may have failed in the middle
    asking.says(notes.UNREAD, note.consumer, code, "why")
    with pytest.raises(error, match="why"):
        answer.get()


@pytest.mark.parametrize(
    ("end", "gaps"),
    [
        (12, [[7, 9, "settled"]]),  # nothing says what became of 10 and 11
        (12, [[7, 8, "settled"], [10, 12, "expired"]]),  # or of 8
        (12, [[4, 5, "settled"], [7, 9, "settled"], [10, 12, "expired"]]),
        (12, [[7, 9, "settled"], [10, 13, "expired"]]),
        (9, [[7, 9, "settled"]]),  # and 9 came
    ],
)
def test_a_chunk_is_whole_and_says_nothing_of_what_is_outside_of_it(
    asking: Asking, end: int, gaps: list[list[object]]
) -> None:
    """Each sequence is in a message or in a gap: one of which nothing is said would be lost without a word."""
    answer, note = asking.asks(READ)
    asking.comes(note.consumer, 5, [b"5", b"6"])
    asking.comes(note.consumer, 9, [b"9"])
    with pytest.raises(ValueError, match=f"a chunk from 5 to {end} has"):
        asking.says(notes.CHUNK, note.consumer, end, 30, gaps)
    assert not answer.done


def test_gaps_may_overlap(asking: Asking) -> None:
    """A message may have gone for two reasons."""
    answer, note = asking.asks(READ)
    asking.says(notes.CHUNK, note.consumer, 9, 30, [[5, 9, "settled"], [6, 8, "expired"]])
    assert answer.done


def test_a_chunk_without_end_is_a_fault_of_the_neighbor(asking: Asking) -> None:
    """What comes of one range is kept in memory until its note is there."""
    _, note = asking.asks(AskHome("ada", AskPartitions(1, ReadRange(1, 1 << 40, 1_000)), 99))
    size = 1 << 20
    most = PARTS_BYTES_MAX // size
    for sequence in range(1, most + 1):
        asking.comes(note.consumer, sequence, [bytes(size)])
    with pytest.raises(ValueError, match="bytes of one chunk, and more"):
        asking.comes(note.consumer, most + 1, [b"x"])


@pytest.mark.parametrize("end", [4, 5, 21])
def test_a_chunk_that_does_not_go_on_within_its_range_is_a_fault_of_the_neighbor(asking: Asking, end: int) -> None:
    _, note = asking.asks(READ)
    with pytest.raises(ValueError, match=f"ends at {end}"):
        asking.says(notes.CHUNK, note.consumer, end, 30, [])


def test_answers_that_mean_nothing_are_a_fault_of_the_neighbor(asking: Asking) -> None:
    _, note = asking.asks(AskHome("ada", AskPartitions(1, FindRangeEnd(5, 0, 0)), 99))
    with pytest.raises(ValueError, match="0 ends"):
        asking.says(notes.TOLD, note.consumer, [])
    _, note = asking.asks(STATUS)
    with pytest.raises(ValueError, match="partition number"):
        asking.says(notes.TOLD, note.consumer, [[1 << 32, 1, 1, 1, 1, 0]])
    for numbers in ([1, 1], [1, 0]):  # readers would take one for the other
        with pytest.raises(ValueError, match=f"partition {numbers[1]} behind {numbers[0]}"):
            asking.says(notes.TOLD, note.consumer, [[number, 1, 1, 1, 1, 0] for number in numbers])


def test_a_lost_link_fails_all_that_wait_at_once(asking: Asking) -> None:
    waiting = [asking.asks(each)[0] for each in (READ, STATUS, READ)]
    asking.readers.disconnected()
    for answer in waiting:
        with pytest.raises(ReaderRefused, match="the link to its broker b went down") as refused:
            answer.get()
        assert refused.value.code == AWAY
    with pytest.raises(ReaderRefused, match="the link to its broker b is down") as refused:
        asking.readers.ask("q", STATUS)
    assert (refused.value.code, asking.readers.count) == (AWAY, 0)


def test_a_neighbor_of_an_earlier_release_is_asked_for_nothing(runtime: Runtime) -> None:
    asking = Asking(runtime, is_served=False)
    with pytest.raises(ReaderRefused, match="serves no readers of other brokers: connect there") as refused:
        asking.readers.ask("q", READ)
    asking.wire.flush()
    assert (refused.value.code, asking.socket.take()) == (UNSERVED, [])


def test_a_range_does_not_go_on_in_another_spool(asking: Asking) -> None:
    """Its sequences are other messages there. A reader that begins anew is told the incarnation."""
    asking.readers.disconnected()
    asking.readers.connected(QueuesChannel(asking.wire, 1, 1 << 20, 100), is_served=True)
    with pytest.raises(ReaderRefused, match="its broker b has come back with another spool: begin anew") as refused:
        asking.readers.ask("q", READ)
    assert (refused.value.code, asking.readers.count) == (AWAY, 0)


def test_a_request_that_no_frame_takes_is_not_sent(runtime: Runtime) -> None:
    asking = Asking(runtime, frame_bytes_max=66_100)
    with pytest.raises(ReaderRefused, match="more than the link takes") as refused:
        asking.readers.ask("q", AskHome("x" * 200, AskPartitions(None, DescribeLog()), 99))
    assert (refused.value.code, asking.readers.count) == (TOO_LARGE, 0)


@pytest.mark.parametrize(("first", "count"), [(4, 1), (5, 2), (19, 2)])
def test_messages_outside_the_range_or_twice_are_a_fault_of_the_neighbor(
    asking: Asking, first: int, count: int
) -> None:
    _, note = asking.asks(READ)
    asking.comes(note.consumer, 5, [b"5"])
    with pytest.raises(ValueError, match="of a range from 6 to 20"):
        asking.comes(note.consumer, first, [b"x"] * count)


def test_an_answer_to_nothing_or_of_another_kind_is_a_fault_of_the_neighbor(asking: Asking) -> None:
    with pytest.raises(ValueError, match="for request 999, which there is not"):
        asking.says(notes.TOLD, 999)
    with pytest.raises(ValueError, match="request 999 of a reader, which there is not"):
        asking.comes(999, 5, [b"5"])
    _, note = asking.asks(STATUS)
    with pytest.raises(ValueError, match="asked for something else"):
        asking.comes(note.consumer, 5, [b"5"])
    with pytest.raises(ValueError, match="asked for something else"):
        asking.says(notes.CHUNK, note.consumer, 1, 1, [])
