"""Settlements that a connection sends to the partitions whose deliveries it received."""

from sluicegate.actors.messages.data import Confirmed, Deliveries, PublishFailed, Settle
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.outcomes import RELEASED
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.messaging.partitions.state.unsettled import DeliverySource


def source_of(sources: dict[int, DeliverySource], message: Deliveries, delivery: Delivery) -> DeliverySource:
    """Return where settlements of a delivery go; `sources` has, by partition number, that of the last one."""
    number = message.partition_number
    source = sources.get(number)
    if source is None or not source.has_brought(delivery) or source.partition is not message.partition:
        epoch, count = delivery.epoch, delivery.delivery_count
        source = sources[number] = DeliverySource(message.partition, number, message.flow.flow_id, epoch, count)
    return source


def settle_from(source: DeliverySource, first: int, end: int, outcome: int) -> Settle:
    """Return the outcome of the half-open range `[first, end)` of a source's sequences."""
    return Settle(source.flow_id, source.epoch, first, end, outcome, delivery_count=source.delivery_count)


def send_back(message: Deliveries, delivery: Delivery) -> None:
    """Give a delivery back that its client was not sent."""
    flow_id, first = message.flow.flow_id, delivery.first_sequence
    end = first + delivery.stop_row - delivery.start_row
    count = delivery.delivery_count
    message.partition.post(Settle(flow_id, delivery.epoch, first, end, RELEASED, delivery_count=count))


class DurableSettlement(Address):
    """A settlement that waits for the store: it is in force for ever, or refused.

    The partition answers in any case, also when the flow has lost the deliveries meanwhile.
    """

    def post(self, message: object) -> None:
        """Take the partition's refusal, or its word that the store has the settlement."""
        assert isinstance(message, (Confirmed, PublishFailed)), "nothing else is sent here"
        self.decided(message if isinstance(message, PublishFailed) else None)

    def decided(self, refusal: PublishFailed | None) -> None:
        """Go on: the settlement is stored, unless it was refused."""
        raise AssertionError("who waits goes on")
