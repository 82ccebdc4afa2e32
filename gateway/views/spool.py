"""Views of durable cursors, backups, and the spool."""

from dataclasses import dataclass
from enum import StrEnum

from sluicegate.actors.messages.operations import CANCELLED, DONE, FAILED, RUNNING


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolView:
    """The spool. Sequences are valid within one incarnation of it only."""

    incarnation: str  # 16 hex digits: JSON numbers are not safe beyond 53 bits
    used_bytes: int
    limit_bytes: int
    messages_bytes: int  # payload of the messages in all durable queues
    messages_bytes_max: int  # their quota together
    blocked: str  # why it accepts no messages; empty: it does
    staged_bytes: int  # of transactions that are not committed
    transactions_open: int
    messages_count: int  # in all durable queues
    messages_count_max: int
    unacked_count: int  # unsettled, held by consumers
    unacked_count_max: int
    memory_bytes: int  # of messages in memory
    memory_bytes_max: int
    file_bytes: int  # the data file and the log; their unused space is used again
    disk_free_bytes: int
    log_bytes: int  # what a start reads of the log
    journal_records: int  # records in that part of the log
    pages: int
    quarantined: int  # damaged records that are kept aside


class BackupState(StrEnum):
    """The state of a backup."""

    RUNNING = RUNNING
    DONE = DONE
    CANCELLED = CANCELLED  # its files are removed
    FAILED = FAILED  # its files are removed


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupView:
    """The latest backup, and how far it has come."""

    name: str
    folder: str  # on the machine of the node
    state: BackupState
    started_ms: int  # wall clock: it contains everything confirmed before
    ended_ms: int | None = None
    written_bytes: int = 0
    expected_bytes: int = 0  # about
    failure: str = ""


def incarnation_text(incarnation: int) -> str:
    """Return an incarnation as it is shown."""
    return f"{incarnation:016x}"
