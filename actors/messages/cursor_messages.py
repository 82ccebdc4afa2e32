"""What is asked of the directory of durable cursors, and what it answers. Ends of ranges are exclusive."""

from dataclasses import dataclass

from sluicegate.messaging.bulk.durable_cursors import EARLIEST, LIMITS_DEFAULT, CursorLimits
from sluicegate.messaging.message.address import Address

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
class HearCursor:
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
