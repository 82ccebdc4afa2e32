"""Bulk reading and writing on asyncio: ranges of sequences in columns, durable cursors, staged publishing.

`docs/data/bulk.md` describes the service. Rows travel in columns with the memory layout of Apache Arrow, so that a
program wraps their buffers without touching rows; Arrow itself is not needed here.
"""

import asyncio
from collections.abc import Mapping
from enum import IntFlag
from types import MappingProxyType
from typing import Final, Self, TypeVar

from sluicegate.messaging.bulk.durable_cursors import TAP
from sluicegate.protocols.flow.client.aio.base import ClientBase
from sluicegate.protocols.flow.client.aio.owner import FlowOwner
from sluicegate.protocols.flow.client.session.range_flow import RangeFlow
from sluicegate.protocols.flow.client.session.requests import Answer, Request
from sluicegate.protocols.flow.codec import columns as c
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.columns import ColumnWriter
from sluicegate.protocols.flow.codec.frames.cursor import (
    CursorBind,
    CursorRequest,
    CutRange,
    Position,
    Positions,
    QueueStatus,
    RangeCut,
)
from sluicegate.protocols.flow.codec.frames.rows import RowsReceived
from sluicegate.protocols.flow.codec.frames.stage import AbortRows, CommitRows, StagingAnswer, write_stage
from sluicegate.protocols.flow.codec.limits import ATTEMPTS_MAX, CHUNK_BYTES_MAX, ROWS_MAX

A = TypeVar("A", Positions, RangeCut, StagingAnswer)

AHEAD_DEFAULT: Final = 2  # chunks: one that is worked on, and one on its way
AHEAD_MAX: Final = 64
END_MAX: Final = (1 << 63) - 1
NO_BOUNDS: Final[Mapping[int, int]] = MappingProxyType({})


class Column(IntFlag):
    """What rows may have. `docs/connect/flow-protocol.md`, columns, has their layout."""

    SEQUENCE = c.SEQUENCE
    TOPIC = c.TOPIC
    PAYLOAD = c.PAYLOAD
    RECEIVED_MS = c.RECEIVED_MS
    PUBLISHER = c.PUBLISHER
    PARTITION_KEY = c.PARTITION_KEY
    PRIORITY = c.PRIORITY
    FLAGS = c.FLAGS
    EXPIRY_MS = c.EXPIRY_MS
    TIMESTAMP_MS = c.TIMESTAMP_MS
    MESSAGE_ID = c.MESSAGE_ID
    CORRELATION = c.CORRELATION
    REPLY_TO = c.REPLY_TO
    CONTENT_TYPE = c.CONTENT_TYPE
    PROPERTIES = c.PROPERTIES


COLUMNS_DEFAULT: Final = Column.SEQUENCE | Column.TOPIC | Column.PAYLOAD


class Cursor:
    """A durable cursor, as this program has bound it. Another bind of it, anywhere, fences this one."""

    def __init__(self, bulk: "Bulk", queue: str, name: str, epoch: int) -> None:
        self._bulk = bulk
        self.queue = queue
        self.name = name
        self.epoch = epoch
        self.incarnation = 0  # of the spool: sequences of another one mean nothing here; 0: nothing was answered yet
        self.vpn = ""  # the message VPN that the queue is in, likewise
        self.positions: tuple[Position, ...] = ()  # as of the last answer that named them

    async def acknowledge(self, before: Mapping[int, int], *, batch_ref: str = "") -> Positions:
        """Acknowledge everything before these sequences, by partition. Returns when that is on disk."""
        return self.seen(await self._ask(frames.ACK_CURSOR, before, batch_ref=batch_ref))

    async def pin(self, before: Mapping[int, int]) -> None:
        """Keep unacknowledged messages before these sequences; with no sequences, release them."""
        await self._ask(frames.PIN_CURSOR, before)

    async def status(self, above: Mapping[int, int] | None = None, *, wait_s: float = 0.0) -> Positions:
        """Return when something above these sequences can be read, at the latest after `wait_s`: a heartbeat."""
        return self.seen(await self._ask(frames.CURSOR_STATUS, above or {}, wait_s=wait_s))

    async def unbind(self) -> None:
        """End the binding; the position stays."""
        await self._ask(frames.UNBIND_CURSOR, {})

    def seen(self, positions: Positions) -> Positions:
        """Take in where it stands by an answer."""
        self.incarnation = positions.incarnation
        self.vpn = positions.vpn
        self.positions = positions.positions
        return positions

    async def _ask(
        self, kind: int, sequences: Mapping[int, int], *, wait_s: float = 0.0, batch_ref: str = ""
    ) -> Positions:
        return await self._bulk.ask_cursor(
            kind, self.queue, self.name, self.epoch, sequences, wait_s=wait_s, batch_ref=batch_ref
        )


class RangeReader(FlowOwner):
    """Reads one range, chunk by chunk. Made by `Bulk.read_range`, open within `async with`.

    `async for` ends when the range is through, or all of it that can be read now: `next_sequence` says where to go on.
    """

    def __init__(self, client: ClientBase, flow: RangeFlow) -> None:
        super().__init__(client, flow)
        self._range = flow
        self.next_sequence = flow.next_sequence  # behind the last chunk that the program has

    @property
    def incarnation(self) -> int:
        """Of the spool: sequences mean something within it only."""
        return self._range.incarnation

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> RowsReceived:
        """Return the next chunk. Raises ReadFailed, IncarnationChanged, or the error that ended the client."""
        while (chunk := self._range.take()) is None:
            if self._range.is_through:
                raise StopAsyncIteration
            self._range.check_running()
            await self._changed.wait()
        self.next_sequence = chunk.next_sequence
        self._client.ask_flush()
        return chunk


class Bulk:
    """Bulk requests of one client. If the connection breaks a request is sent again, except `stage`."""

    def __init__(self, client: ClientBase) -> None:
        self._client = client

    # --- reading ---

    def read_range(
        self,
        queue: str,
        *,
        partition: int = 0,
        first: int,
        end: int = END_MAX,
        columns: Column = COLUMNS_DEFAULT,
        chunk_bytes: int = 0,
        ahead: int = AHEAD_DEFAULT,
        cursor: Cursor | None = None,
    ) -> RangeReader:
        """Return a reader of the sequences from `first` up to, and without, `end`. Reading changes nothing.

        Chunks have about `chunk_bytes` of payload (0: 2 MiB), and `ahead` of them are fetched before they are wanted.
        With a cursor, its binding has to be in force.
        """
        if not 0 <= first <= end <= END_MAX:
            raise ValueError(f"a range from {first} to {end}; sequences ascend from 0, to {END_MAX} at most")
        if not 0 <= chunk_bytes <= CHUNK_BYTES_MAX or not 0 < ahead <= AHEAD_MAX:
            raise ValueError(f"chunk_bytes is at most {CHUNK_BYTES_MAX}, ahead 1 to {AHEAD_MAX}")
        flow = RangeFlow(
            queue,
            partition,
            first,
            end,
            columns=int(columns),
            chunk_bytes=chunk_bytes,
            ahead=ahead,
            cursor="" if cursor is None else cursor.name,
            epoch=0 if cursor is None else cursor.epoch,
        )
        return RangeReader(self._client, flow)

    async def queue_status(self, queue: str) -> Positions:
        """Return where each partition of a queue stands, and the spool's incarnation."""
        return await self._ask(Positions, Request(lambda request_id: QueueStatus(request_id, queue).encode()))

    async def cut_ranges(
        self,
        queue: str,
        firsts: Mapping[int, int],
        *,
        usage_bytes: Mapping[int, int] = NO_BOUNDS,
        rows: Mapping[int, int] = NO_BOUNDS,
    ) -> dict[int, int]:
        """Return the ends of ranges from `firsts`, by partition, of about so many rows and bytes as quotas count them.

        A partition that a bound does not name has none. Sequences that were never used are no rows. Where nothing comes
        from the first on, it is the end, too. All partitions are asked at the same time.
        """

        async def cut(partition: int, first: int) -> int:
            bounds = usage_bytes.get(partition, 0), rows.get(partition, 0)
            answer = await self._ask(
                RangeCut, Request(lambda request_id: CutRange(request_id, queue, partition, first, *bounds).encode())
            )
            return answer.end

        ends = await asyncio.gather(*(cut(partition, first) for partition, first in firsts.items()))
        return dict(zip(firsts, ends, strict=True))

    # --- cursors ---

    async def bind_cursor(
        self,
        queue: str,
        name: str,
        *,
        mode: str = TAP,
        instance: str = "",
        start: str = "",
        lag_bytes_max: int = 0,
        lag_time_ms_max: int = 0,
        heartbeat_s: float = 0.0,
    ) -> Cursor:
        """Bind a durable cursor, or create it; defaults are the gateway's. Fences any other binding of it."""
        bound = await self._ask(
            Positions,
            Request(
                lambda request_id: CursorBind(
                    request_id,
                    queue,
                    name,
                    mode,
                    instance,
                    start,
                    lag_bytes_max,
                    lag_time_ms_max,
                    int(heartbeat_s * 1000),
                ).encode()
            ),
        )
        cursor = Cursor(self, queue, name, bound.epoch)
        cursor.seen(bound)
        return cursor

    def bound_cursor(self, queue: str, name: str, epoch: int) -> Cursor:
        """Return a cursor that was bound under this epoch, by another process of the same job perhaps."""
        return Cursor(self, queue, name, epoch)

    async def look_at_cursor(self, queue: str, name: str) -> Positions:
        """Return a cursor's positions, epoch and last batch reference, without binding it."""
        return await self.ask_cursor(frames.CURSOR_STATUS, queue, name, 0, {})

    async def delete_cursor(self, queue: str, name: str) -> None:
        """Forget a cursor."""
        await self.ask_cursor(frames.DELETE_CURSOR, queue, name, 0, {})

    async def ask_cursor(
        self,
        kind: int,
        queue: str,
        name: str,
        epoch: int,
        sequences: Mapping[int, int],
        *,
        wait_s: float = 0.0,
        batch_ref: str = "",
    ) -> Positions:
        """Ask something of a cursor under an epoch."""
        pairs, wait_ms = tuple(sequences.items()), int(wait_s * 1000)
        return await self._ask(
            Positions,
            Request(
                lambda request_id: CursorRequest(
                    kind, request_id, queue, name, epoch, pairs, wait_ms, batch_ref
                ).encode()
            ),
        )

    # --- staged publishing ---

    async def stage(
        self,
        transaction: str,
        columns: ColumnWriter,
        count: int,
        *,
        part: int = 0,
        attempt: int = 0,
        to_queues: bool = False,
    ) -> StagingAnswer:
        """Keep `count` rows for an attempt of a part of a transaction; returns when they are on the disk, unseen.

        With `to_queues` their topics are names of queues. Raises RequestInterrupted when the connection breaks: what
        was kept is not known then, so another attempt has to begin; MessageTooLarge when no frame holds the rows.
        """
        if not 0 < count <= ROWS_MAX:
            raise ValueError(f"{count} rows; one call stages 1 to {ROWS_MAX}")
        bits, data = columns.columns, columns.encoded()
        request = Request(
            lambda request_id: write_stage(
                request_id, transaction, part, attempt, to_queues=to_queues, count=count, columns=bits, data=data
            ),
            is_stage=True,
        )
        return await self._ask(StagingAnswer, request)

    async def commit_staged(self, transaction: str, attempts: Mapping[int, int]) -> StagingAnswer:
        """Publish exactly these attempts, by part; all or nothing, and once however often it is repeated."""
        if len(attempts) > ATTEMPTS_MAX:
            raise ValueError(f"{len(attempts)} attempts; one commit names at most {ATTEMPTS_MAX}")
        pairs = tuple(attempts.items())
        return await self._ask(
            StagingAnswer, Request(lambda request_id: CommitRows(request_id, transaction, pairs).encode())
        )

    async def abort_staged(self, transaction: str) -> StagingAnswer:
        """Drop staged rows; after the commit it changes nothing."""
        return await self._ask(StagingAnswer, Request(lambda request_id: AbortRows(request_id, transaction).encode()))

    async def _ask(self, kind: type[A], request: Request) -> A:
        answer: Answer = await self._client.ask(request)
        assert isinstance(answer, kind), "the gateway answers with what was asked for"
        return answer
