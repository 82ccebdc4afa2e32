"""What a queue and a consumer that acknowledges handoffs say to each other."""

from dataclasses import dataclass


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
