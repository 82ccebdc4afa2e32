"""Requests of operators for single messages of a queue, and the answers. One covers a bounded part of one partition."""

from dataclasses import dataclass, field
from typing import Final

from sluicegate.messaging.queues.message_filter import MessageFilter
from sluicegate.messaging.routing.destinations import QueueTarget

DELETE = "delete"
MOVE = "move"
COPY = "copy"
REDRIVE = "redrive"  # to the queue where each one died, or to `to`, as they were published


class QueueGone(Exception):
    """The queue was deleted, or its node stopped, before everything was done."""


@dataclass(slots=True)
class TakeMessages:
    """Ask of a queue, passed on to a partition. Answered with MessagesTaken, or QueueGone is raised.

    With `sequences`, these messages; else what the filter matches in `[first, end)`. Messages that consumers hold are
    left alone, except for copies.
    """

    action: str
    partition_number: int
    sequences: list[int] | None  # ascending
    first: int
    end: int
    message_filter: MessageFilter
    limit: int  # maximum number of messages
    to: str  # name of a durable queue, here or at another broker; empty: the messages name it, or there is none


@dataclass(slots=True)
class MessagesTaken:
    """The result. `next_sequence` is where to continue; at `end`, everything was examined."""

    next_sequence: int = 0
    done_count: int = 0
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> matching messages that stay
    not_found: list[int] = field(default_factory=list)  # of the requested sequences


# --- moving a queue to another broker ---


@dataclass(slots=True)
class HandOver:
    """Ask of a queue, passed on to a partition: put its oldest messages into the queue of a link, for a queue there.

    Answered with HandedOver when that is stored, or QueueGone is raised.
    """

    partition_number: int
    queue: str  # its name at the neighbor
    target: QueueTarget  # the link queue
    limit: int  # maximum number of messages


@dataclass(slots=True)
class HandedOver:
    """The result. What could not go holds up everything behind it; empty: nothing was held up."""

    count: int = 0
    held_up_by: str = ""


# --- explaining where messages are ---


@dataclass(slots=True)
class ExplainKey:
    """Ask of a partition, or of a queue that asks its partition: explain a key. Answered with a KeyStatus."""

    key: str
    partition_number: int


# --- backups ---


RUNNING: Final = "running"
DONE: Final = "done"
CANCELLED: Final = "cancelled"
FAILED: Final = "failed"


class BackupUnavailable(Exception):
    """The request cannot be met now: a backup is running already, or there was none."""


@dataclass(slots=True)
class StartBackup:
    """Ask: make a backup under this name, in the form of backup_folder.NAME_FORM.

    Answered with BackupProgress; raises BackupUnavailable while another one is running.
    """

    name: str


@dataclass(slots=True)
class DescribeBackup:
    """Ask: the latest backup. Answered with BackupProgress; raises BackupUnavailable when there was none."""


@dataclass(slots=True)
class CancelBackup:
    """Ask: cancel the backup that is running, if one is. Answered like DescribeBackup, when it has ended."""


@dataclass(frozen=True, slots=True)
class BackupProgress:
    """The progress of the latest backup."""

    name: str
    folder: str
    state: str
    started_ms: int  # wall clock; what was confirmed before is in the backup
    ended_ms: int  # 0: it is running
    written_bytes: int
    expected_bytes: int  # an estimate
    failure: str
