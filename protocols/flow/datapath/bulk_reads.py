"""Send ranges of sequences to one client, chunk by chunk, over all its bulk reads.

Flow: bulk reading. A connection reads one chunk of this broker's queues at a time and one over links, and the next only
when the socket has taken the last: bulk reading costs a connection the memory of two chunks, and deliveries and
responses pass between them. Flows with credit take turns, those of either kind among themselves: a link that stands
still holds up no read of the local store.
"""

import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, final

import pykka

from sluicegate.actors.messages.readers import (
    AWAY,
    BUSY,
    DENIED,
    FAILED,
    GONE,
    TOO_LARGE,
    UNSERVED,
    AskHome,
    AskPartitions,
    NoSuchPartition,
    RangeChunk,
    ReaderRefused,
    ReadFailed,
    ReadRange,
)
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.protocols.connection.counters import ProtocolCounters, Traffic
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.session import NO_REQUEST, Error
from sluicegate.protocols.flow.datapath.bulk_rows import encode_chunk
from sluicegate.protocols.flow.datapath.output import Output

log = logging.getLogger("sluicegate.flow")

READ_AGAIN_MS: Final = 1_000  # when a client may retry a failed read of the store, or over a link
# Codes for requests to queues of neighbors that were not carried out; others, of later releases, are as UNSERVED.
READER_CODES: Final[dict[str, int]] = {
    AWAY: codes.DISABLED,
    UNSERVED: codes.DISABLED,
    BUSY: codes.TOO_MANY,
    DENIED: codes.PERMISSION_DENIED,
    GONE: codes.NOT_FOUND,
    TOO_LARGE: codes.MESSAGE_TOO_LARGE,
    FAILED: codes.DISABLED,
}
READERS_FOR_NOW: Final = frozenset({AWAY, BUSY})  # it makes sense to try these again


@final
class BulkReadFlow:
    """A range that a client reads."""

    def __init__(
        self,
        flow_id: int,
        queue: ActorCell,
        *,
        user: str | None,
        incarnation: int,
        partition: int,
        first: int,
        end: int,
        columns: int,
        chunk_bytes: int,
        number_max: int,
    ) -> None:
        self.flow_id = flow_id
        self.queue = queue
        self.user = user  # whose rights count at the queue's broker; None: it is this one, where they were checked
        self.incarnation = incarnation  # of the spool that has the range
        self.partition = partition
        self.next_sequence = first
        self.end = end
        self.columns = columns
        self.chunk_bytes = chunk_bytes
        self.number_max = number_max  # the highest number of a ROWS that may be sent
        self.number = 0  # of the last one sent

    def __repr__(self) -> str:
        return f"BulkReadFlow({self.flow_id} of partition {self.partition}, at {self.next_sequence} of {self.end})"


@final
class _Lane:
    """The flows that take turns: one of them reads at a time."""

    def __init__(self) -> None:
        self.waiting: deque[BulkReadFlow] = deque()  # flows that may continue, the next first
        self.is_reading = False


@final
class BulkReads:
    """The bulk reads of one client. Invariant: a flow waits in its lane at most once."""

    def __init__(
        self,
        output: Output,
        counters: ProtocolCounters,
        traffic: Traffic,
        carry_out: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.flows: dict[int, BulkReadFlow] = {}
        self._output = output
        self._counters = counters
        self._traffic = traffic
        self._carry_out = carry_out
        self._local = _Lane()
        self._remote = _Lane()
        self._is_shut = False  # the socket takes no more

    def add(self, flow: BulkReadFlow) -> None:
        """Let a flow begin."""
        self.flows[flow.flow_id] = flow
        self._queue_up(flow)

    def remove(self, flow_id: int) -> None:
        """Forget a flow: its client has enough, or is gone."""
        flow = self.flows.pop(flow_id, None)
        if flow is not None:
            waiting = self._lane_of(flow).waiting
            if flow in waiting:
                waiting.remove(flow)

    def end(self) -> None:
        """The connection is gone, and has no flows. Let go of it: together they would wait for the cycle collector."""
        assert not self.flows, "whoever ends a connection ends its flows first"
        self._carry_out = _carry_out_nothing

    def credit(self, flow: BulkReadFlow, number_max: int) -> None:
        """Apply the client's limit. It never falls: a client that wants no more ends the flow."""
        had_credit = flow.number < flow.number_max
        flow.number_max = max(flow.number_max, number_max)
        if not had_credit:
            self._queue_up(flow)

    def hold_back(self, is_full: bool) -> None:
        """Read nothing while the socket is full."""
        self._is_shut = is_full
        self._go_on(self._local)
        self._go_on(self._remote)

    def _lane_of(self, flow: BulkReadFlow) -> _Lane:
        return self._local if flow.user is None else self._remote

    def _queue_up(self, flow: BulkReadFlow) -> None:
        lane = self._lane_of(flow)
        if flow.number < flow.number_max and flow not in lane.waiting:
            lane.waiting.append(flow)
            self._go_on(lane)

    def _go_on(self, lane: _Lane) -> None:
        if lane.waiting and not lane.is_reading and not self._is_shut:
            lane.is_reading = True
            self._carry_out(self._read(lane, lane.waiting.popleft()))

    async def _read(self, lane: _Lane, flow: BulkReadFlow) -> None:
        """Read and send one chunk, unless the last one has filled the socket."""
        if self._is_shut:
            lane.is_reading = False
            if self.flows.get(flow.flow_id) is flow:
                lane.waiting.appendleft(flow)
            return
        chunk: RangeChunk | None = None
        problem, code, may_retry = "the partition is gone", codes.NOT_FOUND, False
        try:
            request = AskPartitions(flow.partition, ReadRange(flow.next_sequence, flow.end, flow.chunk_bytes))
            asked = request if flow.user is None else AskHome(flow.user, request, flow.incarnation)
            chunks: list[RangeChunk] = await flow.queue.ask(asked)
            chunk = chunks[0]
        except ReadFailed as failure:
            problem, code, may_retry = str(failure), codes.UNREADABLE, True
        except ReaderRefused as refused:
            problem, code = str(refused), READER_CODES.get(refused.code, codes.DISABLED)
            may_retry = refused.code in READERS_FOR_NOW
        except NoSuchPartition:
            log.debug("%r: %s", flow, problem)
        except pykka.ActorDeadError:
            if flow.user is not None:  # its stand-in here is gone, after a long pause or with its link
                problem, code, may_retry = "the way to the queue's broker was given up", codes.DISABLED, True
            log.debug("%r: %s", flow, problem)
        finally:
            lane.is_reading = False
        if self.flows.get(flow.flow_id) is flow:
            if chunk is not None:
                self._send(flow, chunk)
            else:
                self._fail(flow, code, problem, may_retry=may_retry)
        self._go_on(lane)

    def _send(self, flow: BulkReadFlow, chunk: RangeChunk) -> None:
        is_last = chunk.next_sequence >= min(flow.end, chunk.synced_end)
        flow.number += 1
        flow.next_sequence = chunk.next_sequence
        output = self._output
        output.flows.append(encode_chunk(flow.flow_id, flow.number, chunk, flow.columns, is_last=is_last))
        output.ask_flush()
        sent_count = sum([run.stop_row - run.start_row for run in chunk.runs])
        self._counters.messages_sent += sent_count
        self._traffic.messages_sent += sent_count
        if is_last:
            del self.flows[flow.flow_id]
        else:
            self._queue_up(flow)

    def _fail(self, flow: BulkReadFlow, code: int, problem: str, *, may_retry: bool) -> None:
        """End a flow whose range cannot be read any further. Chunks that were sent stay valid."""
        del self.flows[flow.flow_id]
        retry_after_ms = READ_AGAIN_MS if may_retry else None
        self._output.send(Error(flow.flow_id, NO_REQUEST, code, problem, retry_after_ms).encode())


def _carry_out_nothing(request: Coroutine[Any, Any, None]) -> None:
    """Drop a read: the connection has ended."""
    request.close()
