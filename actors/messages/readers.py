"""What is asked of a partition by readers of ranges, durable cursors and replays. Each goes through its queue."""

from dataclasses import dataclass

from sluicegate.messaging.bulk.range_reads import RangeRun
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
class CutRange(PartitionRequest):
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
