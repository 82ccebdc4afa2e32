"""One message VPN on one connection of a link, as what concerns the neighbor's queues, and queues for it, uses it.

It is made anew with each connection: what was begun on one is answered on no other.
"""

from typing import Final, final

from sluicegate.protocols.flow.codec.frames.link_flow import LinkDeliver, LinkFlow
from sluicegate.protocols.flow.links import LinkWire
from sluicegate.protocols.network.queues.notes import FRAME_HEAD_BYTES, note_body


@final
class QueuesChannel:
    """Carries notes to the neighbor, and messages of queues here."""

    def __init__(self, wire: LinkWire, flow_id: int, frame_bytes_max: int, incarnation: int) -> None:
        self.wire: Final = wire
        self.flow_id: Final = flow_id  # number of the message VPN on this connection
        self.frame_bytes_max: Final = frame_bytes_max  # that the neighbor takes
        self.incarnation: Final = incarnation  # of the neighbor's spool: sequences there are valid within it

    def takes(self, body: bytes) -> bool:
        """Return whether a frame has room for these messages, or this note."""
        return len(body) + FRAME_HEAD_BYTES <= self.frame_bytes_max

    def note(self, kind: int, consumer: int, *values: object) -> None:
        """Send a note behind what was sent before."""
        self.send(note_body(kind, consumer, *values))

    def send(self, body: bytes) -> None:
        """Send a note that is encoded already, behind what was sent before."""
        self.wire.deliver(LinkFlow(self.flow_id, body))

    def send_first(self, body: bytes) -> None:
        """Send a note ahead of messages that wait for the socket, also while it is full."""
        self.wire.control(LinkFlow(self.flow_id, body).encode())

    def deliver(
        self,
        consumer: int,
        partition: int,
        flags: int,
        first: int,
        body: bytes,
        *,
        delivery_count: int = 0,
        epoch: int = 0,
        annotation: bytes = b"",
    ) -> None:
        """Send messages of a partition, from the sequence `first` on, behind what was sent before."""
        self.wire.deliver(
            LinkDeliver(self.flow_id, consumer, partition, flags, delivery_count, epoch, first, 0, annotation, body)
        )
