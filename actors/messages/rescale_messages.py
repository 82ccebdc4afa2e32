"""What directory, queue and partitions say to each other while the number of a queue's partitions changes."""

from dataclasses import dataclass

from sluicegate.actors.runtime.cell import ActorCell
from sluicegate.messaging.queues.assignment.rescale import Rescale


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
