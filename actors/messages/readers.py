"""Requests of range readers, durable cursors and replays to a partition. Each goes through the partition's queue."""

from dataclasses import dataclass

from sluicegate.messaging.bulk.durable_cursors import EARLIEST, LIMITS_DEFAULT, CursorLimits
from sluicegate.messaging.bulk.range_reads import RangeRun
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.partitions.state.gaps import Gap


class PartitionRequest:
    """Something the reading side of a partition answers; see actors.partitions.range_reads."""


@dataclass(slots=True)
class AskPartitions:
    """Ask of a queue: put a request to one of its partitions, or to all. Answered with the list of their answers.

    Raises LookupError when there is no partition of that number.
    """

    number: int | None
    request: PartitionRequest


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
    """The messages from `first` up to `next_sequence`: each sequence is in a run or in a gap. To go on, ask from there.

    `synced_end` is how far one may read at present; a chunk without runs and gaps ends there.
    """

    partition_number: int
    first: int
    next_sequence: int
    synced_end: int
    runs: list[RangeRun]
    gaps: list[Gap]


class ReadFailed(Exception):
    """The store cannot be read now: that says nothing about the messages. Ask again later."""


@dataclass(slots=True)
class FindRangeEnd(PartitionRequest):
    """Where does a range from `first` end that has at most so much payload, and so many messages? 0: no such bound.

    Answered with a sequence, which is `first` where nothing comes any more. No payload is read: bytes are exact at the
    bounds of batches and pages, by average within them; of messages each counts that was stored, settled or not.
    """

    first: int
    bytes_max: int
    rows_max: int


@dataclass(slots=True)
class DescribeLog(PartitionRequest):
    """Answered with a LogOverview."""


@dataclass(frozen=True, slots=True)
class HoldOverview:
    """What a partition keeps for one reader."""

    sequence: int  # it needs everything from here on
    lag_bytes: int  # payload of what is in the store from there on
    oldest_ms: int  # wall clock, when the oldest of it arrived; 0: there is none, or it is not known


@dataclass(frozen=True, slots=True)
class LogOverview:
    """What may be read of a partition."""

    number: int
    partition_id: int
    low: int  # the first sequence that is still there
    synced_end: int  # behind the last one that is in the store
    next_sequence: int
    bytes_end: int  # usage bytes that ever came into the log
    holds: dict[str, HoldOverview]


@dataclass(slots=True)
class HoldLog(PartitionRequest):
    """Keep everything from `sequence` on for a reader; None: it needs nothing any more. Answered with a LogOverview."""

    reader: str
    sequence: int | None


@dataclass(slots=True)
class ReplayQueue:
    """Ask of a queue: offer settled messages that it still keeps to its consumers again. Answered with how many.

    `number` is a partition, None all of them. It begins at the sequence `first`, or where `since_ms` is not 0 with what
    arrived then (wall clock; at most one page earlier), and ends before `end`. Raises ReplayRefused.
    """

    number: int | None
    first: int
    since_ms: int
    end: int


class ReplayRefused(Exception):
    """The queue keeps nothing, or a durable cursor consumes it."""


@dataclass(slots=True)
class PrepareReplay(PartitionRequest):
    """Choose what to offer again when the ledger is made anew. Answered with how many settled messages that is."""

    first: int
    since_ms: int
    end: int


@dataclass(slots=True)
class ConsumeThrough(PartitionRequest):
    """The exclusive reader of the queue is done with everything before `end`. Answered with how many that settled."""

    end: int


# What is asked of the directory of durable cursors, and what it answers. Ends of ranges are exclusive.


STATUS_WAIT_MS_MAX = 60_000


@dataclass(slots=True)
class BindCursor:
    """Begin to read a queue, or go on. Fences any earlier binding of that cursor. Answered with a CursorBound.

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
    """Where a cursor stands in one partition."""

    number: int
    partition_id: int
    low: int  # the first sequence that can still be read
    acked: int  # everything before is acknowledged
    next_sequence: int  # behind the last one that can be read now
    lag_bytes: int  # payload from `acked` to `next_sequence`


@dataclass(frozen=True, slots=True)
class CursorBound:
    """The binding is live."""

    epoch: int
    incarnation: int  # of the spool: sequences of another one mean nothing here
    positions: list[CursorPosition]


@dataclass(slots=True)
class AckCursor:
    """Everything before these sequences is done with, by partition number. Lower ones than before change nothing.

    Answered with the list of CursorPosition once that is stored. Raises CursorFenced; CursorRefused: NO_SUCH_CURSOR,
    NO_SUCH_PARTITION, AHEAD of what can be read, BAD_CURSOR (the reference is too long), NOT_STORED.
    """

    queue: str
    cursor: str
    epoch: int
    upto: dict[int, int]
    batch_ref: str = ""


@dataclass(slots=True)
class PinCursor:
    """Keep what lies before these ends, by partition number, until it is acknowledged, whatever the lag; {}: unpin.

    Answered with None. Raises as AckCursor does.
    """

    queue: str
    cursor: str
    epoch: int
    ends: dict[int, int]


@dataclass(slots=True)
class CursorStatus:
    """How far may be read? Answered with the list of CursorPosition.

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
    """Ask: is this binding the live one? Answered with None, and counts as a heartbeat. Raises as CursorStatus does."""

    queue: str
    cursor: str
    epoch: int


@dataclass(slots=True)
class UnbindCursor:
    """End a binding; the position stays. Answered with None. Raises CursorRefused: NO_SUCH_CURSOR, NOT_STORED.

    One whose end is not stored has ended all the same, and comes back with a restart, until it was silent for long.
    """

    queue: str
    cursor: str
    epoch: int


@dataclass(slots=True)
class DeleteCursor:
    """Forget a cursor and its position. Answered with None. Raises CursorRefused: NO_SUCH_CURSOR, NOT_STORED."""

    queue: str
    cursor: str


@dataclass(slots=True)
class ListCursors:
    """Answered with a list of CursorOverview: of one queue, or with None of all."""

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

    Raises BindRefused while flows are bound, or another cursor has it.
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
    """Spool -> directory of cursors, partition: something came to be in the store."""
