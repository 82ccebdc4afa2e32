"""Requests to a partition, and its answers and reports.

A partition gets messages from its queue, from consumers, browsers and the spool. Those of its data path are in `data`,
reads of ranges in `readers`, operations of administrators in `operations`.
"""

from dataclasses import dataclass

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.partitions.state.flows import Flow


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
class DescribePartition:
    """Ask of a partition; answered with a PartitionOverview."""


@dataclass(slots=True)
class CloseLedger:
    """Ask of a partition, at a clean stop, when no flow is attached any more. Answered with a ClosedLedger."""


@dataclass(frozen=True, slots=True)
class ClosedLedger:
    """The state that the store needs of a partition beside its settlements."""

    partition_id: int
    next_sequence: int
    redelivered: list[tuple[int, int, int]]  # first, end, failed deliveries
    delays: list[tuple[int, int, int]]  # of messaging.partitions.state.redelivery: messages that failed and wait


@dataclass(slots=True)
class BrowsePartition:
    """Ask of a partition: copies of waiting messages after a sequence, oldest first. Answered with BrowsedMessages.

    With `waits_as`, the number of a browser, it is answered when there are messages, or with EndBrowse.
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
    """Ask of a partition: drop the messages that no consumer holds. Answered with the number dropped."""


@dataclass(slots=True)
class DeleteMessages:
    """Ask of a partition: remove those of these sequences that no consumer holds. Answered with the number removed."""

    sequences: list[int]


@dataclass(slots=True)
class EndBrowse:
    """Browser -> partition: the browser no longer waits for new messages."""

    flow_id: int


@dataclass(frozen=True, slots=True)
class PartitionOverview:
    """The figures of one partition."""

    number: int
    partition_id: int
    waiting_count: int
    waiting_bytes: int
    ready_count: int
    delayed_count: int  # neither ready nor in flight: not stored yet, before their time, or failed and waiting
    in_flight_count: int
    memory_bytes: int
    first_unsettled: int
    next_sequence: int
    delivered_count: int
    redelivered_count: int
    settled_count: int
    lock_losses_count: int  # deliveries taken back because they were not settled in time
    annotations_lost_count: int  # annotations of consumers that there was no room for
    discards: dict[str, int]  # reason -> messages dropped
    dead_lettered: dict[str, int]  # reason -> messages moved to the dead message queue
    in_flight_by_flow: dict[int, int]
    kept_from: int  # first sequence that may still be kept for range readers
    kept_bytes: int  # payload kept beyond its settlement; not part of the quota
    dead_waiting_count: int  # dead, and not in their dead message queue yet
    held_count: int  # of the ready ones, those skipped because older ones of their slot are unsettled


@dataclass(slots=True)
class Withdraw:
    """Spool -> partition: these sequences could not be stored, and their publisher was told; drop what is left."""

    first: int
    end: int


@dataclass(slots=True)
class PageOut:
    """Spool -> partition: move what journal records up to this number hold into pages, so that they can be deleted."""

    through_record: int


# --- flows whose client is away, and what flows were sent before ---


@dataclass(slots=True)
class Suspend:
    """Queue -> partition: see SuspendFlow."""

    flow_id: int
    to_resend: list[tuple[int, int]]


@dataclass(slots=True)
class RestoreSuspended:
    """Queue -> partition: see RestoreSuspendedFlow."""

    flow: Flow
    epoch: int
    to_resend: list[tuple[int, int]]


@dataclass(slots=True)
class ResumeSuspended:
    """Queue -> partition: the client of a suspended flow is back, at another address."""

    flow: Flow


@dataclass(slots=True)
class DeliverAgain:
    """Ask of a partition: deliver again to a flow, within its credit, what it holds of half-open ranges.

    Answered with the ranges that it holds; with none under an old epoch.
    """

    flow_id: int
    epoch: int
    ranges: list[tuple[int, int]]


@dataclass(slots=True)
class ReleaseUnsent:
    """Consumer -> partition, before its flow ends: half-open ranges that were first delivered to it, and never sent.

    Has no effect under an old epoch.
    """

    flow_id: int
    epoch: int
    ranges: list[tuple[int, int]]


@dataclass(slots=True)
class LookUpSequences:
    """Ask of a queue, which asks its partition: what is left of half-open ranges. Answered with FoundSequences."""

    ranges: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class FoundSequences:
    """The state of sequences that a consumer asked about."""

    unsettled: list[tuple[int, int]]  # half-open ranges
    suspect_end: int  # after a crash: everything below may have been delivered before the crash


@dataclass(slots=True)
class DrainPartition:
    """Ask of a partition: answer, with None, when it has nothing more that the flow can get now."""

    flow_id: int


# --- a change of the number of partitions ---


class RescaleOrder:
    """Queue -> partition: what to do while slots move."""

    __slots__ = ()


@dataclass(slots=True)
class HoldSlots(RescaleOrder):
    """Queue -> partition: from now on hold the slots that the sources had in this slot map, until each is opened."""

    number: int  # the partition's own
    slots_before: bytes
    sources: list[int]


@dataclass(slots=True)
class OpenSource(RescaleOrder):
    """Queue -> partition: release what was held for this source."""

    number: int


@dataclass(slots=True)
class TakeCut(RescaleOrder):
    """Queue -> partition: it loses slots. Answered by SourceDrained when everything below the cut is settled.

    The cut is the next sequence, reported by CutTaken; unless the queue knows it from before a restart.
    """

    cut: int  # CUT_UNKNOWN: take it now


@dataclass(slots=True)
class Retire(RescaleOrder):
    """Queue -> partition: it is empty, and ends. What it keeps for readers ends with it."""


@dataclass(slots=True)
class CutTaken:
    """Partition -> queue: the sequence of the cut."""

    partition_number: int
    cut: int


@dataclass(slots=True)
class SourceDrained:
    """Partition -> queue: everything below the cut is settled."""

    partition_number: int
