"""Requests to the spool and to the threads that read the store, and their answers."""

from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.paging import PagePlan
from sluicegate.messaging.partitions.recovery import StoredPartition
from sluicegate.storage.interface import TableWrite


@dataclass(slots=True)
class WriteTables:
    """Write rows of the catalog, the retained messages or the session table.

    Answered to `reply_to` with Confirmed or PublishFailed of `token`; without `reply_to` there is no answer. With
    `until_done` the rows go into every commit until one succeeds: they make room. Then PublishFailed comes only when
    the store has failed, not for lack of room, and the rows are still written if the store recovers. `left` is called
    with an empty reason when the rows are written, or with another when they never will be. `staged` are messages that
    the same commit stores. With `uses_reserve` a full store takes the rows, because they lead to deletions.
    """

    writes: list[TableWrite]
    reply_to: Address | None
    token: int
    until_done: bool = False
    left: Callable[[str], None] | None = None
    staged: "StagedMessages | None" = None
    uses_reserve: bool = False


@dataclass(slots=True)
class StagedMessages:
    """Messages that are stored for the first time, as a page of a partition."""

    partition_id: int
    plan: PagePlan


@dataclass(slots=True)
class PurgeFromStore:
    """Queue -> spool: a partition is deleted with all its pages."""

    partition_id: int


@dataclass(slots=True)
class RegisterPartition:
    """Queue -> spool: a partition exists; account for it, and reserve sequences for it."""

    partition_id: int
    partition: Address
    next_sequence: int


@dataclass(slots=True)
class ReloadPartition:
    """Partition -> spool: its ledger is lost. Answered to the queue with PartitionStored when all before is written."""

    partition_id: int
    partition_number: int
    queue: Address


@dataclass(slots=True)
class PartitionStored:
    """Spool -> queue: the stored state of a partition that asked for it; None when it could not be read."""

    partition_number: int
    stored: StoredPartition | None


@dataclass(slots=True)
class Readopted:
    """Partition -> spool: these publications, read from the journal, are needed again as objects of their own."""

    publications: list[Publication]


# --- pages ---


@dataclass(slots=True)
class WritePages:
    """Move messages into pages by the next checkpoint. Answered with PagesWritten when they are safe."""

    partition: Address
    partition_id: int
    plans: list[PagePlan]


@dataclass(slots=True)
class PagesWritten:
    """Spool -> partition: the pages are safe; or, when `plans` did not fit, `failed` is set and nothing changed."""

    plans: list[PagePlan]
    failed: bool


@dataclass(slots=True)
class ReadPage:
    """Partition -> spool reader: read a page. Answered with PageRead."""

    partition: Address
    partition_id: int
    first_sequence: int


@dataclass(slots=True)
class PageRead:
    """Spool reader -> partition: the runs of a page, or why it cannot be read."""

    first_sequence: int
    runs: list[tuple[int, MessageBatch]]
    damage: str  # empty when the page was read
    failed: bool = False  # the store could not be read: the page may be intact
    lost: str = ""  # what could not be read of the page, beside `runs`


@dataclass(slots=True)
class PagesUnread:
    """Spool reader -> spool: pages of a partition cannot be read, for a new reason, or can be read again."""

    partition_id: int
    reason: str  # empty: they can be read again
    is_damage: bool = False  # LMDB's own pages are broken
    mistake: Exception | None = None  # with its traceback, for the log


@dataclass(slots=True)
class SetPageAside:
    """Partition -> spool: this page cannot be read; store its bytes in quarantine.

    With `stays` some of it can be read, and is served from its place.
    """

    partition_id: int
    first_sequence: int
    damage: str
    stays: bool = False
