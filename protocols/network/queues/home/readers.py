"""Readers of a neighbor, where the queue is: their range reads, and their requests to durable cursors.

One chunk of a range is read at a time for a neighbor, and the next when the link has taken enough of what waits: so
many readers there, and a slow link, cost this broker the memory of one chunk beside what waits for the socket. Other
requests are carried out some at a time, for the same reason. Long polls are all carried out, for they wait for
messages; those that end while the link is slow are carried out anew when it takes their answers.

Each request is checked against the rights that the user has at that moment. The neighbor has checked what the user's
own client profile allows.
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
    FAILED,
    GONE,
    TOO_LARGE,
    UNSERVED,
    AskHome,
    AskPartitions,
    CursorStatus,
    HeartbeatCursor,
    NoSuchPartition,
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
from sluicegate.protocols.flow.codec.frames.link_flow import OF_READER
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.channel import QueuesChannel
from sluicegate.protocols.network.queues.home.pieces import bodies
from sluicegate.protocols.network.queues.notes import FlowNote, note_body
from sluicegate.protocols.network.queues.reader_notes import (
    NO_PARTITION,
    UNREADABLE,
    answer_values,
    chunk_values,
    request_in,
)

REQUESTS_MAX: Final = 4_096  # of one connection in one message VPN, without answer, beside long polls
POLLS_MAX: Final = 4_096  # the same of long polls: one for each reader that has read everything
AT_ONCE_MAX: Final = 64  # requests that are carried out, beside reads and long polls

log = logging.getLogger("sluicegate.network")


@final
class _Connection:
    """A connection of the link. An answer goes to the one on which the request came: on others it means nothing."""

    def __init__(self, channel: QueuesChannel) -> None:
        self.channel: Final = channel
        self.reads: Final[deque[_Request]] = deque()  # that wait for their turn
        self.others: Final[deque[_Request]] = deque()  # the same
        self.refusals: Final[deque[tuple[int, str, str]]] = deque()  # that wait for the link: number, code and text
        self.requests_count = 0  # without answer, reads included
        self.polls_count = 0  # the same
        self.under_way_count = 0  # of others, without long polls
        self.is_held_back = False  # too much waits for the socket: nothing is carried out


@final
class _Request:
    """A request of the neighbor."""

    def __init__(self, number: int, queue: str, asked: AskHome, connection: _Connection) -> None:
        request = asked.request
        self.number: Final = number
        self.queue: Final = queue
        self.asked: Final = asked
        self.connection: Final = connection
        self.is_read: Final = isinstance(request, AskPartitions) and isinstance(request.request, ReadRange)
        self.is_poll: Final = isinstance(request, CursorStatus) and request.wait_ms > 0
        self.has_waited = False  # a poll whose answer came while the link was slow: it is carried out anew


@final
class HomeReaders:
    """The readers of one neighbor at queues of this broker, in one message VPN."""

    def __init__(self, cell: ActorCell, neighbor: str, *, queues: ActorCell, cursors: ActorCell) -> None:
        self.read_count = 0  # messages that were sent
        self._cell = cell
        self._neighbor = neighbor
        self._queues = queues
        self._cursors = cursors
        self._connection: _Connection | None = None
        self._goes_on = False  # requests are being begun
        self._is_reading = False  # also for a connection that was lost: its chunk is in memory

    @property
    def is_held_back(self) -> bool:
        """Whether too much waits for the socket: nothing is carried out."""
        return self._connection is not None and self._connection.is_held_back

    def connected(self, channel: QueuesChannel) -> None:
        """Begin on a new connection."""
        self._connection = _Connection(channel)

    def disconnected(self) -> None:
        """Forget what waits: the neighbor has told its readers that the link is lost."""
        self._connection = None

    def received(self, note: FlowNote) -> None:
        """Carry out a request of the neighbor. Raises ValueError."""
        connection = self._connection
        if connection is None:
            raise ValueError(f"LINK_FLOW of kind {note.kind}, and no readers were agreed on")
        found = request_in(note, self._neighbor)
        if found is None:
            text = f"the broker is of a release that does not know the request {note.text(0)!r:.100}"
            self._refuse_when_written(connection, note.consumer, UNSERVED, text)
            return
        request = _Request(note.consumer, found[0], found[1], connection)
        if request.is_poll:
            is_taken, what = connection.polls_count < POLLS_MAX, f"{POLLS_MAX} long polls"
        else:
            is_taken, what = connection.requests_count < REQUESTS_MAX, f"{REQUESTS_MAX} requests"
        if not is_taken:
            text = f"broker {self._neighbor} has {what} of readers without answer here"
            self._refuse_when_written(connection, note.consumer, BUSY, text)
            return
        self._count(request, 1)
        (connection.reads if request.is_read else connection.others).append(request)
        self._go_on()

    def _refuse_when_written(self, connection: _Connection, number: int, code: str, text: str) -> None:
        """Refuse a request, as soon as the link takes it. Raises ValueError when the neighbor goes on all the same."""
        if not self._waits_for(connection):
            self._refuse(connection.channel, number, code, text)
        elif len(connection.refusals) < REQUESTS_MAX:
            connection.refusals.append((number, code, text))
        else:
            raise ValueError(f"{REQUESTS_MAX} refused requests of readers by a broker that takes no answers, and more")

    def _count(self, request: _Request, change: int) -> None:
        if request.is_poll:
            request.connection.polls_count += change
        else:
            request.connection.requests_count += change

    # --- carrying out ---

    def _go_on(self) -> None:
        """Begin what waits: the next read, unless one is under way, and others, as many as may be at once."""
        if self._goes_on:
            return  # a request has failed at once, and is called from below
        self._goes_on = True
        try:
            while self._begins_next():
                pass
        finally:
            self._goes_on = False

    def _begins_next(self) -> bool:
        """Begin one request, if there is one that may begin; return whether it was."""
        connection = self._connection
        if connection is None:
            return False
        may_begin = connection.under_way_count < AT_ONCE_MAX
        if connection.others and may_begin and not self._waits_for(connection):
            run(self._cell.runtime, self._carry_out_other(connection.others.popleft()))
        elif connection.reads and not self._is_reading and not self._waits_for(connection):
            self._is_reading = True
            run(self._cell.runtime, self._read(connection.reads.popleft()))
        else:
            return False
        return True

    def _waits_for(self, connection: _Connection) -> bool:
        """Return whether too much waits for the socket already; `_written` goes on then."""
        wire = connection.channel.wire
        if wire.holds_back and not connection.is_held_back:
            connection.is_held_back = True
            wire.call_when_written(self._written)
        return connection.is_held_back

    def _written(self) -> None:
        connection = self._connection
        if connection is None:
            return
        connection.is_held_back = False
        while connection.refusals and not self._waits_for(connection):
            self._refuse(connection.channel, *connection.refusals.popleft())
        self._go_on()

    async def _read(self, request: _Request) -> None:
        try:
            await self._carry_out(request)
        finally:
            self._is_reading = False
        self._go_on()

    async def _carry_out_other(self, request: _Request) -> None:
        if request.is_poll and not request.has_waited:  # it may stand for a minute
            await self._carry_out(request)
            return
        connection = request.connection
        connection.under_way_count += 1
        try:
            await self._carry_out(request)
        finally:
            connection.under_way_count -= 1
        self._go_on()

    async def _carry_out(self, request: _Request) -> None:
        code, text = "", ""
        try:
            answer = await self._answer_to(request)
            if request.connection is not self._connection:
                return  # the link was lost meanwhile
            if request.is_poll and not request.has_waited and self._waits_for(request.connection):
                self._put_off(request)
            else:
                self._answer(request, answer)
        except (ReaderRefused, CursorRefused) as refused:
            code, text = refused.code, str(refused)
        except ReadFailed as failed:
            code, text = UNREADABLE, str(failed)
        except NoSuchPartition as error:
            code, text = NO_PARTITION, str(error)
        except pykka.ActorDeadError:
            code, text = GONE, "the queue was deleted meanwhile"
        except Exception:  # it must cost neither the link nor the broker
            log.exception("a request of a reader at %s to queue %r failed", self._neighbor, request.queue)
            code, text = FAILED, f"the request failed; the log of the broker of queue {request.queue!r} says why"
        finally:
            self._count(request, -1)
        if code and request.connection is self._connection:
            self._refuse(request.connection.channel, request.number, code, text)

    def _put_off(self, poll: _Request) -> None:
        """Have a poll carried out when the link takes its answer: one message may end all polls at the same time."""
        status = poll.asked.request
        assert isinstance(status, CursorStatus), "it is a poll"
        status.wait_ms = 0
        poll.has_waited = True
        self._count(poll, 1)  # anew
        poll.connection.others.append(poll)

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
        channel, number = request.connection.channel, request.number
        if not request.is_read:
            self._send(channel, note_body(notes.TOLD, number, *answer_values(request.asked.request, answer)), number)
            return
        chunk: RangeChunk = answer[0]
        for run_ in chunk.runs:
            too_large = self._send_run(channel, number, chunk.partition_number, run_)
            if too_large == chunk.first:
                text = f"message {too_large} of {request.queue!r} cannot cross the link: read it at its own broker"
                raise ReaderRefused(TOO_LARGE, text)
            if too_large:  # the next read begins with it, and is refused
                gaps = [gap for gap in chunk.gaps if gap.end <= too_large]
                chunk = replace(chunk, next_sequence=too_large, gaps=gaps)
                break
        self._send(channel, note_body(notes.CHUNK, number, *chunk_values(chunk)), number)

    def _send_run(self, channel: QueuesChannel, number: int, partition: int, found: RangeRun) -> int:
        """Send messages; return the sequence of the first that cannot cross, 0 if all do."""
        for row, count, body in bodies(found.batch, found.start_row, found.stop_row, channel, self._neighbor):
            first = found.first_sequence + row - found.start_row
            if not body:
                return first
            self.read_count += count
            channel.deliver(number, partition, OF_READER, first, body)
        return 0

    def _send(self, channel: QueuesChannel, body: bytes, number: int) -> None:
        if not channel.takes(body):
            text = f"the answer has {len(body)} bytes, more than the link takes: ask its own broker"
            body = note_body(notes.UNREAD, number, TOO_LARGE, text)
        channel.send(body)

    def _refuse(self, channel: QueuesChannel, number: int, code: str, text: str) -> None:
        self._send(channel, note_body(notes.UNREAD, number, code, text), number)
