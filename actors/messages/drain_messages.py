"""What is said when a consumer drains a flow: it wants all there is for it now, and to hear when that is all."""

from dataclasses import dataclass


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
