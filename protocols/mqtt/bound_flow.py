"""What a connection knows of a flow that it is bound to."""

from messaging.address import Address
from protocols.mqtt.outbound import DeliverySource
from protocols.mqtt.sent_ids import SentIds
from protocols.mqtt.session import ExtraSubscription


class BoundFlow:
    """A flow of this connection and what its messages are delivered as."""

    __slots__ = ("extra", "ids", "is_named_queue", "latest", "queue", "sources")

    def __init__(
        self, queue: Address, extra: ExtraSubscription | None, ids: SentIds | None, *, is_named_queue: bool
    ) -> None:
        self.queue = queue  # the queue's actor
        self.extra = extra  # None: the session's own queue, where each topic has its own options
        self.ids = ids  # None: of a named queue
        self.is_named_queue = is_named_queue
        self.sources: dict[int, DeliverySource] = {}  # by partition number: that of its present epoch
        self.latest: DeliverySource | None = None  # of these, the one that delivered last: mostly there is one
