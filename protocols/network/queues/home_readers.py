"""Readers of a neighbor, where the queue is: their range reads, and their requests to durable cursors.

One chunk of a range is read at a time for a neighbor, and the next when the link has taken enough of what waits: so
many readers there, and a slow link, cost this broker the memory of one chunk beside what waits for the socket. Each
request is checked against the rights that the user has at that moment. The neighbor has checked what the user's own
client profile allows.
"""

import logging
from collections import deque
from dataclasses import replace
from typing import Any, Final, final

import pykka

from sluicegate.actors.messages.directory import NAMED, FindQueue, QueueHandle
from sluicegate.actors.messages.readers import (
    BUSY,
    DENIED,
    GONE,
    TOO_LARGE,
    UNSERVED,
    AskHome,
    AskPartitions,
    HeartbeatCursor,
    RangeChunk,
    ReaderRefused,
    ReadFailed,
    ReadRange,
)
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.tasks import run
from sluicegate.messaging.bulk.durable_cursors import CursorRefused
from sluicegate.messaging.bulk.range_reads import RangeRun
from sluicegate.messaging.queues.attributes import CONSUME, READ_ONLY
from sluicegate.protocols.flow.codec.frames.link_flow import OF_READER, LinkDeliver, LinkFlow
from sluicegate.protocols.flow.links import LinkWire
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.notes import FRAME_HEAD_BYTES, FlowNote, note_body
from sluicegate.protocols.network.queues.pieces import bodies
from sluicegate.protocols.network.queues.reader_notes import answer_values, chunk_values, request_in

REQUESTS_MAX: Final = 4_096  # of one neighbor in one message VPN, without answer: most are long polls of cursors

NO_PARTITION: Final = "no_partition"  # codes of UNREAD beside those of actors.messages.readers and of cursors
UNREADABLE: Final = "unreadable"
FAILED: Final = "failed"

log = logging.getLogger("sluicegate.network")


@final
class _Request:
    """A request of the neighbor."""

    def __init__(self, number: int, queue: str, asked: AskHome, wire: LinkWire) -> None:
        self.number: Final = number
        self.queue: Final = queue
        self.asked: Final = asked
        self.wire: Final = wire  # on which it came; on another one its answer would mean nothing


@final
class HomeReaders:
    """The readers of one neighbor at queues of this broker, in one message VPN."""

    def __init__(self, cell: ActorCell, neighbor: str, *, queues: ActorCell, cursors: ActorCell) -> None:
        self.read_count = 0  # messages that were sent
        self.is_held_back = False  # too much waits for the socket: nothing is read
        self._cell = cell
        self._neighbor = neighbor
        self._queues = queues
        self._cursors = cursors
        self._wire: LinkWire | None = None
        self._link_flow_id = 0
        self._frame_bytes_max = 0
        self._open_count = 0  # requests without answer, reads included
        self._reads: deque[_Request] = deque()  # that wait for their turn
        self._others: deque[_Request] = deque()  # that wait for the link
        self._refusals: deque[tuple[int, str, str]] = deque()  # that wait for the link: number, code and text
        self._is_reading = False

    def connected(self, wire: LinkWire, link_flow_id: int, frame_bytes_max: int) -> None:
        """Begin on a new connection."""
        self._wire = wire
        self._link_flow_id = link_flow_id
        self._frame_bytes_max = frame_bytes_max
        self.is_held_back = False

    def disconnected(self) -> None:
        """Forget what waits: the neighbor has told its readers that the link is lost."""
        self._wire = None
        self._open_count -= len(self._reads) + len(self._others)
        self._reads.clear()
        self._others.clear()
        self._refusals.clear()

    def received(self, note: FlowNote) -> None:
        """Carry out a request of the neighbor. Raises ValueError."""
        wire = self._wire
        if wire is None:
            return
        found = request_in(note, self._neighbor)
        if found is None:
            text = f"the broker is of a release that does not know the request {note.text(0)!r:.100}"
            self._refuse_when_written(wire, note.consumer, UNSERVED, text)
        elif self._open_count >= REQUESTS_MAX:
            text = f"broker {self._neighbor} has {REQUESTS_MAX} requests of readers without answer here"
            self._refuse_when_written(wire, note.consumer, BUSY, text)
        else:
            self._open_count += 1
            request = _Request(note.consumer, found[0], found[1], wire)
            if _is_read(request):
                self._reads.append(request)
                self._go_on()
            elif self._others or self._waits_for(wire):
                self._others.append(request)
            else:
                run(self._cell.runtime, self._carry_out(request))

    def _refuse_when_written(self, wire: LinkWire, number: int, code: str, text: str) -> None:
        """Refuse a request, as soon as the link takes it. Raises ValueError when the neighbor goes on all the same."""
        if not self._waits_for(wire):
            self._refuse(number, code, text)
        elif len(self._refusals) < REQUESTS_MAX:
            self._refusals.append((number, code, text))
        else:
            raise ValueError(f"{REQUESTS_MAX} refused requests of readers by a broker that takes no answers, and more")

    # --- carrying out ---

    def _go_on(self) -> None:
        """Begin the next read, unless one is under way or the link has enough to send."""
        wire = self._wire
        if wire is None or not self._reads or self._is_reading or self._waits_for(wire):
            return
        self._is_reading = True
        run(self._cell.runtime, self._read(self._reads.popleft()))

    def _waits_for(self, wire: LinkWire) -> bool:
        """Return whether too much waits for the socket already; `_written` goes on then."""
        if wire.holds_back and not self.is_held_back:
            self.is_held_back = True
            wire.call_when_written(self._written)
        return self.is_held_back

    def _written(self) -> None:
        self.is_held_back = False
        wire = self._wire
        while wire is not None and self._refusals and not self._waits_for(wire):
            self._refuse(*self._refusals.popleft())
        while wire is not None and self._others and not self._waits_for(wire):
            run(self._cell.runtime, self._carry_out(self._others.popleft()))
        self._go_on()

    async def _read(self, request: _Request) -> None:
        try:
            await self._carry_out(request)
        finally:
            self._is_reading = False
        self._go_on()

    async def _carry_out(self, request: _Request) -> None:
        code, text = "", ""
        try:
            answer = await self._answer_to(request)
            if request.wire is self._wire:  # else the link was lost meanwhile
                self._answer(request, answer)
        except (ReaderRefused, CursorRefused) as refused:
            code, text = refused.code, str(refused)
        except ReadFailed as failed:
            code, text = UNREADABLE, str(failed)
        except LookupError as error:
            code, text = NO_PARTITION, str(error)
        except pykka.ActorDeadError:
            code, text = GONE, "the queue was deleted meanwhile"
        except Exception:  # it must cost neither the link nor the broker
            log.exception("a request of a reader at %s to queue %r failed", self._neighbor, request.queue)
            code, text = FAILED, f"the request failed; the log of the broker of queue {request.queue!r} says why"
        finally:
            self._open_count -= 1
        if code and request.wire is self._wire:
            self._refuse(request.number, code, text)

    async def _answer_to(self, request: _Request) -> Any:
        """Return the answer of the queue, or of its cursor. Raises ReaderRefused, and what these raise."""
        name, asked = request.queue, request.asked
        handle: QueueHandle | None = await self._queues.ask(FindQueue(name))
        if handle is None or handle.kind != NAMED or not handle.durable:
            raise ReaderRefused(GONE, f"there is no queue {name!r}")
        reads = isinstance(asked.request, (AskPartitions, HeartbeatCursor))
        denied = handle.state.denial(None, asked.user, READ_ONLY if reads else CONSUME)
        if denied:
            raise ReaderRefused(DENIED, denied)
        target = handle.cell if isinstance(asked.request, AskPartitions) else self._cursors
        return await target.ask(asked.request)

    # --- answering ---

    def _answer(self, request: _Request, answer: Any) -> None:
        """Answer a request. Raises ReaderRefused."""
        if not _is_read(request):
            values = answer_values(request.asked.request, answer)
            self._send(note_body(notes.TOLD, request.number, *values), request.number)
            return
        chunk: RangeChunk = answer[0]
        for run_ in chunk.runs:
            too_large = self._send_run(request, chunk.partition_number, run_)
            if too_large == chunk.first:
                text = f"message {too_large} of {request.queue!r} cannot cross the link: read it at its own broker"
                raise ReaderRefused(TOO_LARGE, text)
            if too_large:  # the next read begins with it, and is refused
                gaps = [gap for gap in chunk.gaps if gap.end <= too_large]
                chunk = replace(chunk, next_sequence=too_large, gaps=gaps)
                break
        self._send(note_body(notes.CHUNK, request.number, *chunk_values(chunk)), request.number)

    def _send_run(self, request: _Request, number: int, found: RangeRun) -> int:
        """Send messages; return the sequence of the first that cannot cross, 0 if all do."""
        limit, neighbor = self._frame_bytes_max, self._neighbor
        rows = bodies(found.batch, found.start_row, found.stop_row, frame_bytes_max=limit, neighbor=neighbor)
        for row, count, body in rows:
            first = found.first_sequence + row - found.start_row
            if not body:
                return first
            self.read_count += count
            request.wire.deliver(
                LinkDeliver(self._link_flow_id, request.number, number, OF_READER, 0, 0, first, 0, b"", body)
            )
        return 0

    def _send(self, body: bytes, number: int) -> None:
        if self._wire is None:
            return
        if len(body) + FRAME_HEAD_BYTES > self._frame_bytes_max:
            text = f"the answer has {len(body)} bytes, more than the link takes: ask its own broker"
            body = note_body(notes.UNREAD, number, TOO_LARGE, text)
        self._wire.deliver(LinkFlow(self._link_flow_id, body))

    def _refuse(self, number: int, code: str, text: str) -> None:
        self._send(note_body(notes.UNREAD, number, code, text), number)


def _is_read(request: _Request) -> bool:
    asked = request.asked.request
    return isinstance(asked, AskPartitions) and isinstance(asked.request, ReadRange)
