"""The events that the engine of the flow protocol reports.

Most events are the frames themselves, complete and checked. On the data path an event carries a batch: consecutive
PUBLISH frames of one flow (`PublishesReceived`), and likewise DELIVER frames.
"""

from typing import TypeAlias, final

from sluicegate.protocols.flow.codec.frames.cursor import CursorFrame
from sluicegate.protocols.flow.codec.frames.deliver import Delivered
from sluicegate.protocols.flow.codec.frames.flow import FlowFrame
from sluicegate.protocols.flow.codec.frames.link import LinkFrame
from sluicegate.protocols.flow.codec.frames.partition import Partitions, PartitionsAck
from sluicegate.protocols.flow.codec.frames.provision import ProvisionFrame
from sluicegate.protocols.flow.codec.frames.publish import PubAck, PublishesReceived
from sluicegate.protocols.flow.codec.frames.rows import Read, Reading, RowsReceived
from sluicegate.protocols.flow.codec.frames.session import SessionFrame
from sluicegate.protocols.flow.codec.frames.settle import Credit, Settle, Settled
from sluicegate.protocols.flow.codec.frames.stage import StagingFrame
from sluicegate.protocols.flow.codec.frames.subscription import SubscriptionFrame


@final
class DeliveriesReceived:
    """Neighbouring DELIVER frames of one flow."""

    def __init__(self, flow_id: int) -> None:
        self.flow_id = flow_id
        self.deliveries: list[Delivered] = []

    def __repr__(self) -> str:
        return f"DeliveriesReceived(flow {self.flow_id}, {self.deliveries})"


@final
class PeerViolated:
    """The peer broke a rule; the ERROR that says so is written. The last event."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        self.text = text

    def __repr__(self) -> str:
        return f"PeerViolated({self.code:#06x}, {self.text!r})"


@final
class FramesRelayed:
    """PUBLISH frames of one publisher that another broker of this machine has, whole and in wire order."""

    __slots__ = ("flow_id", "frames")

    def __init__(self, flow_id: int) -> None:
        self.flow_id = flow_id
        self.frames: list[bytes] = []

    def __repr__(self) -> str:
        return f"FramesRelayed(flow {self.flow_id}, {sum([len(frame) for frame in self.frames])} bytes)"


FlowEvent: TypeAlias = (
    PublishesReceived
    | FramesRelayed
    | DeliveriesReceived
    | PubAck
    | Credit
    | Settle
    | Settled
    | SessionFrame
    | FlowFrame
    | CursorFrame
    | StagingFrame
    | Read
    | Reading
    | RowsReceived
    | Partitions
    | PartitionsAck
    | SubscriptionFrame
    | LinkFrame
    | ProvisionFrame
    | PeerViolated
)
