"""Carry out bulk requests: reads, cursors, staged publishing.

Flow: bulk reading, cursors, staged publishing. The rights of the user on a queue are checked here, because the actors
also serve operators: reading needs `read-only`, and a cursor, for which the queue keeps messages, needs `consume`. The
broker of a neighbor's queue checks them itself.
"""

from typing import Any, Final, TypeAlias

import pykka

from sluicegate.actors.messages.directory import FindQueue, LocalQueue, QueueHandle
from sluicegate.actors.messages.readers import (
    AckCursor,
    AskHome,
    AskPartitions,
    BindCursor,
    CursorBound,
    CursorPosition,
    CursorSeen,
    CursorStatus,
    DeleteCursor,
    DescribeLog,
    FindRangeEnd,
    HeartbeatCursor,
    LogOverview,
    LookAtCursor,
    NoSuchPartition,
    PinCursor,
    ReaderRefused,
    ReaderRequest,
    UnbindCursor,
)
from sluicegate.actors.messages.staging import AbortStaged, CommitStaged, Stage, Staged, StagedCommitted
from sluicegate.messaging.bulk.durable_cursors import EARLIEST, CursorLimits, CursorRefused
from sluicegate.messaging.bulk.staging import OF_ANOTHER, StagingRefused
from sluicegate.messaging.clients.rights import PAYLOAD_INVALID, TRANSACTION_OF_ANOTHER, ClientDenied
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.queues.attributes import CONSUME, READ_ONLY
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.codes import RequestRefused
from sluicegate.protocols.flow.codec.columns import ALL
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
from sluicegate.protocols.flow.datapath.bulk_reads import READER_CODES, READERS_FOR_NOW, BulkReadFlow
from sluicegate.protocols.flow.datapath.bulk_rows import batches_of
from sluicegate.protocols.flow.peer import REFUSAL_CODES, FlowPeer

BulkRequest: TypeAlias = QueueStatus | CutRangeFrame | CursorBind | CursorRequest | StageRows | CommitRows | AbortRows
BULK_REQUESTS: Final = (QueueStatus, CutRangeFrame, CursorBind, CursorRequest, StageRows, CommitRows, AbortRows)


async def begin_reading(peer: FlowPeer, request: Read) -> None:
    """Answer READ, and begin."""
    try:
        handle = await _queue(peer, request.queue, READ_ONLY)
        if not 0 < request.first <= request.end or not request.columns or request.columns & ~ALL:
            text = f"sequences {request.first} to {request.end}, columns {request.columns:#x}; known are {ALL:#x}"
            raise RequestRefused(codes.REQUEST_INVALID, text)
        if request.cursor:
            await _ask(peer, handle, HeartbeatCursor(request.queue, request.cursor, request.epoch))
        overviews: list[LogOverview] = await _ask(peer, handle, AskPartitions(None, DescribeLog()))
        if request.partition >= len(overviews):
            text = f"{request.queue!r} has no partition {request.partition}, but 0 to {len(overviews) - 1}"
            raise RequestRefused(codes.NOT_FOUND, text)
    except RequestRefused as refusal:
        code, may_retry = refusal.code, refusal.may_retry
        peer.refuse_by_code(request.flow_id, request.request_id, code, str(refusal), may_retry=may_retry)
    except CursorRefused as refused:
        peer.refuse_by_code(request.flow_id, request.request_id, REFUSAL_CODES[refused.code], str(refused))
    except pykka.ActorDeadError:
        peer.refuse_by_code(request.flow_id, request.request_id, codes.NOT_FOUND, "the queue was deleted meanwhile")
    else:
        if peer.is_released:
            return
        chunk_bytes = min(request.chunk_bytes or CHUNK_BYTES_DEFAULT, CHUNK_BYTES_MAX)
        incarnation = peer.incarnation_of(handle)
        peer.ids.answered(request.flow_id)
        peer.send(Reading(request.flow_id, request.request_id, incarnation, chunk_bytes).encode())
        peer.bulk_reads.add(
            BulkReadFlow(
                request.flow_id,
                handle.cell,
                user=None if isinstance(handle, LocalQueue) else peer.identity.user,
                incarnation=incarnation,
                partition=request.partition,
                first=request.first,
                end=request.end,
                columns=request.columns,
                chunk_bytes=chunk_bytes,
                number_max=request.number_max,
            ),
        )


async def answer_bulk(peer: FlowPeer, request: BulkRequest) -> bytes:
    """Return the answer to a request. Raises RequestRefused, PeerViolation, CursorRefused, StagingRefused."""
    if isinstance(request, (StageRows, CommitRows, AbortRows)):
        try:
            return (await _answer_staging(peer, request)).encode()
        except StagingRefused as refused:
            if refused.code == OF_ANOTHER:
                peer.services.clients.denials.deny(TRANSACTION_OF_ANOTHER, peer.client, str(refused))
            raise
    if isinstance(request, CutRangeFrame):
        handle = await _queue(peer, request.queue, READ_ONLY)
        cut = AskPartitions(request.partition, FindRangeEnd(request.first, request.usage_bytes, request.messages_count))
        try:
            ends: list[int] = await _ask(peer, handle, cut)
        except NoSuchPartition as error:
            raise RequestRefused(codes.NOT_FOUND, str(error)) from None
        return RangeCut(request.request_id, ends[0]).encode()
    if isinstance(request, QueueStatus):
        handle = await _queue(peer, request.queue, READ_ONLY)
        overviews: list[LogOverview] = await _ask(peer, handle, AskPartitions(None, DescribeLog()))
        positions = tuple(
            [Position(each.number, each.low, each.low, each.synced_end, 0, each.partition_id) for each in overviews]
        )
        incarnation, vpn = _spool_of(peer, handle)
        return Positions(frames.QUEUE_STATUS, request.request_id, 0, incarnation, "", positions, vpn).encode()
    if isinstance(request, CursorBind):
        return (await _bind_cursor(peer, request)).encode()
    return (await _ask_cursor(peer, request)).encode()


# --- cursors ---


async def _bind_cursor(peer: FlowPeer, request: CursorBind) -> Positions:
    handle = await _queue(peer, request.queue, CONSUME)
    default = CursorLimits()
    bind_cursor = BindCursor(
        request.queue,
        request.cursor,
        request.mode,
        request.instance or peer.client,
        request.start or EARLIEST,
        CursorLimits(
            request.lag_bytes_max or default.lag_bytes_max,
            request.lag_time_ms_max,
            request.heartbeat_ms or default.heartbeat_ms,
        ),
    )
    bound: CursorBound = await _ask(peer, handle, bind_cursor)
    positions, vpn = _positions_of(bound.positions), _spool_of(peer, handle)[1]
    return Positions(frames.BIND_CURSOR, request.request_id, bound.epoch, bound.incarnation, "", positions, vpn)


async def _ask_cursor(peer: FlowPeer, request: CursorRequest) -> Positions:
    handle = await _queue(peer, request.queue, CONSUME)
    kind, queue, cursor, epoch = request.kind, request.queue, request.cursor, request.epoch
    by_partition = dict(request.sequences)
    found: list[CursorPosition] = []
    batch_ref = ""
    if kind == frames.ACK_CURSOR:
        found = await _ask(peer, handle, AckCursor(queue, cursor, epoch, by_partition, request.batch_ref))
    elif kind == frames.PIN_CURSOR:
        await _ask(peer, handle, PinCursor(queue, cursor, epoch, by_partition))
    elif kind == frames.UNBIND_CURSOR:
        await _ask(peer, handle, UnbindCursor(queue, cursor, epoch))
    elif kind == frames.DELETE_CURSOR:
        await _ask(peer, handle, DeleteCursor(queue, cursor))
    elif epoch:
        found = await _ask(peer, handle, CursorStatus(queue, cursor, epoch, request.wait_ms, by_partition))
    else:
        seen: CursorSeen = await _ask(peer, handle, LookAtCursor(queue, cursor))
        found, epoch, batch_ref = seen.positions, seen.epoch, seen.batch_ref
    incarnation, vpn = _spool_of(peer, handle)
    return Positions(kind, request.request_id, epoch, incarnation, batch_ref, _positions_of(found), vpn)


def _positions_of(found: list[CursorPosition]) -> tuple[Position, ...]:
    return tuple(
        [
            Position(each.number, each.low, each.acked, each.next_sequence, each.lag_bytes, each.partition_id)
            for each in found
        ]
    )


# --- staged publishing ---


async def _answer_staging(peer: FlowPeer, request: StageRows | CommitRows | AbortRows) -> StagingAnswer:
    directory, user = peer.services.staging, peer.identity.user
    if isinstance(request, StageRows):
        batches = batches_of(request, peer.client, peer.runtime.clock.wall_ms())
        batches = _checked(peer, batches)
        peer.read_control.published([], peer.publishers.unanswered_count)
        staged: Staged = await directory.ask(Stage(request.transaction, request.part, request.attempt, batches, user))
        return StagingAnswer(frames.STAGE, request.request_id, staged.messages_count, staged.already)
    if isinstance(request, CommitRows):
        done: StagedCommitted = await directory.ask(CommitStaged(request.transaction, list(request.attempts), user))
        if not done.already:
            peer.count_received(done.messages_count)  # staged messages count when they are published
        return StagingAnswer(frames.COMMIT_STAGED, request.request_id, done.messages_count, done.already)
    is_gone: bool = await directory.ask(AbortStaged(request.transaction, user))
    return StagingAnswer(frames.ABORT_STAGED, request.request_id, 0, not is_gone)


def _checked(peer: FlowPeer, batches: list[MessageBatch]) -> list[MessageBatch]:
    """Return what is published at the commit. Raises RequestRefused unless the client may publish all of this."""
    rights = peer.identity.rights
    try:
        for batch in batches:
            for topic in {batch.topic} if batch.topics is None else set(batch.topics):
                rights.check_publish(topic, guaranteed=True)
            rights.count_taken(batch.count)
        return [rights.check_later(batch) for batch in batches]
    except ClientDenied as denied:
        code = codes.PAYLOAD_INVALID if denied.reason == PAYLOAD_INVALID else codes.NOT_PERMITTED
        raise RequestRefused(code, denied.text) from None


# --- for both ---


async def _queue(peer: FlowPeer, name: str, needed: str) -> QueueHandle:
    """Return a queue that the client has a right to, and may receive from. Raises RequestRefused.

    It may be a neighbor's, whose broker decides about the right to the queue with each request.
    """
    try:
        peer.identity.rights.check_receiving()
    except ClientDenied as denied:
        raise RequestRefused(codes.PERMISSION_DENIED, denied.text) from None
    handle: QueueHandle | None = await peer.services.queues.ask(FindQueue(name, peer.identity.rights, anywhere=True))
    if handle is None:
        raise RequestRefused(codes.NOT_FOUND, f"there is no queue {name!r}")
    reason = handle.state.denial(peer.identity.rights, peer.identity.user, needed)
    if reason:
        raise RequestRefused(codes.PERMISSION_DENIED, reason)
    return handle


async def _ask(peer: FlowPeer, handle: QueueHandle, request: ReaderRequest) -> Any:
    """Ask a queue, or the cursors of its broker. Raises RequestRefused, and what the request raises."""
    if isinstance(handle, LocalQueue):
        target = handle.cell if isinstance(request, AskPartitions) else peer.services.cursors
        return await target.ask(request)
    try:
        return await handle.cell.ask(AskHome(peer.identity.user, request, handle.incarnation))
    except ReaderRefused as refused:
        code, may_retry = READER_CODES.get(refused.code, codes.DISABLED), refused.code in READERS_FOR_NOW
        raise RequestRefused(code, str(refused), may_retry=may_retry) from None


def _spool_of(peer: FlowPeer, handle: QueueHandle) -> tuple[int, str]:
    """Return the incarnation of the spool that has a queue, and the name of its message VPN there."""
    return peer.incarnation_of(handle), handle.vpn or peer.services.clients.vpn
