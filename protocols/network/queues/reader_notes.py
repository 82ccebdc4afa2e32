"""What the two ends of a link tell each other of readers: range reads and cursors of one broker at queues of the other.

Flow: links. READER is a request: what is asked, the queue, the user, and by what is asked further values. The number of
the request stands in place of a consumer. It is answered by TOLD or UNREAD, or for a range by LINK_DELIVER with the
flag OF_READER and CHUNK behind them. UNREAD has a code of `actors.messages.readers`, one with which a cursor refuses
(`messaging.bulk.durable_cursors`), or one of those below. Numbers that no queue has are cut to those that the link
takes.
"""

from typing import Any, Final, TypeAlias

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
    PinCursor,
    RangeChunk,
    ReaderRequest,
    ReadRange,
    UnbindCursor,
)
from sluicegate.messaging.bulk.durable_cursors import NAME_CHARS_MAX, CursorLimits
from sluicegate.messaging.partitions.state.segments import Gap
from sluicegate.protocols.network.queues.notes import NUMBER_MAX, FlowNote

READ: Final = "read"  # partition, first, end, bytes
DESCRIBE: Final = "describe"  # partition (null: all)
CUT: Final = "cut"  # partition, first, bytes, messages
BIND_CURSOR: Final = "bind"  # cursor, mode, instance, start, most bytes and milliseconds of lag, heartbeat in ms
ACK: Final = "ack"  # cursor, epoch, sequences by partition, reference
PIN: Final = "pin"  # cursor, epoch, sequences by partition
STATUS: Final = "status"  # cursor, epoch, sequences by partition, milliseconds
HEARTBEAT: Final = "heartbeat"  # cursor, epoch
UNBIND_CURSOR: Final = "unbind"  # cursor, epoch
DELETE: Final = "delete"  # cursor
LOOK: Final = "look"  # cursor

# Codes of UNREAD, beside the others.
NO_PARTITION: Final = "no_partition"  # NoSuchPartition
UNREADABLE: Final = "unreadable"  # ReadFailed

_FIRST: Final = 3  # place of the first value that depends on what is asked
_POSITION_NUMBERS: Final = 6
_PARTITION_MAX: Final = 0xFFFF_FFFF

Values: TypeAlias = list[object]


def request_values(queue: str, asked: AskHome) -> Values:
    """Return the values of a request to a queue."""
    request = asked.request
    what, values = _partitions_values(request) if isinstance(request, AskPartitions) else _cursor_values(request)
    return [what, queue, asked.user, *values]


def _partitions_values(asked: AskPartitions) -> tuple[str, Values]:
    request = asked.request
    if isinstance(request, ReadRange):
        return READ, [asked.number, _number(request.first), _number(request.end), request.bytes_max]
    if isinstance(request, FindRangeEnd):
        limits = [_number(request.bytes_max), _number(request.rows_max)]
        return CUT, [asked.number, _number(request.first), *limits]
    assert isinstance(request, DescribeLog), "others are asked by the broker that has the queue"
    return DESCRIBE, [asked.number]


def _cursor_values(request: Any) -> tuple[str, Values]:
    if isinstance(request, BindCursor):
        limits = [_number(each) for each in request.limits]
        return BIND_CURSOR, [request.cursor, request.mode, request.instance, request.start, *limits]
    if isinstance(request, AckCursor):
        return ACK, [request.cursor, _number(request.epoch), _rows(request.upto), request.batch_ref]
    if isinstance(request, PinCursor):
        return PIN, [request.cursor, _number(request.epoch), _rows(request.ends)]
    if isinstance(request, CursorStatus):
        return STATUS, [request.cursor, _number(request.epoch), _rows(request.above), request.wait_ms]
    if isinstance(request, HeartbeatCursor):
        return HEARTBEAT, [request.cursor, _number(request.epoch)]
    if isinstance(request, UnbindCursor):
        return UNBIND_CURSOR, [request.cursor, _number(request.epoch)]
    if isinstance(request, DeleteCursor):
        return DELETE, [request.cursor]
    assert isinstance(request, LookAtCursor), "there are no others"
    return LOOK, [request.cursor]


def request_in(note: FlowNote, neighbor: str) -> tuple[str, AskHome] | None:
    """Return the queue and the request of a neighbor's note; None: it is one of a later release. Raises ValueError."""
    what, queue, user = note.text(0), note.text(1), note.text(2)
    request = _partitions_request(what, note)
    if request is None:
        cursor_request = _cursor_request(what, queue, note, neighbor)
        return None if cursor_request is None else (queue, AskHome(user, cursor_request, 0))
    return queue, AskHome(user, request, 0)


def _partitions_request(what: str, note: FlowNote) -> AskPartitions | None:
    at = _FIRST
    if what == READ:
        read = ReadRange(note.number(at + 1), note.number(at + 2), note.number(at + 3))
        return AskPartitions(note.number(at), read)
    if what == CUT:
        cut = FindRangeEnd(note.number(at + 1), note.number(at + 2), note.number(at + 3))
        return AskPartitions(note.number(at), cut)
    if what == DESCRIBE:
        return AskPartitions(note.number_or_none(at), DescribeLog())
    return None


def _cursor_request(what: str, queue: str, note: FlowNote, neighbor: str) -> Any:
    at = _FIRST
    if what == BIND_CURSOR:
        limits = CursorLimits(note.number(at + 4), note.number(at + 5), note.number(at + 6))
        instance = _instance(note.text(at + 2), neighbor)
        return BindCursor(queue, note.text(at), note.text(at + 1), instance, note.text(at + 3), limits)
    if what == ACK:
        sequences = _by_number(note, at + 2)
        return AckCursor(queue, note.text(at), note.number(at + 1), sequences, note.text(at + 3))
    if what == PIN:
        return PinCursor(queue, note.text(at), note.number(at + 1), _by_number(note, at + 2))
    if what == STATUS:
        sequences, wait_ms = _by_number(note, at + 2), note.number(at + 3)
        return CursorStatus(queue, note.text(at), note.number(at + 1), wait_ms, sequences)
    if what == HEARTBEAT:
        return HeartbeatCursor(queue, note.text(at), note.number(at + 1))
    if what == UNBIND_CURSOR:
        return UnbindCursor(queue, note.text(at), note.number(at + 1))
    if what == DELETE:
        return DeleteCursor(queue, note.text(at))
    return LookAtCursor(queue, note.text(at)) if what == LOOK else None


def _instance(name: str, neighbor: str) -> str:
    """Return who binds a cursor, with its broker where there is room for it."""
    full = f"{name}@{neighbor}"
    return full if len(full) <= NAME_CHARS_MAX else name


# --- answers ---


def answer_values(request: ReaderRequest, answer: Any) -> Values:
    """Return the values of TOLD for the answer to a request other than a read."""
    if isinstance(request, AskPartitions):
        if isinstance(request.request, FindRangeEnd):
            return [list(answer)]
        return [[[e.number, e.partition_id, e.low, e.synced_end, e.next_sequence, e.bytes_end] for e in answer]]
    if isinstance(request, BindCursor):
        return [_positions(answer.positions), answer.epoch]
    if isinstance(request, LookAtCursor):
        return [_positions(answer.positions), answer.epoch, answer.batch_ref]
    return [_positions(answer)] if isinstance(request, (AckCursor, CursorStatus)) else []


def chunk_values(chunk: RangeChunk) -> Values:
    """Return the values of CHUNK, which comes behind the messages of a chunk."""
    return [chunk.next_sequence, chunk.synced_end, [[gap.first, gap.end, gap.reason] for gap in chunk.gaps]]


def answer_in(request: ReaderRequest, note: FlowNote, incarnation: int) -> Any:
    """Return the answer to a request, from its TOLD. Raises ValueError. `incarnation` is that of the queue's spool."""
    if isinstance(request, AskPartitions):
        if isinstance(request.request, FindRangeEnd):
            ends = note.numbers(0)
            if len(ends) != 1:
                raise ValueError(f"{len(ends)} ends of a range")
            return ends
        return [_log(*row) for row in _position_rows(note)]
    if isinstance(request, BindCursor):
        return CursorBound(note.number(1), incarnation, _positions_in(note))
    if isinstance(request, LookAtCursor):
        return CursorSeen(note.number(1), note.text(2), _positions_in(note))
    return _positions_in(note) if isinstance(request, (AckCursor, CursorStatus)) else None


def _log(number: int, partition_id: int, low: int, synced_end: int, next_sequence: int, bytes_end: int) -> LogOverview:
    return LogOverview(number, partition_id, low, synced_end, next_sequence, bytes_end, {})


def gaps_in(note: FlowNote, place: int) -> list[Gap]:
    """Return the gaps of a CHUNK. Raises ValueError."""
    return [Gap(first, end, reason) for first, end, reason in note.reasons(place)]


def _positions(positions: list[CursorPosition]) -> Values:
    return [[e.number, e.partition_id, e.low, e.acked, e.next_sequence, e.lag_bytes] for e in positions]


def _positions_in(note: FlowNote) -> list[CursorPosition]:
    return [CursorPosition(*row) for row in _position_rows(note)]


def _position_rows(note: FlowNote) -> list[list[int]]:
    """Return what is said of each partition, in the order of their numbers. Raises ValueError."""
    rows = note.rows(0, _POSITION_NUMBERS)
    before = -1
    for row in rows:
        if row[0] > _PARTITION_MAX:
            raise ValueError(f"a partition number above {_PARTITION_MAX}")
        if row[0] <= before:
            raise ValueError(f"partition {row[0]} behind {before}")
        before = row[0]
    return rows


def _by_number(note: FlowNote, place: int) -> dict[int, int]:
    return {row[0]: row[1] for row in note.rows(place, 2)}


def _rows(by_number: dict[int, int]) -> Values:
    return [[number, _number(sequence)] for number, sequence in by_number.items()]


def _number(value: int) -> int:
    return min(value, NUMBER_MAX)
