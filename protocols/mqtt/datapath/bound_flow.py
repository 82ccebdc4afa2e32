"""A queue flow that a connection is bound to, and how its messages are delivered."""

from sluicegate.actors.messages.data import Deliveries
from sluicegate.actors.messages.partitions import ReleaseUnsent
from sluicegate.messaging.message.address import Address
from sluicegate.protocols.mqtt.datapath.inflight_out import DeliveryOrigin
from sluicegate.protocols.mqtt.session.packet_ids import SentIds
from sluicegate.protocols.mqtt.session.session import ExtraSubscription


class BoundFlow:
    """A flow of this connection and what its messages are delivered as."""

    __slots__ = ("extra", "ids", "is_named_queue", "latest", "origins", "queue")

    def __init__(
        self, queue: Address, extra: ExtraSubscription | None, ids: SentIds | None, *, is_named_queue: bool
    ) -> None:
        self.queue = queue  # the queue's actor
        self.extra = extra  # None: the session's own queue, where each topic has its own options
        self.ids = ids  # None: of a named queue
        self.is_named_queue = is_named_queue
        self.origins: dict[int, DeliveryOrigin] = {}  # by partition number: that of its present epoch
        self.latest: DeliveryOrigin | None = None  # of these, the one that delivered last: mostly there is one

    def give_back_unsent(self, flow_id: int, held: list[Deliveries] | None) -> None:
        """Return unsent messages before the flow ends; `held` are deliveries queued behind a request."""
        for origin in self.origins.values():
            origin.give_back_unsent()
        for message in held or ():
            for delivery in message.deliveries:
                if message.flow.flow_id == flow_id and not delivery.redelivered:
                    first, count = delivery.first_sequence, delivery.stop_row - delivery.start_row
                    message.partition.post(ReleaseUnsent(flow_id, delivery.epoch, [(first, first + count)]))
