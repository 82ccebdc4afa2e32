"""A client that reads and writes in bulk over the flow protocol, one request at a time."""

from typing import TypeVar

from sluicegate.protocols.flow.codec import columns as c
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.columns import ColumnWriter
from sluicegate.protocols.flow.codec.frame import UNBIND
from sluicegate.protocols.flow.codec.frames.cursor import (
    CursorBind,
    CursorRequest,
    CutRange,
    Positions,
    QueueStatus,
    RangeCut,
)
from sluicegate.protocols.flow.codec.frames.flow import FlowEnd
from sluicegate.protocols.flow.codec.frames.rows import Read, Reading, RowsReceived
from sluicegate.protocols.flow.codec.frames.settle import Credit
from sluicegate.protocols.flow.codec.frames.stage import AbortRows, CommitRows, StagingAnswer, write_stage
from support.flow.client import FlowClient

A = TypeVar("A", Positions, RangeCut, StagingAnswer)

MINIMUM = c.SEQUENCE | c.TOPIC | c.PAYLOAD


class BulkClient(FlowClient):
    """A flow client with the verbs of bulk."""

    # --- ranges ---

    async def begins_to_read(
        self,
        queue: str = "q",
        first: int = 1,
        end: int = 1 << 60,
        *,
        partition: int = 0,
        columns: int = MINIMUM,
        chunk_bytes: int = 0,
        credit: int = 1 << 30,
        cursor: str = "",
        epoch: int = 0,
    ) -> Reading:
        flow_id, request_id = self.ids()
        asked = Read(flow_id, request_id, queue, partition, first, end, columns, chunk_bytes, credit, cursor, epoch)
        self.send(asked.encode())
        return await self.heard(Reading, lambda reading: reading.request_id == request_id)

    async def next_chunk(self, flow_id: int) -> RowsReceived:
        return await self.heard(RowsReceived, lambda rows: rows.flow_id == flow_id)

    async def rest(self, flow_id: int) -> list[RowsReceived]:
        """Return all chunks up to the last."""
        chunks = [await self.next_chunk(flow_id)]
        while not chunks[-1].is_last:
            chunks.append(await self.next_chunk(flow_id))
        return chunks

    async def reads(self, queue: str = "q", first: int = 1, end: int = 1 << 60, *, partition: int = 0) -> list[bytes]:
        """Return the payloads of a range."""
        reading = await self.begins_to_read(queue, first, end, partition=partition)
        chunks = await self.rest(reading.flow_id)
        return [payload for chunk in chunks if chunk.columns.count for payload in chunk.columns.values(c.PAYLOAD)]

    def grants_chunks(self, flow_id: int, number_max: int) -> None:
        self.send(Credit(flow_id, number_max, False, False).encode())

    async def stops_reading(self, flow_id: int) -> None:
        self.send(FlowEnd(UNBIND, flow_id, 0, False).encode())
        await self.heard(FlowEnd)

    # --- requests without a flow ---

    def new_request_id(self) -> int:
        self._next_request_id += 1
        return self._next_request_id - 1

    async def asks(self, kind: type[A], request_id: int, data: bytes) -> A:
        self.send(data)
        return await self.heard(kind, lambda answer: answer.request_id == request_id)

    async def queue_status(self, queue: str = "q") -> Positions:
        request_id = self.new_request_id()
        return await self.asks(Positions, request_id, QueueStatus(request_id, queue).encode())

    async def cuts(
        self, first: int, usage_bytes: int = 0, *, rows: int = 0, queue: str = "q", partition: int = 0
    ) -> int:
        request_id = self.new_request_id()
        asked = CutRange(request_id, queue, partition, first, usage_bytes, rows)
        return (await self.asks(RangeCut, request_id, asked.encode())).end

    async def binds_cursor(
        self, cursor: str = "c", *, queue: str = "q", mode: str = "tap", start: str = "", heartbeat_ms: int = 0
    ) -> Positions:
        request_id = self.new_request_id()
        asked = CursorBind(request_id, queue, cursor, mode, "", start, 0, 0, heartbeat_ms)
        return await self.asks(Positions, request_id, asked.encode())

    async def asks_cursor(
        self,
        kind: int,
        epoch: int,
        sequences: dict[int, int] | None = None,
        *,
        cursor: str = "c",
        queue: str = "q",
        wait_ms: int = 0,
        batch_ref: str = "",
    ) -> Positions:
        request_id = self.new_request_id()
        pairs = tuple((sequences or {}).items())
        asked = CursorRequest(kind, request_id, queue, cursor, epoch, pairs, wait_ms, batch_ref)
        return await self.asks(Positions, request_id, asked.encode())

    # --- staged publishing ---

    async def stages(
        self,
        transaction: str,
        part: int,
        columns: ColumnWriter,
        count: int,
        *,
        attempt: int = 0,
        to_queues: bool = False,
    ) -> StagingAnswer:
        request_id = self.new_request_id()
        data = write_stage(
            request_id,
            transaction,
            part,
            attempt,
            to_queues=to_queues,
            count=count,
            columns=columns.columns,
            data=columns.encoded(),
        )
        return await self.asks(StagingAnswer, request_id, data)

    async def commits(self, transaction: str, *attempts: tuple[int, int]) -> StagingAnswer:
        request_id = self.new_request_id()
        return await self.asks(StagingAnswer, request_id, CommitRows(request_id, transaction, attempts).encode())

    async def aborts(self, transaction: str) -> StagingAnswer:
        request_id = self.new_request_id()
        return await self.asks(StagingAnswer, request_id, AbortRows(request_id, transaction).encode())


def rows_of(topics: list[str], payloads: list[bytes]) -> ColumnWriter:
    """Return the columns that a STAGE needs at least."""
    columns = ColumnWriter()
    columns.put_values(c.TOPIC, [topic.encode() for topic in topics])
    columns.put_values(c.PAYLOAD, payloads)
    return columns


ACK, PIN, STATUS = frames.ACK_CURSOR, frames.PIN_CURSOR, frames.CURSOR_STATUS
UNBIND_IT, DELETE = frames.UNBIND_CURSOR, frames.DELETE_CURSOR
