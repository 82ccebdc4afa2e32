"""The user properties in which a client of level 5 reads what its queue knows of a delivery."""

from typing import Final

from sluicegate.messaging.partitions.state.effects import Delivery

PROPERTY_PARTITION: Final = "sluicegate-partition"
PROPERTY_FIRST_OF_GROUP: Final = "JMSXGroupFirstForConsumer"  # as ActiveMQ calls it
PROPERTY_REDELIVERED: Final = "sluicegate-redelivered"
PROPERTY_DELIVERY_COUNT: Final = "sluicegate-delivery-count"


def delivery_properties(partition: int, delivery: Delivery, *, is_named_queue: bool) -> list[tuple[str, str]] | None:
    """Return them in the order in which they are sent; None where there are none."""
    properties: list[tuple[str, str]] = []
    if is_named_queue:
        properties = [(PROPERTY_PARTITION, str(partition))]
        if delivery.redelivered:
            properties += [
                (PROPERTY_REDELIVERED, "true"),
                (PROPERTY_DELIVERY_COUNT, str(delivery.delivery_count)),
            ]
    if delivery.first_of_group:
        properties.append((PROPERTY_FIRST_OF_GROUP, "true"))
    return properties or None
