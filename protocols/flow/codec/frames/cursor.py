"""Frames for durable cursors and for the positions of a queue's partitions.

Flow: cursors. They have fields, and a body for partitions: `u32 partitions`, then for each, in a request,
`u32 partition | u64 sequence`, or, in a response, `u32 partition | u64 low | u64 acknowledged | u64 next |
u64 lag bytes`.
"""

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from sluicegate.protocols.flow.codec import fields as f
from sluicegate.protocols.flow.codec.codes import MALFORMED, PeerViolation
from sluicegate.protocols.flow.codec.fields import FieldReader, FieldWriter
from sluicegate.protocols.flow.codec.frame import (
    ACK_CURSOR,
    BIND_CURSOR,
    CURSOR_STATUS,
    CUT_RANGE,
    DELETE_CURSOR,
    NAMES,
    PIN_CURSOR,
    QUEUE_STATUS,
    RESPONSE,
    SESSION,
    UNBIND_CURSOR,
    Frame,
    encode_frame,
)
from sluicegate.protocols.flow.codec.limits import NAME_BYTES_MAX, POSITIONS_MAX, TEXT_BYTES_MAX

_COUNT: Final = struct.Struct(">I")
_SEQUENCE: Final = struct.Struct(">IQ")
_POSITION: Final = struct.Struct(">IQQQQ")
_ID_BYTES: Final = 8


@final
@dataclass(frozen=True)
class QueueStatus:
    """How far may the partitions of a queue be read?"""

    request_id: int
    queue: str

    def encode(self) -> bytes:
        """Return the frame."""
        return encode_frame(QUEUE_STATUS, 0, SESSION, _fields(self.request_id, self.queue).encoded(), b"")


@final
@dataclass(frozen=True)
class CutRange:
    """Where does a range end that has so much payload, and so many messages? 0: no such bound."""

    request_id: int
    queue: str
    partition: int
    first: int
    usage_bytes: int
    messages_count: int

    def encode(self) -> bytes:
        """Return the frame."""
        out = _fields(self.request_id, self.queue)
        out.number(f.PARTITION, self.partition, 4)
        out.number(f.FIRST, self.first, 8)
        out.number(f.USAGE_BYTES, self.usage_bytes, 8)
        out.number(f.MESSAGES_COUNT, self.messages_count, 8)
        return encode_frame(CUT_RANGE, 0, SESSION, out.encoded(), b"")


@final
@dataclass(frozen=True)
class RangeCut:
    """The range ends before `end`."""

    request_id: int
    end: int

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.REQUEST_ID, self.request_id, 4)
        out.number(f.END, self.end, 8)
        return encode_frame(CUT_RANGE, RESPONSE, SESSION, out.encoded(), b"")


@final
@dataclass(frozen=True)
class CursorBind:
    """Bind a durable cursor, new or existing. Empty or 0: the gateway's default."""

    request_id: int
    queue: str
    cursor: str
    mode: str  # `tap` or `consume`
    instance: str  # who binds, for operators
    start: str  # of a new cursor: `earliest` or `latest`
    lag_bytes_max: int
    lag_time_ms_max: int
    heartbeat_ms: int

    def encode(self) -> bytes:
        """Return the frame."""
        out = _fields(self.request_id, self.queue)
        out.text(f.CURSOR, self.cursor)
        out.text(f.MODE, self.mode)
        out.text(f.INSTANCE, self.instance)
        out.text(f.START, self.start)
        out.number(f.LAG_BYTES_MAX, self.lag_bytes_max, 8)
        out.number(f.LAG_TIME_MS_MAX, self.lag_time_ms_max, 8)
        out.number(f.HEARTBEAT_MS, self.heartbeat_ms, 4)
        return encode_frame(BIND_CURSOR, 0, SESSION, out.encoded(), b"")


@final
@dataclass(frozen=True)
class CursorRequest:
    """A request for a cursor, under the epoch of its binding. The meaning of `sequences` depends on the type."""

    kind: int  # ACK_CURSOR, PIN_CURSOR, CURSOR_STATUS, UNBIND_CURSOR or DELETE_CURSOR
    request_id: int
    queue: str
    cursor: str
    epoch: int  # 0 in CURSOR_STATUS: whatever is in force
    sequences: tuple[tuple[int, int], ...] = ()  # partition; acknowledged or pinned before, or waited for above
    wait_ms: int = 0  # CURSOR_STATUS: how long it may take until there is something new
    batch_ref: str = ""  # ACK_CURSOR: the reader's name for the batch, for operators

    def encode(self) -> bytes:
        """Return the frame."""
        out = _fields(self.request_id, self.queue)
        out.text(f.CURSOR, self.cursor)
        out.number(f.CURSOR_EPOCH, self.epoch, 8)
        out.number(f.WAIT_MS, self.wait_ms, 4)
        out.text(f.BATCH_REF, self.batch_ref)
        parts = [_COUNT.pack(len(self.sequences))]
        parts += [_SEQUENCE.pack(*each) for each in self.sequences]
        return encode_frame(self.kind, 0, SESSION, out.encoded(), b"".join(parts))


@final
@dataclass(frozen=True)
class Position:
    """Where a partition stands."""

    partition: int
    low: int  # the first sequence that can still be read
    acked: int  # everything before is acknowledged; `low` where no cursor is spoken of
    next_sequence: int  # behind the last one that can be read now
    lag_bytes: int  # payload from `acked` on, as far as the cursor holds it; 0 without a cursor
    partition_id: int = 0  # of which there is never another; 0: a gateway of before did not say


@final
@dataclass(frozen=True)
class Positions:
    """The response to all cursor requests, and to QUEUE_STATUS."""

    kind: int
    request_id: int
    epoch: int  # of the cursor's binding in force; 0: no cursor is spoken of
    incarnation: int  # of the spool: sequences of another one mean nothing here
    batch_ref: str  # of the last acknowledgement, in CURSOR_STATUS with epoch 0
    positions: tuple[Position, ...]
    vpn: str = ""  # the message VPN that the queue is in; empty: a gateway of before did not say

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.REQUEST_ID, self.request_id, 4)
        out.number(f.CURSOR_EPOCH, self.epoch, 8)
        out.number(f.INCARNATION, self.incarnation, 8)
        out.text(f.BATCH_REF, self.batch_ref)
        out.text(f.MESSAGE_VPN, self.vpn)
        ids = [each.partition_id for each in self.positions]
        if any(ids):
            out.data(f.PARTITION_IDS, b"".join([each.to_bytes(_ID_BYTES, "big") for each in ids]))
        parts = [_COUNT.pack(len(self.positions))]
        for each in self.positions:
            parts.append(_POSITION.pack(each.partition, each.low, each.acked, each.next_sequence, each.lag_bytes))
        return encode_frame(self.kind, RESPONSE, SESSION, out.encoded(), b"".join(parts))


CursorFrame: TypeAlias = QueueStatus | CutRange | RangeCut | CursorBind | CursorRequest | Positions

CURSOR_FRAMES: Final = frozenset(
    {
        QUEUE_STATUS, CUT_RANGE, BIND_CURSOR, ACK_CURSOR, PIN_CURSOR, CURSOR_STATUS, UNBIND_CURSOR, DELETE_CURSOR,
    }
)  # fmt: skip


def read_cursor_frame(frame: Frame, data: bytes) -> CursorFrame:
    """Return a frame whose type is one of CURSOR_FRAMES. Raises PeerViolation."""
    kind = frame.kind
    reader = FieldReader(NAMES[kind], data, frame.fields_at, frame.body_at)
    request_id = reader.number_required(f.REQUEST_ID, 4)
    if frame.flags & RESPONSE:
        if kind == CUT_RANGE:
            _check_size(frame, 0)
            return RangeCut(request_id, reader.number_required(f.END, 8))
        return Positions(
            kind,
            request_id,
            reader.number(f.CURSOR_EPOCH, 8, 0),
            reader.number_required(f.INCARNATION, 8),
            reader.text(f.BATCH_REF, 4 * TEXT_BYTES_MAX),
            _read_positions(frame, data, reader.data(f.PARTITION_IDS)),
            reader.text(f.MESSAGE_VPN, NAME_BYTES_MAX),
        )
    queue = reader.text(f.NAME, NAME_BYTES_MAX)
    if kind in (QUEUE_STATUS, CUT_RANGE, BIND_CURSOR):
        _check_size(frame, 0)
        return _read_of_queue(kind, request_id, queue, reader)
    return CursorRequest(
        kind,
        request_id,
        queue,
        reader.text(f.CURSOR, TEXT_BYTES_MAX),
        reader.number(f.CURSOR_EPOCH, 8, 0),
        _read_sequences(frame, data),
        reader.number(f.WAIT_MS, 4, 0),
        reader.text(f.BATCH_REF, 4 * TEXT_BYTES_MAX),
    )


def _read_of_queue(kind: int, request_id: int, queue: str, reader: FieldReader) -> QueueStatus | CutRange | CursorBind:
    if kind == QUEUE_STATUS:
        return QueueStatus(request_id, queue)
    if kind == CUT_RANGE:
        return CutRange(
            request_id,
            queue,
            reader.number(f.PARTITION, 4, 0),
            reader.number_required(f.FIRST, 8),
            reader.number(f.USAGE_BYTES, 8, 0),
            reader.number(f.MESSAGES_COUNT, 8, 0),
        )
    return CursorBind(
        request_id,
        queue,
        reader.text(f.CURSOR, TEXT_BYTES_MAX),
        reader.text(f.MODE, NAME_BYTES_MAX),
        reader.text(f.INSTANCE, TEXT_BYTES_MAX),
        reader.text(f.START, NAME_BYTES_MAX),
        reader.number(f.LAG_BYTES_MAX, 8, 0),
        reader.number(f.LAG_TIME_MS_MAX, 8, 0),
        reader.number(f.HEARTBEAT_MS, 4, 0),
    )


def _read_sequences(frame: Frame, data: bytes) -> tuple[tuple[int, int], ...]:
    at = frame.body_at
    count = _count(frame, data, _SEQUENCE.size)
    sequences: list[tuple[int, int]] = []
    for index in range(count):
        each: tuple[int, int] = _SEQUENCE.unpack_from(data, at + _COUNT.size + index * _SEQUENCE.size)
        sequences.append(each)
    return tuple(sequences)


def _read_positions(frame: Frame, data: bytes, ids: bytes | None) -> tuple[Position, ...]:
    at = frame.body_at
    count = _count(frame, data, _POSITION.size)
    if ids is None:
        ids = bytes(count * _ID_BYTES)
    elif len(ids) != count * _ID_BYTES:
        text = f"{NAMES[frame.kind]} of {count} partitions, with {len(ids)} bytes of ids"
        raise PeerViolation(MALFORMED, text)
    positions: list[Position] = []
    for index in range(count):
        each: tuple[int, int, int, int, int] = _POSITION.unpack_from(data, at + _COUNT.size + index * _POSITION.size)
        partition_id = int.from_bytes(ids[index * _ID_BYTES : (index + 1) * _ID_BYTES], "big")
        positions.append(Position(each[0], each[1], each[2], each[3], each[4], partition_id))
    return tuple(positions)


def _count(frame: Frame, data: bytes, each_bytes: int) -> int:
    """Return how many partitions the body speaks of. Raises PeerViolation unless it has the size for that."""
    count = int.from_bytes(data[frame.body_at : min(frame.body_at + _COUNT.size, frame.end)], "big")
    if count > POSITIONS_MAX:
        raise PeerViolation(
            MALFORMED, f"{NAMES[frame.kind]} of {count} partitions; at most {POSITIONS_MAX} are spoken of"
        )
    _check_size(frame, _COUNT.size + count * each_bytes)
    return count


def _check_size(frame: Frame, size: int) -> None:
    if frame.end - frame.body_at != size:
        text = f"{NAMES[frame.kind]} with a body of {frame.end - frame.body_at} bytes where {size} are required"
        raise PeerViolation(MALFORMED, text)


def _fields(request_id: int, queue: str) -> FieldWriter:
    out = FieldWriter()
    out.number(f.REQUEST_ID, request_id, 4)
    out.text(f.NAME, queue)
    return out
