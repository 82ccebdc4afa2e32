"""What a node shows of those who read its spool in bulk: durable cursors, backups, and the spool itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sluicegate.actors.messages.operations import CANCELLED, DONE, FAILED, RUNNING

if TYPE_CHECKING:
    from sluicegate.actors.messages.readers import CursorOverview
    from sluicegate.actors.messages.staging import StagingOverview
    from sluicegate.gateway.node.node import Node


class CursorState(StrEnum):
    """How a durable cursor is doing."""

    BOUND = "bound"  # somebody reads
    UNBOUND = "unbound"  # its position is kept
    EXCEEDED = "exceeded"  # it lagged more than it may and was let go: messages may go unread


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorPartitionView:
    """Where a cursor stands in one partition. All but the last are sequences."""

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
    instance: str  # who holds the binding, or held it last
    batch_ref: str  # what it called its last acknowledgement
    lag_count: int  # sequences it has not acknowledged, gaps among them
    lag_bytes: int
    lag_bytes_max: int
    lag_time_ms_max: int  # 0: no such bound
    heartbeat_ms: int
    partitions: tuple[CursorPartitionView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolView:
    """The spool: sequences mean something within one incarnation of it only."""

    incarnation: str  # 16 hex digits: JSON numbers are not safe beyond 53 bits
    used_bytes: int
    limit_bytes: int
    messages_bytes: int  # payload of what waits in all durable queues
    messages_bytes_max: int  # their quota together
    blocked: str  # why it takes no messages, or empty
    staged_bytes: int  # of transactions that are not committed
    transactions_open: int
    messages_count: int  # that wait in all durable queues
    messages_count_max: int
    unacked_count: int  # that consumers hold unsettled
    unacked_count_max: int
    memory_bytes: int  # of messages in memory
    memory_bytes_max: int
    file_bytes: int  # the data file; what it has and does not use is used again
    disk_free_bytes: int
    journal_records: int
    pages: int
    quarantined: int  # damaged records that are kept aside


class BackupState(StrEnum):
    """What has become of a backup."""

    RUNNING = RUNNING
    DONE = DONE
    CANCELLED = CANCELLED  # nothing of it is left
    FAILED = FAILED  # nothing of it is left


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupView:
    """The latest backup, and how far it has come."""

    name: str
    folder: str  # on the machine of the node
    state: BackupState
    started_ms: int  # wall clock: what was confirmed before is in it
    ended_ms: int | None = None
    written_bytes: int = 0
    expected_bytes: int = 0  # about
    failure: str = ""


def incarnation_text(incarnation: int) -> str:
    """Return an incarnation as it is shown."""
    return f"{incarnation:016x}"


def cursor_view(overview: "CursorOverview") -> CursorView:
    """Return a cursor as operators see it."""
    state = CursorState.BOUND if overview.bound else CursorState.UNBOUND
    return CursorView(
        name=overview.name,
        mode=overview.mode,
        state=CursorState.EXCEEDED if overview.exceeded else state,
        epoch=overview.epoch,
        instance=overview.instance,
        batch_ref=overview.batch_ref,
        lag_count=sum(max(0, each.next_sequence - each.acked) for each in overview.positions),
        lag_bytes=sum(each.lag_bytes for each in overview.positions),
        lag_bytes_max=overview.limits.lag_bytes_max,
        lag_time_ms_max=overview.limits.lag_time_ms_max,
        heartbeat_ms=overview.limits.heartbeat_ms,
        partitions=tuple(
            CursorPartitionView(
                number=each.number,
                low=each.low,
                acked=each.acked,
                next_sequence=each.next_sequence,
                lag_bytes=each.lag_bytes,
            )
            for each in overview.positions
        ),
    )


def spool_view(node: "Node", staging: "Sequence[StagingOverview]") -> SpoolView:
    """Return the spool as operators see it; `staging` is that of every message VPN."""
    usage = node.store.usage()
    return SpoolView(
        incarnation=incarnation_text(node.recovered.incarnation),
        used_bytes=usage.used_bytes,
        limit_bytes=usage.map_bytes_max,
        messages_bytes=node.spool_gate.usage_bytes,
        messages_bytes_max=node.spool_gate.usage_bytes_max,
        blocked=node.spool_gate.blocked,
        staged_bytes=sum(each.staged_bytes for each in staging),
        transactions_open=sum(each.open_count for each in staging),
        messages_count=node.spool_gate.usage_count,
        messages_count_max=node.spool_gate.usage_count_max,
        unacked_count=node.credit.used,
        unacked_count_max=node.credit.limit,
        memory_bytes=node.memory.used_bytes,
        memory_bytes_max=node.memory.bytes_max,
        file_bytes=usage.file_bytes,
        disk_free_bytes=usage.disk_free_bytes,
        journal_records=usage.journal_entries,
        pages=usage.page_entries,
        quarantined=usage.quarantine_entries,
    )
