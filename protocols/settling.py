"""What a partition is told of what it has delivered to a client."""

from actors.data_messages import Settle
from messaging.held import DeliverySource


def settle_from(source: DeliverySource, first: int, end: int, outcome: int) -> Settle:
    """Return the outcome of the half-open range `[first, end)` of a source's sequences."""
    return Settle(source.flow_id, source.epoch, first, end, outcome, delivery_count=source.delivery_count)
