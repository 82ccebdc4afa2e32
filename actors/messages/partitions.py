"""What is said about flows whose client goes or is away, and about what they were sent before.

Flows that are parked are of queues with one partition: those of sessions and of shared subscriptions.
"""

from dataclasses import dataclass

from sluicegate.messaging.partitions.state.flows import Flow


@dataclass(slots=True)
class SuspendFlow:
    """Consumer -> queue: the client is away. `kept` stays with it, the rest of what the flow holds is delivered again.

    The flow goes on with a BindFlow of the same id, or ends with UnbindFlow: then what it has kept is dropped.
    """

    flow_id: int
    kept: list[tuple[int, int]]  # half-open ranges of sequences


@dataclass(slots=True)
class RestoreSuspendedFlow:
    """Session directory -> queue: a flow of an earlier run of the node, parked. Before anybody binds."""

    flow: Flow
    kept: list[tuple[int, int]]


@dataclass(slots=True)
class Suspend:
    """Queue -> partition: see SuspendFlow."""

    flow_id: int
    kept: list[tuple[int, int]]


@dataclass(slots=True)
class RestoreSuspended:
    """Queue -> partition: see RestoreSuspendedFlow."""

    flow: Flow
    epoch: int
    kept: list[tuple[int, int]]


@dataclass(slots=True)
class ResumeSuspended:
    """Queue -> partition: the client of a parked flow is back, at another address."""

    flow: Flow


@dataclass(slots=True)
class DeliverAgain:
    """Ask of a partition: deliver to a flow once more, within its credit, what it holds of half-open ranges.

    Answered with those of them that it holds; with none under an old epoch.
    """

    flow_id: int
    epoch: int
    ranges: list[tuple[int, int]]


@dataclass(slots=True)
class ReleaseUnsent:
    """Consumer -> partition, before its flow ends: half-open ranges that it was given first and never sent.

    Under an old epoch it changes nothing.
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
    """What a partition knows of sequences that a consumer asked about."""

    unsettled: list[tuple[int, int]]  # half-open ranges
    suspect_end: int  # after a crash: everything below may have been delivered by the run of the node that crashed


# What a queue and a consumer that acknowledges handoffs say to each other.


@dataclass(slots=True)
class Assignment:
    """Queue -> consumer: these partitions are yours, and nothing else is. Behind the FlowState that says so as well.

    `partitions` has partition, epoch, and 0 or the time (Clock.now_ms) at which it is given to somebody else, whatever
    the consumer says: such a partition delivers nothing any more.
    """

    flow_id: int
    partitions: list[tuple[int, int, int]]


@dataclass(slots=True)
class AcknowledgeHandoff:
    """Consumer -> queue: I have let go of these, each a partition and an epoch. Others than drain are passed over."""

    flow_id: int
    partitions: list[tuple[int, int]]


# What is said when a consumer drains a flow: it wants all there is for it now, and to hear when that is all.


@dataclass(slots=True)
class DrainFlow:
    """Consumer -> queue, or browser: let me have what you can, up to my credit. Answered with FlowDrained.

    A browser answers at the tail of its queue only: one whose credit is used up has shown what it was asked for.

    `number` tells apart what the same flow has asked for before.
    """

    flow_id: int
    number: int


@dataclass(slots=True)
class FlowDrained:
    """Queue, or browser -> consumer: you have what there was for you since you asked. Comes behind the deliveries."""

    flow_id: int
    number: int


@dataclass(slots=True)
class DrainPartition:
    """Ask of a partition: answer, with None, once there is nothing more that the flow can get from you now."""

    flow_id: int
