"""Requests to a queue and to its browsers, and their reports to consumers and to the directory."""

from dataclasses import dataclass, field
from typing import TypeVar, final

from sluicegate.actors.messages.partitions import BrowsedMessage, PartitionOverview
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.clients.rights import ClientRights
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.partitions.state.flows import UNBOUNDED, Flow
from sluicegate.messaging.queues.assignment.slots import Rescale
from sluicegate.messaging.queues.credit import CreditWindow
from sluicegate.messaging.queues.definition import QueueConfig
from sluicegate.messaging.selectors.selector import Selector

Key = TypeVar("Key")


def add_counts(totals: dict[Key, int], counts: dict[Key, int]) -> None:
    """Add counts to totals, key by key."""
    for key, count in counts.items():
        totals[key] = totals.get(key, 0) + count


@dataclass(slots=True)
class BindFlow:
    """Ask of a queue: consume from it. Answered with None, or BindRefused is raised.

    The consumer chooses the flow's id (Runtime.next_urn), for deliveries may reach it before the answer does.
    """

    flow_id: int
    client: str
    user: str  # from authentication; empty: anonymous
    address: Address
    window: CreditWindow[Address]
    protocol: str = "mqtt"
    selector: Selector | None = None  # selects the messages it wants; None: all
    acknowledges: bool = False  # of a partitioned queue: it is sent its partitions, and acknowledges handoffs
    of_partition_max: int = UNBOUNDED  # maximum of unsettled messages of one partition
    rights: ClientRights | None = None  # of the client's connection; None: not a client
    broker: str = ""  # the neighbor at which the client is connected; its name ends `client`. Empty: this broker


# Why a bind was refused: the names of the counters, and codes that protocols translate.
ENDPOINT_DISABLED = "endpoint_disabled"
MAX_BIND_COUNT_EXCEEDED = "max_bind_count_exceeded"
PERMISSION_DENIED = "permission_denied"
NOT_OWNER = "not_owner"  # the temporary queue is another client's
OWNER_CONNECTED = "owner_connected"  # it is another connection's of the same client, for as long as that lasts
QUEUE_EXPIRED = "queue_expired"
NO_SUCH_PARTITION = "no_such_partition"  # of browsers, which may request one partition


class BindRefused(Exception):
    """A queue refused to bind a flow. `code` is one of the reasons above."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(slots=True)
class UnbindFlow:
    """Consumer -> queue: the flow ends; what it holds is delivered again.

    `may_return` is False when the client no longer needs the queue, and its connection continues.
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
    """Queue -> consumer: the flow has ended: the queue was deleted, its egress shut down, or a permission revoked.

    With `may_return` the consumer may bind again later.
    """

    flow_id: int
    reason: str
    may_return: bool


@dataclass(slots=True)
class SuspendFlow:
    """Consumer -> queue: the client is disconnected. `to_resend` stays with it, and other consumers get the rest.

    The flow resumes with a BindFlow of the same id, or ends with UnbindFlow: then these messages are dropped.
    """

    flow_id: int
    to_resend: list[tuple[int, int]]  # half-open ranges of sequences


@dataclass(slots=True)
class RestoreSuspendedFlow:
    """Session directory -> queue: a suspended flow of an earlier run of the node. Comes before any bind."""

    flow: Flow
    to_resend: list[tuple[int, int]]


@dataclass(slots=True)
class DrainFlow:
    """Consumer -> queue, or browser: deliver what is available up to the flow's credit. Answered with FlowDrained.

    A browser answers only at the tail of its queue, for one whose credit is used up has shown what was requested.
    `number` distinguishes the drains of one flow.
    """

    flow_id: int
    number: int


@dataclass(slots=True)
class FlowDrained:
    """Queue, or browser -> consumer: all that was available is delivered. Comes after the deliveries."""

    flow_id: int
    number: int


@dataclass(slots=True)
class Assignment:
    """Queue -> consumer: the flow owns these partitions, and no others. Comes after the same FlowState.

    `partitions` has partition, epoch, and 0 or the time (Clock.now_ms) at which it is given to another flow,
    acknowledged or not: such a partition delivers nothing any more.
    """

    flow_id: int
    partitions: list[tuple[int, int, int]]


@dataclass(slots=True)
class AcknowledgeHandoff:
    """Consumer -> queue: the consumer acknowledges handoffs, each a partition and an epoch. Others are ignored."""

    flow_id: int
    partitions: list[tuple[int, int]]


# --- operators, and the directory ---


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
    """Ask of a queue: drop the messages that no consumer holds. Answered with the number dropped."""


@dataclass(slots=True)
class Reconfigure:
    """Directory -> queue: apply this configuration, which is stored."""

    config: QueueConfig


# The states of a flow, as Solace's management names them.
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
    selector: str  # empty: it wants all messages
    broker: str = ""  # the neighbor at which the client is connected; its name ends `client`. Empty: this broker


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
    dead_lettered: dict[str, int] = field(default_factory=dict)  # reason -> messages
    # Keyed by the verdicts of messaging.message.refusals.
    refusals: dict[int, int] = field(default_factory=dict)  # verdict -> messages refused to their publishers
    drops: dict[int, int] = field(default_factory=dict)  # verdict -> messages dropped without telling the publisher

    def add(self, totals: "QueueTotals") -> None:
        """Add other totals."""
        self.accepted_count += totals.accepted_count
        self.delivered_count += totals.delivered_count
        self.redelivered_count += totals.redelivered_count
        self.settled_count += totals.settled_count
        self.annotations_lost_count += totals.annotations_lost_count
        self.lock_losses_count += totals.lock_losses_count
        self.rebalances_count += totals.rebalances_count
        add_counts(self.bind_refusals, totals.bind_refusals)
        add_counts(self.discards, totals.discards)
        add_counts(self.dead_lettered, totals.dead_lettered)
        add_counts(self.refusals, totals.refusals)
        add_counts(self.drops, totals.drops)

    def add_partition(self, overview: "PartitionOverview") -> None:
        """Add the totals of a partition."""
        self.delivered_count += overview.delivered_count
        self.redelivered_count += overview.redelivered_count
        self.settled_count += overview.settled_count
        self.annotations_lost_count += overview.annotations_lost_count
        self.lock_losses_count += overview.lock_losses_count
        add_counts(self.discards, overview.discards)
        add_counts(self.dead_lettered, overview.dead_lettered)


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
    totals: QueueTotals  # including those of retired partitions


# --- a change of the number of partitions ---


@dataclass(frozen=True, slots=True)
class AddedPartition:
    """A partition that was started; publishers do not know it yet."""

    partition_id: int
    cell: ActorCell


@dataclass(slots=True)
class RescaleQueue:
    """Directory -> queue: change to another number of partitions. The plan is stored.

    The queue answers with RescaleAdvanced when it knows all cuts, and with RescaleFinished at the end.
    """

    rescale: Rescale
    added: list[AddedPartition]
    begun: bool = False  # the queue has begun it


@dataclass(slots=True)
class SetMoving:
    """Directory -> queue: it is being moved to or from another broker; empty: it is not, or no longer.

    Its flows end, and it takes none. Their clients may come back, and find it where it is then.
    """

    text: str  # why it takes no flow


@dataclass(slots=True)
class RescaleAdvanced:
    """Queue -> directory: all cuts are known, and worth storing."""

    queue_name: str


@dataclass(slots=True)
class RescaleFinished:
    """Queue -> directory: nothing is held any more, and the retired partitions are removed."""

    queue_name: str
    retired_ids: list[int]


# --- browsers: messages are shown and not consumed ---


@dataclass(slots=True)
class BindBrowser:
    """Ask of a queue: show its messages, oldest first, and new ones as they arrive. Answered with BrowserBound.

    Raises BindRefused; the permission needed is `read-only`. The consumer chooses the flow's id (Runtime.next_urn), for
    messages may reach it before the answer does. Sequences up to `after` are skipped, in every partition.
    """

    flow_id: int
    client: str
    protocol: str  # spoken by the client, for operators
    user: str | None  # from authentication, empty for anonymous; None: an operator, who may see all messages
    address: Address  # gets Browsed, and FlowGone when the queue ends
    window: int  # messages shown before it requests more; at most 10,000 count
    partition_number: int | None = None  # None: all
    after: int = 0
    selector: Selector | None = None  # selects the messages shown
    rights: ClientRights | None = None  # of the client's connection; None: not a client
    broker: str = ""  # as of BindFlow


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
    """Consumer -> browser: show this many more."""

    count: int


@dataclass(slots=True)
class DeleteBrowsed:
    """Ask of a browser: settle messages it has shown, each a partition and a sequence.

    Answered with the number removed: a message that a consumer holds, or that is gone already, is skipped. Raises
    BindRefused when the browser's user may no longer remove messages: that needs `consume`.
    """

    places: list[tuple[int, int]]


@dataclass(slots=True)
class PartitionsChanged:
    """Queue -> browser: the number of partitions has changed."""
