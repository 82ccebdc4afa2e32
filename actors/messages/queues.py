"""What the broker's actors say to each other. Each message names who sends it, to whom, and what comes back.

Nobody blocks on an answer. Messages on the data path carry batches and ranges, never single messages. What is said to
the directory of queues is in `directory_messages`, to the router in `router_messages`; the data path is in
`data_messages`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, final

from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.paging import PagePlan
from sluicegate.messaging.partitions.recovery import StoredPartition
from sluicegate.messaging.partitions.state.flows import UNBOUNDED, Flow
from sluicegate.messaging.queues.assignment.slots import Rescale
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.messaging.queues.definition import QueueConfig
from sluicegate.messaging.selectors.selector import Selector
from sluicegate.storage.interface import TableWrite

Key = TypeVar("Key")


def _add(totals: dict[Key, int], counts: dict[Key, int]) -> None:
    for key, count in counts.items():
        totals[key] = totals.get(key, 0) + count


@final
@dataclass(slots=True)
class QueueTotals:
    """Counts of one queue, of part of it, or of several. None of them ever falls."""

    accepted_count: int = 0
    delivered_count: int = 0
    redelivered_count: int = 0
    settled_count: int = 0
    annotations_lost_count: int = 0
    lock_losses_count: int = 0
    rebalances_count: int = 0
    bind_refusals: dict[str, int] = field(default_factory=dict)  # reason -> binds
    discards: dict[str, int] = field(default_factory=dict)  # reason -> messages
    buried: dict[str, int] = field(default_factory=dict)  # reason -> messages

    def add(self, totals: "QueueTotals") -> None:
        """Count what others have counted."""
        self.accepted_count += totals.accepted_count
        self.delivered_count += totals.delivered_count
        self.redelivered_count += totals.redelivered_count
        self.settled_count += totals.settled_count
        self.annotations_lost_count += totals.annotations_lost_count
        self.lock_losses_count += totals.lock_losses_count
        self.rebalances_count += totals.rebalances_count
        _add(self.bind_refusals, totals.bind_refusals)
        _add(self.discards, totals.discards)
        _add(self.buried, totals.buried)

    def add_partition(self, overview: "PartitionOverview") -> None:
        """Count what a partition has counted."""
        self.delivered_count += overview.delivered_count
        self.redelivered_count += overview.redelivered_count
        self.settled_count += overview.settled_count
        self.annotations_lost_count += overview.annotations_lost_count
        self.lock_losses_count += overview.lock_losses_count
        _add(self.discards, overview.discards)
        _add(self.buried, overview.buried)


# --- queue <-> partition ---


@dataclass(slots=True)
class Attach:
    """Queue -> partition: deliver to this flow from now on."""

    flow: Flow
    epoch: int


@dataclass(slots=True)
class Pause:
    """Queue -> partition: deliver nothing more to this flow. Answered by PartitionDrained when it holds nothing."""

    flow_id: int
    epoch: int


@dataclass(slots=True)
class Detach:
    """Queue -> partition: take back what this flow holds."""

    flow_id: int
    count_as_failed: bool


@dataclass(slots=True)
class PartitionDrained:
    """Partition -> queue: the paused flow holds nothing of this partition any more."""

    partition_number: int
    epoch: int


@dataclass(slots=True)
class PartitionStored:
    """Spool -> queue: what the store has of a partition that asked for it; None when it could not be read."""

    partition_number: int
    stored: StoredPartition | None


@dataclass(slots=True)
class DescribePartition:
    """Ask of a partition; answered with a PartitionOverview."""


@dataclass(slots=True)
class CloseLedger:
    """Ask of a partition, at a clean stop, when no flow is attached any more. Answered with a ClosedLedger."""


@dataclass(frozen=True, slots=True)
class ClosedLedger:
    """What the store has to know of a partition beyond its settlements."""

    partition_id: int
    next_sequence: int
    redelivered: list[tuple[int, int, int]]  # first, end, failed deliveries
    delays: list[tuple[int, int, int]]  # of messaging.partitions.state.redelivery_delay: what failed and waits


@dataclass(slots=True)
class BrowsePartition:
    """Ask of a partition: copies of waiting messages behind a sequence, oldest first. Answered with BrowsedMessages.

    With `waits_as`, the number of a browser, it is answered once there is something to show, or with EndBrowse.
    """

    after: int
    limit: int
    waits_as: int | None = None


@dataclass(frozen=True, slots=True)
class BrowsedMessage:
    """A copy of a waiting message: row `row` of `batch`."""

    partition_number: int
    sequence: int
    batch: MessageBatch
    row: int
    redelivered: bool
    delivery_count: int
    in_flight: bool


@dataclass(slots=True)
class PurgePartition:
    """Ask of a partition: drop what no consumer holds. Answered with the number of messages dropped."""


@dataclass(frozen=True, slots=True)
class PartitionOverview:
    """The figures of one partition."""

    number: int
    partition_id: int
    waiting_count: int
    waiting_bytes: int
    ready_count: int
    delayed_count: int  # neither ready nor in flight: not stored yet, their time has not come, or they failed and wait
    in_flight_count: int
    memory_bytes: int
    first_unsettled: int
    next_sequence: int
    delivered_count: int
    redelivered_count: int
    settled_count: int
    lock_losses_count: int  # deliveries taken back because they were not settled in time
    annotations_lost_count: int  # what consumers put on messages, and there was no room for
    discards: dict[str, int]  # reason -> messages dropped
    buried: dict[str, int]  # reason -> messages moved to the dead message queue
    in_flight_by_flow: dict[int, int]
    kept_from: int  # first sequence that readers of ranges may still have
    kept_bytes: int  # payload that is kept beyond its settlement; no part of the quota
    held_count: int  # of the ready ones, those passed over because older ones of their slot are not settled


# --- consumer <-> queue ---


@dataclass(slots=True)
class BindFlow:
    """Ask of a queue: consume from it. Answered with None, or BindRefused is raised.

    The consumer chooses the flow's id (Runtime.next_urn), for deliveries may reach it before the answer does.
    """

    flow_id: int
    client: str
    user: str  # as authentication found it; empty: anonymous
    address: Address
    window: CreditWindow[Address]
    protocol: str = "mqtt"
    selector: Selector | None = None  # of the messages it wants; None: all
    acknowledges: bool = False  # of a partitioned queue: it is told its partitions, and lets go of them by its word
    of_partition_max: int = UNBOUNDED  # how many unsettled messages of one partition the consumer takes


# Why a bind was refused: the names of the counters, and codes that protocols translate.
ENDPOINT_DISABLED = "endpoint_disabled"
MAX_BIND_COUNT_EXCEEDED = "max_bind_count_exceeded"
PERMISSION_DENIED = "permission_denied"
QUEUE_EXPIRED = "queue_expired"
NO_SUCH_PARTITION = "no_such_partition"  # of browsers, which may ask for one


class BindRefused(Exception):
    """A queue would not bind a flow. `code` is one of the reasons above."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(slots=True)
class UnbindFlow:
    """Consumer -> queue: the flow ends; what it holds is delivered again.

    `may_return` is False when the client has said that it is done with the queue, and its connection goes on.
    """

    flow_id: int
    count_as_failed: bool = True
    may_return: bool = True


@dataclass(slots=True)
class FlowState:
    """Queue -> consumer: the flow became active or inactive, or its partitions changed."""

    flow_id: int
    active: bool
    partitions: list[int]


@dataclass(slots=True)
class FlowGone:
    """Queue -> consumer: the flow has ended because the queue was deleted, its egress shut down, or a right taken away.

    With `may_return` it makes sense to bind again later.
    """

    flow_id: int
    reason: str
    may_return: bool


@dataclass(slots=True)
class DescribeQueue:
    """Ask of a queue; answered with a QueueOverview."""


@dataclass(slots=True)
class BrowseQueue:
    """Ask of a queue: copies of waiting messages. Answered with a list of BrowsedMessage."""

    partition_number: int | None
    after: int
    limit: int


@dataclass(slots=True)
class PurgeQueue:
    """Ask of a queue: drop what no consumer holds. Answered with the number of messages dropped."""


@dataclass(slots=True)
class Reconfigure:
    """Directory -> queue: the configuration is now this, and stored."""

    config: QueueConfig


# What a flow does, in the words of Solace's management.
ACTIVE_CONSUMER = "active-consumer"
INACTIVE = "inactive"  # bound, and standing by
ACTIVE_BROWSER = "active-browser"


@dataclass(frozen=True, slots=True)
class FlowOverview:
    """The figures of one flow."""

    flow_id: int
    client: str
    protocol: str
    window: int
    unacked_count: int
    activity: str  # ACTIVE_CONSUMER, INACTIVE or ACTIVE_BROWSER
    partitions: list[int]
    selector: str  # empty: it wants all


@dataclass(frozen=True, slots=True)
class QueueOverview:
    """The figures of one queue."""

    config: QueueConfig
    durable: bool
    rebalance_status: str
    scale_status: str  # of messaging.queues.assignment.slots
    partition_statuses: list[tuple[str, int, int]]  # status, owning flow (0: none or many), epoch
    partitions: list[PartitionOverview]
    flows: list[FlowOverview]
    usage_bytes: int
    usage_count: int
    totals: QueueTotals  # with what partitions that retired have counted
    refusals: dict[int, int]  # verdict of messaging.message.refusals -> messages refused to their publishers
    drops: dict[int, int]  # verdict -> messages dropped here, and nobody heard of it


# --- partition, publisher, queue, session -> spool ---


@dataclass(slots=True)
class WritePages:
    """Write pages in the next commit. Answered with PagesWritten when they are safe."""

    partition: Address
    partition_id: int
    plans: list[PagePlan]


@dataclass(slots=True)
class PagesWritten:
    """Spool -> partition: the pages are safe; or, when `plans` did not fit, `failed` is set and nothing changed."""

    plans: list[PagePlan]
    failed: bool


@dataclass(slots=True)
class Withdraw:
    """Spool -> partition: these sequences could not be stored, and their publisher knows; drop what is left."""

    first: int
    end: int


@dataclass(slots=True)
class ReadPage:
    """Partition -> spool reader: bring a page. Answered with PageRead."""

    partition: Address
    partition_id: int
    first_sequence: int


@dataclass(slots=True)
class PageRead:
    """Spool reader -> partition: the runs of a page, or why it cannot be read."""

    first_sequence: int
    runs: list[tuple[int, MessageBatch]]
    damage: str  # empty when the page was read
    failed: bool = False  # the store could not be read: it says nothing about the page
    lost: str = ""  # what of the page could not be read, beside `runs`


@dataclass(slots=True)
class PagesUnread:
    """Spool reader -> spool: pages of a partition cannot be read, for another reason than before, or can again."""

    partition_id: int
    reason: str  # empty: they can be read again
    is_damage: bool = False  # LMDB's own pages are broken
    mistake: Exception | None = None  # with its traceback, for the log


@dataclass(slots=True)
class SetPageAside:
    """Partition -> spool: this page cannot be read; keep its bytes in quarantine.

    With `stays` some of it can be read, and is served from where it is.
    """

    partition_id: int
    first_sequence: int
    damage: str
    stays: bool = False


@dataclass(slots=True)
class PageOut:
    """Spool -> partition: move what journal records up to this number hold into pages, so that they can go."""

    through_record: int


@dataclass(slots=True)
class WriteTables:
    """Write rows of the catalog, the retained messages or the session table.

    Answered to `reply_to` with Confirmed or PublishFailed of `token`; without `reply_to` there is no answer. With
    `until_done` the rows go into every commit until one succeeds: they make room. Then PublishFailed comes only when
    the store has failed, not for lack of room, and the rows are still written if the store recovers. `left` is called
    when the rows are written or never will be.
    """

    writes: list[TableWrite]
    reply_to: Address | None
    token: int
    until_done: bool = False
    left: Callable[[], None] | None = None


@dataclass(slots=True)
class RegisterPartition:
    """Queue -> spool: a partition exists; keep its account, and reserve sequences for it."""

    partition_id: int
    partition: Address
    next_sequence: int


@dataclass(slots=True)
class ReloadPartition:
    """Partition -> spool: its memory is lost. Answered to the queue with PartitionStored when all before is written."""

    partition_id: int
    partition_number: int
    queue: Address


@dataclass(slots=True)
class Readopted:
    """Partition -> spool: these publications, read from the journal, are needed again as objects of their own."""

    publications: list[Publication]


@dataclass(slots=True)
class PurgeFromStore:
    """Queue -> spool: a partition is gone with all its pages."""

    partition_id: int


# What directory, queue and partitions say to each other while the number of a queue's partitions changes.


class RescaleOrder:
    """Queue -> partition: what to do while slots move."""

    __slots__ = ()


@dataclass(slots=True)
class HoldSlots(RescaleOrder):
    """Queue -> partition: from here on hold what the sources had by this slot map, each until it is opened."""

    number: int  # the partition's own
    slots_before: bytes
    sources: list[int]


@dataclass(slots=True)
class OpenSource(RescaleOrder):
    """Queue -> partition: what was held for this source may go."""

    number: int


@dataclass(slots=True)
class TakeCut(RescaleOrder):
    """Queue -> partition: slots leave you. Answered by SourceDrained when everything below the cut is settled.

    The cut is the next sequence, and CutTaken says which; unless the queue knows it from before a restart.
    """

    cut: int  # CUT_UNKNOWN: it is taken now


@dataclass(slots=True)
class Retire(RescaleOrder):
    """Queue -> partition: you are empty, and end. What you keep for readers ends with you."""


@dataclass(slots=True)
class CutTaken:
    """Partition -> queue: where my cut is."""

    partition_number: int
    cut: int


@dataclass(slots=True)
class SourceDrained:
    """Partition -> queue: everything below the cut is settled."""

    partition_number: int


@dataclass(frozen=True, slots=True)
class AddedPartition:
    """A partition that was started, and that no publisher knows yet."""

    partition_id: int
    cell: ActorCell


@dataclass(slots=True)
class RescaleQueue:
    """Directory -> queue: change to another number of partitions. The plan is stored.

    The queue answers with RescaleAdvanced when it knows all cuts, and with RescaleFinished at the end.
    """

    rescale: Rescale
    added: list[AddedPartition]
    begun: bool = False  # the queue has it


@dataclass(slots=True)
class RescaleAdvanced:
    """Queue -> directory: all cuts are known, and worth storing."""

    queue_name: str


@dataclass(slots=True)
class RescaleFinished:
    """Queue -> directory: nothing is held any more, and the partitions that retired are gone."""

    queue_name: str
    retired_ids: list[int]


# What a browser and its queue say to each other: looking at messages without consuming them.


@dataclass(slots=True)
class BindBrowser:
    """Ask of a queue: show me its messages, oldest first, and new ones as they arrive. Answered with BrowserBound.

    Raises BindRefused; the right needed is `read-only`. The consumer chooses the flow's id (Runtime.next_urn), for
    messages may reach it before the answer does. Sequences up to `after` are passed over, in every partition.
    """

    flow_id: int
    client: str
    protocol: str  # that the client speaks, for operators to see
    user: str | None  # as authentication found it, empty for anonymous; None: an operator, who may look at anything
    address: Address  # gets Browsed, and FlowGone when the queue ends
    window: int  # messages that it is shown before it asks for more; at most 10,000 count
    partition_number: int | None = None  # None: all
    after: int = 0
    selector: Selector | None = None  # what the browser wants to see


@dataclass(frozen=True, slots=True)
class BrowserBound:
    """The browser's own actor, for BrowserCredit and DeleteBrowsed. `UnbindFlow` to the queue ends it."""

    browser: ActorCell


@dataclass(slots=True)
class Browsed:
    """Browser -> consumer: copies of messages. Within a partition in order; between partitions by time of arrival."""

    flow_id: int
    messages: list[BrowsedMessage]


@dataclass(slots=True)
class BrowserCredit:
    """Consumer -> browser: show so many more."""

    count: int


@dataclass(slots=True)
class DeleteBrowsed:
    """Ask of a browser: settle messages it has shown, each a partition and a sequence.

    Answered with how many were removed: one that a consumer holds, or that is gone already, is passed over. Raises
    BindRefused when the browser's user may no longer remove messages: that needs `consume`.
    """

    places: list[tuple[int, int]]


@dataclass(slots=True)
class DeleteMessages:
    """Ask of a partition: remove these sequences, where no consumer holds them. Answered with how many."""

    sequences: list[int]


@dataclass(slots=True)
class PartitionsChanged:
    """Queue -> browser: there are more partitions than before, or fewer."""


@dataclass(slots=True)
class EndBrowse:
    """Browser -> partition: nobody waits for new messages any more."""

    flow_id: int
