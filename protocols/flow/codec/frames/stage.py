"""STAGE, COMMIT_STAGED and ABORT_STAGED: many messages that are published together, exactly once.

Flow: staged publishing. They have fields and a body. STAGE: `u32 rows | u32 columns | u8 flags | 7 zeros | columns`;
COMMIT_STAGED: `u32 attempts | for each: u64 part | u64 attempt`. See also: `datapath.bulk_rows` (columns to batches).
"""

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from sluicegate.protocols.flow.codec import fields as f
from sluicegate.protocols.flow.codec.codes import MALFORMED, PeerViolation
from sluicegate.protocols.flow.codec.columns import Columns, read_columns
from sluicegate.protocols.flow.codec.fields import FieldReader, FieldWriter
from sluicegate.protocols.flow.codec.frame import (
    ABORT_STAGED,
    COMMIT_STAGED,
    NAMES,
    RESPONSE,
    SESSION,
    STAGE,
    Frame,
    encode_frame,
)
from sluicegate.protocols.flow.codec.limits import ATTEMPTS_MAX, NAME_BYTES_MAX, ROWS_MAX

ROWS_TO_QUEUES: Final = 0x01  # flag of STAGE: the topics are names of queues

_FIXED: Final = struct.Struct(">IIB7x")
_COUNT: Final = struct.Struct(">I")
_ATTEMPT: Final = struct.Struct(">QQ")


@final
class StageRows:
    """Keep rows for a transaction, unseen."""

    __slots__ = ("attempt", "columns", "part", "request_id", "to_queues", "transaction")

    def __init__(
        self, request_id: int, transaction: str, part: int, attempt: int, columns: Columns, *, to_queues: bool
    ) -> None:
        self.request_id = request_id
        self.transaction = transaction
        self.part = part
        self.attempt = attempt
        self.columns = columns
        self.to_queues = to_queues

    def __repr__(self) -> str:
        return (
            f"StageRows(request {self.request_id}, {self.transaction!r}, part {self.part}, attempt {self.attempt}, "
            f"{self.columns}, to_queues={self.to_queues})"
        )


def write_stage(
    request_id: int,
    transaction: str,
    part: int,
    attempt: int,
    *,
    to_queues: bool,
    count: int,
    columns: int,
    data: bytes,
) -> bytes:
    """Return a STAGE; `data` are its encoded columns."""
    out = _fields(request_id, transaction)
    out.number(f.PART, part, 8)
    out.number(f.ATTEMPT, attempt, 8)
    fixed = _FIXED.pack(count, columns, ROWS_TO_QUEUES if to_queues else 0)
    return encode_frame(STAGE, 0, SESSION, out.encoded(), fixed + data)


@final
@dataclass(frozen=True)
class CommitRows:
    """Publish what these attempts staged, and nothing else of the transaction."""

    request_id: int
    transaction: str
    attempts: tuple[tuple[int, int], ...]  # part, attempt

    def encode(self) -> bytes:
        """Return the frame."""
        parts = [_COUNT.pack(len(self.attempts))]
        parts += [_ATTEMPT.pack(*each) for each in self.attempts]
        fields = _fields(self.request_id, self.transaction).encoded()
        return encode_frame(COMMIT_STAGED, 0, SESSION, fields, b"".join(parts))


@final
@dataclass(frozen=True)
class AbortRows:
    """Drop the staged rows of a transaction."""

    request_id: int
    transaction: str

    def encode(self) -> bytes:
        """Return the frame."""
        return encode_frame(ABORT_STAGED, 0, SESSION, _fields(self.request_id, self.transaction).encoded(), b"")


@final
@dataclass(frozen=True)
class StagingAnswer:
    """The rows are on the disk; the transaction is published and safe; or it is gone."""

    kind: int  # STAGE, COMMIT_STAGED or ABORT_STAGED
    request_id: int
    messages_count: int  # kept or published by this request, or by the one before that it repeats
    already: bool  # the transaction was committed before: nothing was kept, published or dropped now

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.REQUEST_ID, self.request_id, 4)
        out.number(f.MESSAGES_COUNT, self.messages_count, 8)
        out.number(f.ALREADY, int(self.already), 1)
        return encode_frame(self.kind, RESPONSE, SESSION, out.encoded(), b"")


StagingFrame: TypeAlias = StageRows | CommitRows | AbortRows | StagingAnswer

STAGING_FRAMES: Final = frozenset({STAGE, COMMIT_STAGED, ABORT_STAGED})


def read_staging_frame(frame: Frame, data: bytes) -> StagingFrame:
    """Return a frame whose type is one of STAGING_FRAMES. Raises PeerViolation."""
    kind = frame.kind
    reader = FieldReader(NAMES[kind], data, frame.fields_at, frame.body_at)
    body_bytes = frame.end - frame.body_at
    request_id = reader.number_required(f.REQUEST_ID, 4)
    if frame.flags & RESPONSE:
        _check_body(kind, body_bytes, 0)
        already = reader.number_required(f.ALREADY, 1) != 0
        return StagingAnswer(kind, request_id, reader.number_required(f.MESSAGES_COUNT, 8), already)
    transaction = reader.text(f.TRANSACTION, NAME_BYTES_MAX)
    if kind == ABORT_STAGED:
        _check_body(kind, body_bytes, 0)
        return AbortRows(request_id, transaction)
    if kind == COMMIT_STAGED:
        return CommitRows(request_id, transaction, _read_attempts(frame, data))
    part, attempt = reader.number_required(f.PART, 8), reader.number_required(f.ATTEMPT, 8)
    body = data[frame.body_at : frame.end]
    if body_bytes < _FIXED.size:
        raise PeerViolation(MALFORMED, f"STAGE with a body of {body_bytes} bytes; its fixed part has {_FIXED.size}")
    count, columns, flags = _FIXED.unpack_from(body)
    if flags & ~ROWS_TO_QUEUES or not 0 < count <= ROWS_MAX:
        raise PeerViolation(MALFORMED, f"STAGE of {count} rows, flags {flags:#04x}; allowed: 1 to {ROWS_MAX} rows")
    found = read_columns(body, _FIXED.size, body_bytes, count=count, columns=columns)
    return StageRows(request_id, transaction, part, attempt, found, to_queues=flags != 0)


def _read_attempts(frame: Frame, data: bytes) -> tuple[tuple[int, int], ...]:
    body_bytes = frame.end - frame.body_at
    count = int.from_bytes(data[frame.body_at : frame.body_at + _COUNT.size], "big")
    if count > ATTEMPTS_MAX:
        raise PeerViolation(MALFORMED, f"COMMIT_STAGED of {count} attempts; at most {ATTEMPTS_MAX} are taken")
    _check_body(COMMIT_STAGED, body_bytes, _COUNT.size + count * _ATTEMPT.size)
    attempts: list[tuple[int, int]] = []
    for index in range(count):
        each: tuple[int, int] = _ATTEMPT.unpack_from(data, frame.body_at + _COUNT.size + index * _ATTEMPT.size)
        attempts.append(each)
    return tuple(attempts)


def _check_body(kind: int, body_bytes: int, required: int) -> None:
    if body_bytes != required:
        raise PeerViolation(MALFORMED, f"{NAMES[kind]} with a body of {body_bytes} bytes where {required} are required")


def _fields(request_id: int, transaction: str) -> FieldWriter:
    out = FieldWriter()
    out.number(f.REQUEST_ID, request_id, 4)
    out.text(f.TRANSACTION, transaction)
    return out
