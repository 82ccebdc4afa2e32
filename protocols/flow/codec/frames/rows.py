"""READ and ROWS: ranges of sequences on their way to a reader.

Flow: bulk reading. ROWS has a fixed part of 56 bytes, then the gaps, of 24 bytes each, then columns:
`u64 number | u64 first | u64 next sequence | u64 end readable | u32 partition | u32 rows | u32 columns | u32 gaps |
u8 flags | 7 zeros`; a gap is `u64 first | u64 end | u8 reason | 7 zeros`. Ends of ranges are exclusive.
"""

import struct
from dataclasses import dataclass
from typing import Final, final

from sluicegate.protocols.flow.codec import fields as f
from sluicegate.protocols.flow.codec.codes import MALFORMED, PeerViolation
from sluicegate.protocols.flow.codec.columns import Columns, read_columns
from sluicegate.protocols.flow.codec.fields import FieldWriter, control_fields
from sluicegate.protocols.flow.codec.frame import READ, RESPONSE, ROWS, Frame, encode_frame
from sluicegate.protocols.flow.codec.limits import NAME_BYTES_MAX

LAST: Final = 0x01  # flag: nothing comes behind it, and the flow has ended

OTHER: Final = "other"  # a reason that has no number yet
# What became of sequences, by number. The texts are those of messaging.partitions.state.segments and
# messaging.message.outcomes.
GAP_REASONS: Final = (
    OTHER,
    "settled",
    "expired",
    "max_redelivery_exceeded",
    "rejected",
    "purged",
    "deleted",
    "replaced",
    "moved",
    "damaged",
    "not_stored",
    "never_used",
    "partition_failed",
    "session_ended",
    "undeliverable",
)

_GAP_NUMBERS: Final = {reason: number for number, reason in enumerate(GAP_REASONS)}
_FIXED: Final = struct.Struct(">QQQQIIIIB7x")
_GAP: Final = struct.Struct(">QQB7x")


@final
@dataclass(frozen=True)
class Read:
    """Read a range of a partition, under a flow id of the client's choice."""

    flow_id: int
    request_id: int
    queue: str
    partition: int
    first: int
    end: int  # exclusive
    columns: int  # bits of those that are wanted
    chunk_bytes: int  # payload of one ROWS; 0: the gateway's default
    number_max: int  # credit from the start: the highest number of a ROWS
    cursor: str  # with one, the binding under `epoch` has to be the live one; empty: none
    epoch: int

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.REQUEST_ID, self.request_id, 4)
        out.text(f.NAME, self.queue)
        out.number(f.PARTITION, self.partition, 4)
        out.number(f.FIRST, self.first, 8)
        out.number(f.END, self.end, 8)
        out.number(f.COLUMNS, self.columns, 4)
        out.number(f.CHUNK_BYTES, self.chunk_bytes, 4)
        out.number(f.DELIVERY_ID_MAX, self.number_max, 8)
        if self.cursor:
            out.text(f.CURSOR, self.cursor)
            out.number(f.CURSOR_EPOCH, self.epoch, 8)
        return encode_frame(READ, 0, self.flow_id, out.encoded(), b"")


@final
@dataclass(frozen=True)
class Reading:
    """The range is being read."""

    flow_id: int
    request_id: int
    incarnation: int  # of the spool: sequences of another one mean nothing here
    chunk_bytes: int  # in force

    def encode(self) -> bytes:
        """Return the frame."""
        out = FieldWriter()
        out.number(f.REQUEST_ID, self.request_id, 4)
        out.number(f.INCARNATION, self.incarnation, 8)
        out.number(f.CHUNK_BYTES, self.chunk_bytes, 4)
        return encode_frame(READ, RESPONSE, self.flow_id, out.encoded(), b"")


@final
class RowsReceived:
    """A chunk of a range: each of its sequences is a row or lies in a gap."""

    __slots__ = (
        "columns", "end_readable", "first", "flow_id", "gaps", "is_last", "next_sequence", "number", "partition",
    )  # fmt: skip

    def __init__(
        self,
        *,
        flow_id: int,
        number: int,
        first: int,
        next_sequence: int,
        end_readable: int,
        partition: int,
        is_last: bool,
        gaps: list[tuple[int, int, str]],
        columns: Columns,
    ) -> None:
        self.flow_id = flow_id
        self.number = number  # counts the chunks of this flow, from 1
        self.first = first
        self.next_sequence = next_sequence  # the range continues here
        self.end_readable = end_readable  # how far one may read at present
        self.partition = partition
        self.is_last = is_last
        self.gaps = gaps  # first, end (exclusive), reason
        self.columns = columns

    def __repr__(self) -> str:
        return (
            f"RowsReceived(flow {self.flow_id}, number {self.number}, {self.first} to {self.next_sequence} of "
            f"{self.end_readable}, partition {self.partition}, last={self.is_last}, {self.gaps}, {self.columns})"
        )


def write_rows(
    flow_id: int,
    number: int,
    *,
    first: int,
    next_sequence: int,
    end_readable: int,
    partition: int,
    is_last: bool,
    gaps: list[tuple[int, int, str]],
    count: int,
    columns: int,
    data: bytes,
) -> bytes:
    """Return a ROWS; `data` are its encoded columns."""
    flags = LAST if is_last else 0
    fixed = _FIXED.pack(number, first, next_sequence, end_readable, partition, count, columns, len(gaps), flags)
    parts = [fixed]
    parts += [_GAP.pack(start, stop, _GAP_NUMBERS.get(reason, 0)) for start, stop, reason in gaps]
    parts.append(data)
    return encode_frame(ROWS, 0, flow_id, b"", b"".join(parts))


def read_rows(frame: Frame, data: bytes) -> RowsReceived:
    """Return a ROWS. Raises PeerViolation."""
    body = data[frame.body_at : frame.end]  # a copy of its own, so that buffers are aligned and may be kept
    if len(body) < _FIXED.size:
        raise PeerViolation(MALFORMED, f"ROWS with a body of {len(body)} bytes; its fixed part has {_FIXED.size}")
    fixed: tuple[int, int, int, int, int, int, int, int, int] = _FIXED.unpack_from(body)
    number, first, next_sequence, end_readable, partition, count, columns, gaps_count, flags = fixed
    at = _FIXED.size + gaps_count * _GAP.size
    if at > len(body) or flags & ~LAST:
        raise PeerViolation(MALFORMED, f"ROWS with {gaps_count} gaps and flags {flags:#04x} in {len(body)} bytes")
    gaps: list[tuple[int, int, str]] = []
    for index in range(gaps_count):
        each: tuple[int, int, int] = _GAP.unpack_from(body, _FIXED.size + index * _GAP.size)
        reason = GAP_REASONS[each[2]] if each[2] < len(GAP_REASONS) else OTHER
        gaps.append((each[0], each[1], reason))
    return RowsReceived(
        flow_id=frame.flow_id,
        number=number,
        first=first,
        next_sequence=next_sequence,
        end_readable=end_readable,
        partition=partition,
        is_last=flags & LAST != 0,
        gaps=gaps,
        columns=read_columns(body, at, len(body), count=count, columns=columns),
    )


def read_read(frame: Frame, data: bytes) -> Read | Reading:
    """Return a READ, or the answer to one. Raises PeerViolation."""
    reader = control_fields(frame, data)
    request_id = reader.number_required(f.REQUEST_ID, 4)
    if frame.flags & RESPONSE:
        return Reading(
            frame.flow_id,
            request_id,
            reader.number_required(f.INCARNATION, 8),
            reader.number_required(f.CHUNK_BYTES, 4),
        )
    return Read(
        frame.flow_id,
        request_id,
        reader.text(f.NAME, NAME_BYTES_MAX),
        reader.number(f.PARTITION, 4, 0),
        reader.number_required(f.FIRST, 8),
        reader.number_required(f.END, 8),
        reader.number_required(f.COLUMNS, 4),
        reader.number(f.CHUNK_BYTES, 4, 0),
        reader.number(f.DELIVERY_ID_MAX, 8, 0),
        reader.text(f.CURSOR, NAME_BYTES_MAX),
        reader.number(f.CURSOR_EPOCH, 8, 0),
    )
