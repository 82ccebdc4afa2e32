"""Requests of range readers, durable cursors and replays to a partition. Each goes through the partition's queue."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from sluicegate.messaging.bulk.durable_cursors import EARLIEST, LIMITS_DEFAULT, CursorLimits
from sluicegate.messaging.bulk.range_reads import RangeRun
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.partitions.state.segments import Gap


class PartitionRequest:
    """A request to the reading side of a partition; see actors.partitions.range_reads."""


@dataclass(slots=True)
class AskPartitions:
    """Ask of a queue: put a request to one of its partitions, or to all. Answered with the list of their answers.

    Raises NoSuchPartition.
    """

    number: int | None
    request: PartitionRequest


class NoSuchPartition(LookupError):
    """A queue has no partition of that number, or not any more."""


@dataclass(slots=True)
class ReadRange(PartitionRequest):
    """Read a chunk of the sequences `[first, end)`, about `bytes_max` of payload. Answered with a RangeChunk.

    Raises ReadFailed.
    """

    first: int
    end: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class RangeChunk:
    """The messages from `first` up to `next_sequence`, where the next chunk begins: each is in a run or in a gap.

    `synced_end` is the end of what may be read at present; a chunk without runs and gaps ends there.
    """

    partition_number: int
    first: int
    next_sequence: int
    synced_end: int
    runs: list[RangeRun]
    gaps: list[Gap]


class ReadFailed(Exception):
    """The store cannot be read now; the messages may be intact. Retry later."""


@dataclass(slots=True)
class FindRangeEnd(PartitionRequest):
    """Ask for the end of a range from `first` of at most this much payload and this many messages. 0: no such bound.

    Answered with a sequence, which is `first` where no message follows. No payload is read: bytes are exact at the
    bounds of batches and pages, by average within them; every message that was stored counts, settled or not.
    """

    first: int
    bytes_max: int
    rows_max: int


@dataclass(slots=True)
class DescribeLog(PartitionRequest):
    """Ask for the log of a partition. Answered with a LogOverview."""


@dataclass(frozen=True, slots=True)
class HoldOverview:
    """The messages that a partition keeps for one reader."""

    sequence: int  # it needs everything from here on
    lag_bytes: int  # stored payload from there on
    oldest_ms: int  # wall clock, when the oldest of it arrived; 0: nothing is kept, or unknown


@dataclass(frozen=True, slots=True)
class LogOverview:
    """The readable part of a partition."""

    number: int
    partition_id: int
    low: int  # the first sequence that still exists
    synced_end: int  # the end of what is stored
    next_sequence: int
    bytes_end: int  # usage bytes appended to the log so far
    holds: dict[str, HoldOverview]


@dataclass(slots=True)
class HoldLog(PartitionRequest):
    """Keep everything from `sequence` on for a reader; None: it needs nothing any more. Answered with a LogOverview."""

    reader: str
    sequence: int | None


@dataclass(slots=True)
class ReplayQueue:
    """Ask of a queue: deliver settled messages that it still keeps to its consumers again. Answered with the number.

    `number` is a partition, None all of them. The range begins at the sequence `first`, or where `since_ms` is not 0
    with what arrived then (wall clock; at most one page earlier), and ends before `end`. Raises ReplayRefused.
    """

    number: int | None
    first: int
    since_ms: int
    end: int


class ReplayRefused(Exception):
    """The queue keeps nothing, or a durable cursor consumes it."""


@dataclass(slots=True)
class PrepareReplay(PartitionRequest):
    """Choose the messages to deliver again when the ledger is reloaded. Answered with the number of settled ones."""

    first: int
    since_ms: int
    end: int


@dataclass(slots=True)
class ConsumeThrough(PartitionRequest):
    """The exclusive reader of the queue has consumed everything before `end`. Answered with the number settled."""

    end: int


# Requests to the directory of durable cursors, and its answers. Ends of ranges are exclusive.


STATUS_WAIT_MS_MAX = 60_000


@dataclass(slots=True)
class BindCursor:
    """Begin to read a queue, or continue. Fences any earlier binding of that cursor. Answered with a CursorBound.

    A new cursor begins at `start`: `earliest` or `latest`. Raises CursorRefused: BAD_CURSOR, NO_SUCH_QUEUE,
    NOT_DURABLE, MODE_DIFFERS, TOO_MANY, QUEUE_IN_USE (mode consume, while consumers are bound), NOT_STORED.
    """

    queue: str
    cursor: str
    mode: str
    instance: str
    start: str = EARLIEST
    limits: CursorLimits = LIMITS_DEFAULT


@dataclass(frozen=True, slots=True)
class CursorPosition:
    """The position of a cursor in one partition."""

    number: int
    partition_id: int
    low: int  # the first sequence that can still be read
    acked: int  # everything before is acknowledged
    next_sequence: int  # the end of what can be read now
    lag_bytes: int  # payload from `acked` to `next_sequence`


@dataclass(frozen=True, slots=True)
class CursorBound:
    """The binding is live."""

    epoch: int
    incarnation: int  # of the spool: sequences of another incarnation are not comparable
    positions: list[CursorPosition]


@dataclass(slots=True)
class AckCursor:
    """Acknowledge everything before these sequences, by partition number. Lower ones than before have no effect.

    Answered with the list of CursorPosition when stored. Raises CursorFenced; CursorRefused: NO_SUCH_CURSOR,
    NO_SUCH_PARTITION, AHEAD of what can be read, BAD_CURSOR (the reference is too long), NOT_STORED.
    """

    queue: str
    cursor: str
    epoch: int
    upto: dict[int, int]
    batch_ref: str = ""


@dataclass(slots=True)
class PinCursor:
    """Keep everything before these ends, by partition number, until it is acknowledged, whatever the lag; {}: unpin.

    Answered with None. Raises as AckCursor does.
    """

    queue: str
    cursor: str
    epoch: int
    ends: dict[int, int]


@dataclass(slots=True)
class CursorStatus:
    """Ask how far a cursor may read. Answered with the list of CursorPosition.

    The answer comes when `next_sequence` of some partition is above `above` (by number; absent: 0), and at the latest
    after `wait_ms`, which is cut to STATUS_WAIT_MS_MAX.

    Counts as a heartbeat. Raises CursorFenced, CursorRefused.
    """

    queue: str
    cursor: str
    epoch: int
    wait_ms: int
    above: dict[int, int]


@dataclass(slots=True)
class HeartbeatCursor:
    """Ask whether this binding is live. Answered with None, and counts as a heartbeat. Raises as CursorStatus."""

    queue: str
    cursor: str
    epoch: int


@dataclass(slots=True)
class UnbindCursor:
    """End a binding; the position stays. Answered with None. Raises CursorRefused: NO_SUCH_CURSOR, NOT_STORED.

    A binding whose end is not stored has ended all the same; after a restart it exists again until its heartbeat is
    late.
    """

    queue: str
    cursor: str
    epoch: int


@dataclass(slots=True)
class DeleteCursor:
    """Delete a cursor and its position. Answered with None. Raises CursorRefused: NO_SUCH_CURSOR, NOT_STORED."""

    queue: str
    cursor: str


@dataclass(slots=True)
class LookAtCursor:
    """Ask how a cursor stands, whoever has bound it. Answered with a CursorSeen; counts as no heartbeat.

    Raises CursorRefused: NO_SUCH_CURSOR.
    """

    queue: str
    cursor: str


@dataclass(frozen=True, slots=True)
class CursorSeen:
    """A cursor as other readers see it."""

    epoch: int
    batch_ref: str
    positions: list[CursorPosition]


@dataclass(slots=True)
class ListCursors:
    """Answered with a list of CursorOverview: of one queue, or with None of all queues."""

    queue: str | None


@dataclass(frozen=True, slots=True)
class CursorOverview:
    """One durable cursor as operators see it."""

    queue: str
    name: str
    mode: str
    epoch: int
    bound: bool
    instance: str
    batch_ref: str
    exceeded: bool
    limits: CursorLimits
    positions: list[CursorPosition]


@dataclass(slots=True)
class ReserveQueue:
    """Ask of a queue: bind no flow from now on, for a cursor is its only consumer. Answered with None.

    Raises BindRefused while flows are bound, or another cursor has reserved it.
    """

    cursor: str


@dataclass(slots=True)
class ReleaseQueue:
    """Directory of cursors -> queue: flows may bind again."""

    cursor: str


@dataclass(slots=True)
class WatchCommits:
    """Directory of cursors, partition -> spool: post CommitSeen after each commit, or no longer."""

    address: Address
    on: bool


@dataclass(slots=True)
class CommitSeen:
    """Spool -> directory of cursors, partition: new rows are in the store."""


# A queue of a neighbor broker: there its requests are carried out.


ReaderRequest: TypeAlias = (
    AskPartitions
    | BindCursor
    | AckCursor
    | PinCursor
    | CursorStatus
    | HeartbeatCursor
    | UnbindCursor
    | DeleteCursor
    | LookAtCursor
)


@dataclass(slots=True)
class AskHome:
    """Ask of a queue of a neighbor: carry out a request there, with the rights of a user of this broker.

    Of requests to partitions it takes ReadRange, FindRangeEnd and DescribeLog. Answered as the request is at its own
    broker; an overview of a log says nothing of holds. Raises what the request raises, and ReaderRefused: AWAY as well
    when the neighbor has another spool than the one whose incarnation the asker knows.
    """

    user: str
    request: ReaderRequest
    incarnation: int  # of the neighbor's spool, in which the sequences of the request are valid


AWAY: Final = "away"  # the link is down; it makes sense to ask again
UNSERVED: Final = "unserved"  # the queue's broker has a release that does not know the request
BUSY: Final = "busy"  # the queue's broker has too many requests of this one; it makes sense to ask again
DENIED: Final = "denied"  # the user lacks a right to the queue
GONE: Final = "gone"  # the queue was deleted
TOO_LARGE: Final = "too_large"  # a message or an answer that no frame of the link takes
FAILED: Final = "failed"  # a fault of the queue's broker, whose log says more


class ReaderRefused(Exception):
    """A request to a queue of a neighbor was not carried out. `code` is one of those above, or of a later release."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
