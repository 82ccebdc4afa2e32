"""Requests of readers and writers in bulk: each is put to the actor that answers it.

Flow: bulk reading, cursors, staged publishing. What a user may do with a queue is asked here, for the actors behind it
serve operators as well: reading needs `read-only`, and a cursor, for which the queue keeps messages, `consume`.
"""

from typing import Final, TypeAlias

import pykka

from sluicegate.actors.messages.directory import FindQueue, QueueHandle
from sluicegate.actors.messages.readers import (
    AckCursor,
    AskPartitions,
    BindCursor,
    CursorBound,
    CursorOverview,
    CursorPosition,
    CursorStatus,
    DeleteCursor,
    DescribeLog,
    FindRangeEnd,
    HeartbeatCursor,
    ListCursors,
    LogOverview,
    PinCursor,
    UnbindCursor,
)
from sluicegate.actors.messages.staging import AbortStaged, CommitStaged, Stage, Staged, StagedCommitted
from sluicegate.messaging.bulk.durable_cursors import EARLIEST, CursorLimits, CursorRefused
from sluicegate.messaging.bulk.staging import OF_ANOTHER, StagingRefused
from sluicegate.messaging.clients.rights import TRANSACTION_OF_ANOTHER, ClientDenied
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.queues.attributes import CONSUME, READ_ONLY
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.columns import ALL
from sluicegate.protocols.flow.codec.errors import RequestRefused
from sluicegate.protocols.flow.codec.frames.cursor import (
    CursorBind,
    CursorRequest,
    Position,
    Positions,
    QueueStatus,
    RangeCut,
)
from sluicegate.protocols.flow.codec.frames.cursor import CutRange as CutRangeFrame
from sluicegate.protocols.flow.codec.frames.rows import Read, Reading
from sluicegate.protocols.flow.codec.frames.stage import AbortRows, CommitRows, StageRows, StagingAnswer
from sluicegate.protocols.flow.codec.limits import CHUNK_BYTES_DEFAULT, CHUNK_BYTES_MAX
from sluicegate.protocols.flow.datapath.bulk_reads import ReadingFlow
from sluicegate.protocols.flow.datapath.bulk_rows import batches_of
from sluicegate.protocols.flow.peer import FlowPeer
from sluicegate.protocols.flow.requests.refusals import REFUSAL_CODES, refuse

BulkRequest: TypeAlias = QueueStatus | CutRangeFrame | CursorBind | CursorRequest | StageRows | CommitRows | AbortRows
BULK_REQUESTS: Final = (QueueStatus, CutRangeFrame, CursorBind, CursorRequest, StageRows, CommitRows, AbortRows)


async def begin_reading(peer: FlowPeer, asked: Read) -> None:
    """Answer READ, and begin."""
    try:
        handle = await _queue(peer, asked.queue, READ_ONLY)
        if not 0 < asked.first <= asked.end or not asked.columns or asked.columns & ~ALL:
            text = f"sequences {asked.first} to {asked.end}, columns {asked.columns:#x}; known are {ALL:#x}"
            raise RequestRefused(codes.REQUEST_INVALID, text)
        if asked.cursor:
            await peer.services.cursors.ask(HeartbeatCursor(asked.queue, asked.cursor, asked.epoch))
        overviews: list[LogOverview] = await handle.cell.ask(AskPartitions(None, DescribeLog()))
        if asked.partition >= len(overviews):
            text = f"{asked.queue!r} has no partition {asked.partition}, but 0 to {len(overviews) - 1}"
            raise RequestRefused(codes.NOT_FOUND, text)
    except RequestRefused as refusal:
        refuse(peer, asked.flow_id, asked.request_id, refusal.code, str(refusal))
    except CursorRefused as refused:
        refuse(peer, asked.flow_id, asked.request_id, REFUSAL_CODES[refused.code], str(refused))
    except pykka.ActorDeadError:
        refuse(peer, asked.flow_id, asked.request_id, codes.NOT_FOUND, "the queue has ended meanwhile")
    else:
        if peer.is_released:
            return
        chunk_bytes = min(asked.chunk_bytes or CHUNK_BYTES_DEFAULT, CHUNK_BYTES_MAX)
        incarnation = peer.services.incarnation
        peer.ids.answered(asked.flow_id)
        peer.send(Reading(asked.flow_id, asked.request_id, incarnation, chunk_bytes).encode())
        peer.reading.add(
            ReadingFlow(
                asked.flow_id,
                handle.cell,
                partition=asked.partition,
                first=asked.first,
                end=asked.end,
                columns=asked.columns,
                chunk_bytes=chunk_bytes,
                number_max=asked.number_max,
            ),
        )


async def answer_bulk(peer: FlowPeer, asked: BulkRequest) -> bytes:
    """Return the answer to a request. Raises RequestRefused, PeerViolation, CursorRefused, StagingRefused."""
    if isinstance(asked, (StageRows, CommitRows, AbortRows)):
        try:
            return (await _answer_staging(peer, asked)).encode()
        except StagingRefused as refused:
            if refused.code == OF_ANOTHER:
                peer.services.clients.denials.deny(TRANSACTION_OF_ANOTHER, peer.client, str(refused))
            raise
    if isinstance(asked, CutRangeFrame):
        handle = await _queue(peer, asked.queue, READ_ONLY)
        cut = AskPartitions(asked.partition, FindRangeEnd(asked.first, asked.usage_bytes, asked.messages_count))
        try:
            ends: list[int] = await handle.cell.ask(cut)
        except LookupError as error:
            raise RequestRefused(codes.NOT_FOUND, str(error)) from None
        return RangeCut(asked.request_id, ends[0]).encode()
    if isinstance(asked, QueueStatus):
        handle = await _queue(peer, asked.queue, READ_ONLY)
        overviews: list[LogOverview] = await handle.cell.ask(AskPartitions(None, DescribeLog()))
        positions = tuple(
            [Position(each.number, each.low, each.low, each.synced_end, 0, each.partition_id) for each in overviews]
        )
        incarnation, vpn = peer.services.incarnation, peer.services.clients.vpn
        return Positions(frames.QUEUE_STATUS, asked.request_id, 0, incarnation, "", positions, vpn).encode()
    if isinstance(asked, CursorBind):
        return (await _bind_cursor(peer, asked)).encode()
    return (await _ask_cursor(peer, asked)).encode()


# --- cursors ---


async def _bind_cursor(peer: FlowPeer, asked: CursorBind) -> Positions:
    await _queue(peer, asked.queue, CONSUME)
    default = CursorLimits()
    request = BindCursor(
        asked.queue,
        asked.cursor,
        asked.mode,
        asked.instance or peer.client,
        asked.start or EARLIEST,
        CursorLimits(
            asked.lag_bytes_max or default.lag_bytes_max,
            asked.lag_time_ms_max,
            asked.heartbeat_ms or default.heartbeat_ms,
        ),
    )
    bound: CursorBound = await peer.services.cursors.ask(request)
    positions, vpn = _positions_of(bound.positions), peer.services.clients.vpn
    return Positions(frames.BIND_CURSOR, asked.request_id, bound.epoch, bound.incarnation, "", positions, vpn)


async def _ask_cursor(peer: FlowPeer, asked: CursorRequest) -> Positions:
    await _queue(peer, asked.queue, CONSUME)
    directory = peer.services.cursors
    kind, queue, cursor, epoch = asked.kind, asked.queue, asked.cursor, asked.epoch
    by_partition = dict(asked.sequences)
    found: list[CursorPosition] = []
    batch_ref = ""
    if kind == frames.ACK_CURSOR:
        found = await directory.ask(AckCursor(queue, cursor, epoch, by_partition, asked.batch_ref))
    elif kind == frames.PIN_CURSOR:
        await directory.ask(PinCursor(queue, cursor, epoch, by_partition))
    elif kind == frames.UNBIND_CURSOR:
        await directory.ask(UnbindCursor(queue, cursor, epoch))
    elif kind == frames.DELETE_CURSOR:
        await directory.ask(DeleteCursor(queue, cursor))
    elif epoch:
        found = await directory.ask(CursorStatus(queue, cursor, epoch, asked.wait_ms, by_partition))
    else:
        overviews: list[CursorOverview] = await directory.ask(ListCursors(queue))
        named = [each for each in overviews if each.name == cursor]
        if not named:
            raise RequestRefused(codes.NOT_FOUND, f"queue {queue!r} has no cursor {cursor!r}")
        found, epoch, batch_ref = named[0].positions, named[0].epoch, named[0].batch_ref
    incarnation, vpn = peer.services.incarnation, peer.services.clients.vpn
    return Positions(kind, asked.request_id, epoch, incarnation, batch_ref, _positions_of(found), vpn)


def _positions_of(found: list[CursorPosition]) -> tuple[Position, ...]:
    return tuple(
        [
            Position(each.number, each.low, each.acked, each.next_sequence, each.lag_bytes, each.partition_id)
            for each in found
        ]
    )


# --- staged publishing ---


async def _answer_staging(peer: FlowPeer, asked: StageRows | CommitRows | AbortRows) -> StagingAnswer:
    directory, user = peer.services.staging, peer.identity.user
    if isinstance(asked, StageRows):
        batches = batches_of(asked, peer.client, peer.runtime.clock.wall_ms())
        _check_rights(peer, batches)
        peer.read_control.published([], peer.publishing.unanswered_count)
        staged: Staged = await directory.ask(Stage(asked.transaction, asked.part, asked.attempt, batches, user))
        return StagingAnswer(frames.STAGE, asked.request_id, staged.messages_count, staged.already)
    if isinstance(asked, CommitRows):
        done: StagedCommitted = await directory.ask(CommitStaged(asked.transaction, list(asked.attempts), user))
        if not done.already:
            peer.count_received(done.messages_count)  # what is staged is not published
        return StagingAnswer(frames.COMMIT_STAGED, asked.request_id, done.messages_count, done.already)
    is_gone: bool = await directory.ask(AbortStaged(asked.transaction, user))
    return StagingAnswer(frames.ABORT_STAGED, asked.request_id, 0, not is_gone)


def _check_rights(peer: FlowPeer, batches: list[MessageBatch]) -> None:
    """Raise RequestRefused unless the client may publish all of this, which happens when it commits."""
    rights = peer.identity.rights
    try:
        for batch in batches:
            for topic in {batch.topic} if batch.topics is None else set(batch.topics):
                rights.check_publish(topic, guaranteed=True)
            rights.count_taken(batch.count)
    except ClientDenied as denied:
        raise RequestRefused(codes.NOT_PERMITTED, denied.text) from None


# --- what both need ---


async def _queue(peer: FlowPeer, name: str, needed: str) -> QueueHandle:
    """Return a queue that the client has a right to, and may receive from. Raises RequestRefused."""
    try:
        peer.identity.rights.check_receiving()
    except ClientDenied as denied:
        raise RequestRefused(codes.PERMISSION_DENIED, denied.text) from None
    handle: QueueHandle | None = await peer.services.queues.ask(FindQueue(name, peer.identity.rights))
    if handle is None:
        raise RequestRefused(codes.NOT_FOUND, f"there is no queue {name!r}")
    reason = handle.state.denial(peer.client, peer.identity.user, needed)
    if reason:
        raise RequestRefused(codes.PERMISSION_DENIED, reason)
    return handle
