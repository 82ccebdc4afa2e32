"""Requests to the staging actor. A transaction is identified by its name, attempts of its parts by numbers."""

from dataclasses import dataclass

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.queues.definition import ANONYMOUS


@dataclass(slots=True)
class Stage:
    """Keep batches for a transaction: durable, and seen by nobody. Answered with Staged once they are on the disk.

    Raises StagingRefused: BAD_TRANSACTION, TOO_LARGE, TOO_MUCH_STAGED, BUSY, NOT_STORED, OF_ANOTHER.
    """

    transaction: str
    part: int
    attempt: int
    batches: list[MessageBatch]
    user: str = ANONYMOUS  # whose transaction it is, if this begins it


@dataclass(frozen=True, slots=True)
class Staged:
    """The batches are on the disk. `already`: the transaction was committed before, and nothing was kept."""

    messages_count: int
    already: bool


@dataclass(slots=True)
class CommitStaged:
    """Publish exactly these attempts, one of each part, in the order of the parts. Answered with StagedCommitted.

    Raises StagingRefused: BAD_TRANSACTION, NOT_STAGED, BUSY, NOT_STORED, NOT_PUBLISHED (a queue would not take it),
    STAGE_DAMAGED, OF_ANOTHER. Then nothing was published, and what is staged stays.
    """

    transaction: str
    attempts: list[tuple[int, int]]  # part, attempt
    user: str = ANONYMOUS


@dataclass(frozen=True, slots=True)
class StagedCommitted:
    """Everything is published and safe. `already`: it was before, by an earlier commit of that name."""

    messages_count: int
    already: bool


@dataclass(slots=True)
class AbortStaged:
    """Drop what a transaction has staged. Answered with whether it is gone, also from the disk; False: it was committed
    before, and stays.

    Raises StagingRefused: BAD_TRANSACTION, BUSY, OF_ANOTHER.
    """

    transaction: str
    user: str = ANONYMOUS


@dataclass(slots=True)
class FinishDecided:
    """VPN -> staging: queues, subscriptions and definitions are back; publish what was decided before the start."""


@dataclass(slots=True)
class DescribeStaging:
    """Answered with a StagingOverview."""


@dataclass(frozen=True, slots=True)
class StagingOverview:
    """The figures of all transactions."""

    open_count: int
    committing_count: int
    staged_bytes: int
    staged_pages_count: int
    committed_names_count: int
    committed_count: int  # since the start
    aborted_count: int
    expired_count: int
