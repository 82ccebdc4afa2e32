"""What operators ask of single messages of a queue, and the answer. One ask covers a bounded part of one partition."""

from dataclasses import dataclass, field
from typing import Final

from sluicegate.messaging.queues.message_filter import MessageFilter
from sluicegate.messaging.routing.destinations import QueueTarget

DELETE = "delete"
MOVE = "move"
COPY = "copy"
REDRIVE = "redrive"  # back to where each one died, or to `target`, as they were published


class QueueGone(Exception):
    """The queue was deleted, or its node stops, before everything was done."""


@dataclass(slots=True)
class TakeMessages:
    """Ask of a queue, passed on to a partition. Answered with MessagesTaken, or QueueGone is raised.

    With `sequences`, those; else what the filter matches of `[first, end)`. What a consumer holds is left alone, but
    for copies.
    """

    action: str
    partition_number: int
    sequences: list[int] | None  # ascending
    first: int
    end: int
    message_filter: MessageFilter
    limit: int  # most messages to do it to
    target: QueueTarget | None  # None: the messages say where to, or nowhere


@dataclass(slots=True)
class MessagesTaken:
    """What was done. `next_sequence` is where to go on; at `end`, everything was looked at."""

    next_sequence: int = 0
    done_count: int = 0
    kept: dict[str, int] = field(default_factory=dict)  # reason -> messages that were meant and stay
    not_found: list[int] = field(default_factory=list)  # of the sequences asked for


# --- explaining where messages are ---


@dataclass(slots=True)
class ExplainKey:
    """Ask of a partition, or of a queue that asks its partition: where a key stands. Answered with a KeyStatus."""

    key: str
    partition_number: int


# --- backups ---


RUNNING: Final = "running"
DONE: Final = "done"
CANCELLED: Final = "cancelled"
FAILED: Final = "failed"


class BackupUnavailable(Exception):
    """What was asked for cannot be done now: one is running already, or there was none."""


@dataclass(slots=True)
class StartBackup:
    """Ask: make a backup under this name, a form that backup_folder.NAME_FORM has.

    Answered with BackupProgress; BackupUnavailable is raised while another one is running.
    """

    name: str


@dataclass(slots=True)
class DescribeBackup:
    """Ask: the latest backup. Answered with BackupProgress, or BackupUnavailable is raised when there was none."""


@dataclass(slots=True)
class CancelBackup:
    """Ask: end the backup that is running, if one is. Answered like DescribeBackup, once it has ended."""


@dataclass(frozen=True, slots=True)
class BackupProgress:
    """How far the latest backup has come."""

    name: str
    folder: str
    state: str
    started_ms: int  # wall clock; what was confirmed before is in it
    ended_ms: int  # 0: it runs
    written_bytes: int
    expected_bytes: int  # about
    failure: str
