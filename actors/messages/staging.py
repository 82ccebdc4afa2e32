"""Requests to the staging actor. A transaction is identified by its name, the attempts of its parts by numbers."""

from dataclasses import dataclass

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.queues.definition import ANONYMOUS


@dataclass(slots=True)
class Stage:
    """Stage batches for a transaction: durable, but invisible to consumers. Answered with Staged when they are on disk.

    Raises StagingRefused: BAD_TRANSACTION, TOO_LARGE, TOO_MUCH_STAGED, BUSY, NOT_STORED, OF_ANOTHER.
    """

    transaction: str
    part: int
    attempt: int
    batches: list[MessageBatch]
    user: str = ANONYMOUS  # owner of the transaction, if this begins it


@dataclass(frozen=True, slots=True)
class Staged:
    """The batches are on disk. `already`: the transaction was committed before, and nothing was staged."""

    messages_count: int
    already: bool


@dataclass(slots=True)
class CommitStaged:
    """Publish exactly these attempts, one of each part, in the order of the parts. Answered with StagedCommitted.

    Raises StagingRefused: BAD_TRANSACTION, NOT_STAGED, BUSY, NOT_STORED, NOT_PUBLISHED (a queue refused),
    STAGE_DAMAGED, OF_ANOTHER. Then nothing was published, and what is staged stays.
    """

    transaction: str
    attempts: list[tuple[int, int]]  # part, attempt
    user: str = ANONYMOUS


@dataclass(frozen=True, slots=True)
class StagedCommitted:
    """Everything is published and safe. `already`: by an earlier commit of that name."""

    messages_count: int
    already: bool


@dataclass(slots=True)
class AbortStaged:
    """Drop what a transaction has staged. Answered with True when it is deleted, also from the disk.

    Answered with False if it was committed before: then it stays. Raises StagingRefused: BAD_TRANSACTION, BUSY,
    OF_ANOTHER.
    """

    transaction: str
    user: str = ANONYMOUS


@dataclass(slots=True)
class FinishDecided:
    """VPN -> staging: queues, subscriptions and definitions are restored; publish what was decided before the start."""


@dataclass(slots=True)
class DescribeStaging:
    """Ask of the staging actor; answered with a StagingOverview."""


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
