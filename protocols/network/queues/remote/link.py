"""The link to a neighbor, as the queues there that are used here see it, and they as the link does.

Classes and not Protocols, like `Address`.
"""

from typing import Final

from sluicegate.actors.messages.data import RenewLock, Settle
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import Behaviour
from sluicegate.messaging.message.address import Address
from sluicegate.protocols.flow.codec.frames.link_flow import LinkDeliver
from sluicegate.protocols.network.queues.notes import FlowNote
from sluicegate.protocols.network.queues.remote.readers import RemoteReaders

AWAY: Final = "the link to its broker {neighbor} is down"


class QueueEnd(Behaviour):
    """A queue of the neighbor, as its consumers here see it."""

    def deliver(self, frame: LinkDeliver) -> None:
        """Pass messages on to their consumer. Raises ValueError."""
        raise AssertionError("deliver is abstract")

    def told(self, note: FlowNote) -> None:
        """Carry out a note of the neighbor. Raises ValueError."""
        raise AssertionError("told is abstract")

    def settled(self, flow_id: int, number: int, count: int) -> None:
        """Count messages of a partition that a consumer has settled."""
        raise AssertionError("settled is abstract")


class QueueLink:
    """The link to a neighbor whose queues are used here."""

    def __init__(self, neighbor: str, readers: RemoteReaders) -> None:
        self.neighbor: Final = neighbor
        self.readers: Final = readers

    def absence(self) -> str:
        """Return why the neighbor cannot be asked; empty: it can."""
        raise AssertionError("absence is abstract")

    def begin(self, flow_id: int, queue: QueueEnd) -> None:
        """Note whose a flow is."""
        raise AssertionError("begin is abstract")

    def end(self, flow_id: int) -> None:
        """Forget a flow, and refuse its settlements that wait."""
        raise AssertionError("end is abstract")

    def say(self, kind: int, flow_id: int, *values: object) -> None:
        """Tell the neighbor something of a flow."""
        raise AssertionError("say is abstract")

    def settle(self, number: int, settle: Settle, token: int) -> None:
        """Tell the neighbor the outcome of messages of a partition. Of flows that have ended it needs none."""
        raise AssertionError("settle is abstract")

    def renew(self, number: int, request: RenewLock) -> LoopFuture[int]:
        """Have locks renewed; the answer is the number of messages that the flow still holds."""
        raise AssertionError("renew is abstract")

    def awaits(self, flow_id: int, reply_to: Address) -> int:
        """Return a token for a settlement that is to be answered; 0: the flow has ended."""
        raise AssertionError("awaits is abstract")
