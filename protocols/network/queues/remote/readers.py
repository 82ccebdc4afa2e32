"""Readers of this broker's clients at queues of a neighbor: their requests cross the link, and so do the answers.

Messages of a range come as they are at rest, and are not changed: times in them are those of their own broker's clock,
so a range that is read again, here or there, gives the same rows.
"""

from typing import Any, Final, final

from sluicegate.actors.messages.readers import (
    AWAY,
    TOO_LARGE,
    UNSERVED,
    AskHome,
    AskPartitions,
    FindRangeEnd,
    NoSuchPartition,
    RangeChunk,
    ReaderRefused,
    ReaderRequest,
    ReadFailed,
    ReadRange,
)
from sluicegate.actors.network.link_batches import link_batch
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.bulk.durable_cursors import CODES, FENCED, CursorFenced, CursorRefused
from sluicegate.messaging.bulk.range_reads import CHUNK_BYTES_MAX, RangeRun
from sluicegate.protocols.flow.codec.frames.link_flow import LinkDeliver
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.channel import QueuesChannel
from sluicegate.protocols.network.queues.notes import FlowNote, note_body
from sluicegate.protocols.network.queues.reader_notes import (
    NO_PARTITION,
    UNREADABLE,
    answer_in,
    gaps_in,
    request_values,
)

# Of the messages of one chunk before its last frame, as they cross. Its home plans with the usage of quotas, which may
# be less than that.
PARTS_BYTES_MAX: Final = 2 * CHUNK_BYTES_MAX


@final
class _Pending:
    """A request without answer."""

    def __init__(self, asked: AskHome) -> None:
        self.request: Final = asked.request
        self.incarnation: Final = asked.incarnation
        self.answer: Final[LoopFuture[Any]] = LoopFuture()
        self.runs: Final[list[RangeRun]] = []  # of a range, what has come
        self.runs_bytes = 0

    def read(self) -> tuple[int, ReadRange]:
        """Return the partition and the range that were asked for. Raises ValueError: it was something else."""
        request = self.request
        if isinstance(request, AskPartitions) and isinstance(request.request, ReadRange):
            return request.number or 0, request.request
        raise ValueError("a part of a range for a reader that asked for something else")


@final
class RemoteReaders:
    """The requests of this broker's readers to queues of one neighbor, in one message VPN."""

    def __init__(self, cell: ActorCell, neighbor: str) -> None:
        self._cell = cell
        self._neighbor = neighbor
        self._channel: QueuesChannel | None = None
        self._is_unserved = False  # the neighbor is linked, and does not know of readers
        self._pending: dict[int, _Pending] = {}

    @property
    def count(self) -> int:
        """The number of requests without answer."""
        return len(self._pending)

    def connected(self, channel: QueuesChannel, *, is_served: bool) -> None:
        """Begin on a new connection. `is_served`: the neighbor knows readers."""
        self._channel = channel
        self._is_unserved = not is_served

    def disconnected(self) -> None:
        """Tell all who wait that the link is lost: whether their requests were carried out is not known."""
        self._channel = None
        pending, self._pending = self._pending, {}
        for each in pending.values():
            _fail(each, ReaderRefused(AWAY, f"the link to its broker {self._neighbor} went down"))

    def ask(self, queue: str, asked: AskHome) -> LoopFuture[Any]:
        """Ask the neighbor for what a queue there is asked here. Raises ReaderRefused."""
        channel = self._channel
        if channel is None:
            text = f"queue {queue!r} cannot be reached: the link to its broker {self._neighbor} is down"
            raise ReaderRefused(AWAY, text)
        if self._is_unserved:
            text = f"queue {queue!r}: its broker {self._neighbor} has a release that serves no readers of other brokers"
            raise ReaderRefused(UNSERVED, f"{text}: connect there")
        if asked.incarnation != channel.incarnation:
            text = f"queue {queue!r}: its broker {self._neighbor} has come back with another spool: begin anew"
            raise ReaderRefused(AWAY, text)
        number = self._cell.runtime.next_urn()
        body = note_body(notes.READER, number, *request_values(queue, asked))
        if not channel.takes(body):
            raise ReaderRefused(TOO_LARGE, f"the request has {len(body)} bytes, more than the link takes")
        pending = self._pending[number] = _Pending(asked)
        channel.send_first(body)
        return pending.answer

    # --- what the neighbor says ---

    def delivered(self, frame: LinkDeliver) -> None:
        """Take a part of a range. Raises ValueError."""
        pending = self._pending.get(frame.consumer)
        if pending is None:
            raise ValueError(f"LINK_DELIVER for request {frame.consumer} of a reader, which there is not")
        _, asked = pending.read()
        if pending.runs_bytes > PARTS_BYTES_MAX:
            raise ValueError(f"{pending.runs_bytes} bytes of one chunk, and more")
        batch = link_batch(frame.batch)
        runs = pending.runs
        floor = runs[-1].first_sequence + runs[-1].stop_row if runs else asked.first
        if frame.first < floor or frame.first + batch.count > asked.end:
            text = f"messages {frame.first} to {frame.first + batch.count - 1} of a range from {floor} to {asked.end}"
            raise ValueError(text)
        runs.append(RangeRun(frame.first, batch, 0, batch.count))
        pending.runs_bytes += len(frame.batch)

    def received(self, note: FlowNote) -> None:
        """Take an answer. Raises ValueError."""
        pending = self._pending.get(note.consumer)
        if pending is None:
            raise ValueError(f"LINK_FLOW of kind {note.kind} for request {note.consumer}, which there is not")
        if note.kind == notes.UNREAD:
            failed = self._pending.pop(note.consumer)
            _fail(failed, _error_of(failed.request, note.text(0), note.text(1)))
            return
        if note.kind == notes.CHUNK:
            answer: Any = [_chunk(pending, note)]
        else:
            answer = answer_in(pending.request, note, pending.incarnation)
        del self._pending[note.consumer]
        pending.answer.set(answer)


def _chunk(pending: _Pending, note: FlowNote) -> RangeChunk:
    """Return a chunk, of whose messages all have come. Raises ValueError."""
    number, asked = pending.read()
    next_sequence, synced_end, gaps = note.number(0), note.number(1), gaps_in(note, 2)
    least = asked.first + (asked.first < min(asked.end, synced_end))
    if not least <= next_sequence <= asked.end:
        raise ValueError(f"a chunk from {asked.first} to {asked.end} ends at {next_sequence} ({synced_end})")
    told = [(run.first_sequence, run.first_sequence + run.stop_row) for run in pending.runs]
    told += [(gap.first, gap.end) for gap in gaps]
    at = asked.first
    for first, end in sorted(told):
        if first < asked.first or first > at:
            break
        at = max(at, end)
    else:
        if at == next_sequence:
            return RangeChunk(number, asked.first, next_sequence, synced_end, pending.runs, gaps)
    raise ValueError(f"a chunk from {asked.first} to {next_sequence} has other messages and gaps, from {at} on")


def _fail(pending: _Pending, error: Exception) -> None:
    pending.answer.set_exception((type(error), error, None))


def _error_of(request: ReaderRequest, code: str, text: str) -> Exception:
    """Return what the queue or its cursor raised where it is, if it is one that such a request raises."""
    if not isinstance(request, AskPartitions):
        if code == FENCED:
            return CursorFenced(text)
        if code in CODES:
            return CursorRefused(code, text)
    elif code == UNREADABLE and isinstance(request.request, ReadRange):
        return ReadFailed(text)
    elif code == NO_PARTITION and isinstance(request.request, (ReadRange, FindRangeEnd)):
        return NoSuchPartition(text)
    return ReaderRefused(code, text)
