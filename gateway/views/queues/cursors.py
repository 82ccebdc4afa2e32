"""Views of the durable cursors of a queue."""

from dataclasses import dataclass
from enum import StrEnum


class CursorState(StrEnum):
    """The state of a durable cursor."""

    BOUND = "bound"  # a reader is connected
    UNBOUND = "unbound"  # its position is kept
    EXCEEDED = "exceeded"  # it exceeded its largest lag and was released: messages may stay unread


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorPartitionView:
    """The position of a cursor in one partition. All but the last field are sequences."""

    number: int
    low: int  # the first that can still be read
    acked: int  # everything before is acknowledged
    next_sequence: int  # behind the last one that can be read now
    lag_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorView:
    """One durable cursor of a queue."""

    name: str
    mode: str  # tap or consume
    state: CursorState
    epoch: int
    instance: str  # of the reader that holds the binding, or held it last
    batch_ref: str  # reference of its last acknowledgement
    lag_count: int  # sequences it has not acknowledged, gaps among them
    lag_bytes: int
    lag_bytes_max: int
    lag_time_ms_max: int  # 0: no such bound
    heartbeat_ms: int
    partitions: tuple[CursorPartitionView, ...]
