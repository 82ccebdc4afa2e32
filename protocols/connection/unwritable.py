"""Messages that cannot be written for a consumer: each is rejected alone, and its neighbours are delivered.

Every codec promises to write each message that another protocol accepted. If one breaks that promise, by a mistake of
ours, writing fails, and with it the consumer's connection. The next consumer's connection would fail the same way, and
the messages behind it would never be delivered. So the broker finds the message and rejects it, which makes it a dead
message where its queue has that; and then the connection ends, as after any failure.
"""

import logging
from collections.abc import Callable
from typing import Final

from sluicegate.actors.messages.data import Deliveries, Settle
from sluicegate.actors.runtime.events import Events
from sluicegate.messaging.message.outcomes import REJECTED
from sluicegate.messaging.observability.events import VPN_MESSAGE_UNWRITABLE
from sluicegate.messaging.partitions.state.effects import Delivery
from sluicegate.protocols.connection.counters import ProtocolCounters

UNWRITABLE: Final = "unwritable"  # counter: messages that were rejected so

log = logging.getLogger("sluicegate.protocols")


def reject_unwritable(
    message: Deliveries, write: Callable[[Delivery, int], object], report: Callable[[int, Exception], None]
) -> None:
    """Reject those rows of deliveries that `write` fails over. `report` is told their sequences, and why."""
    for delivery in message.deliveries:
        for row in range(delivery.start_row, delivery.stop_row):
            try:
                write(delivery, row)
            except Exception as error:
                first = delivery.first_sequence + row - delivery.start_row
                count = delivery.delivery_count
                flow_id, epoch = message.flow.flow_id, delivery.epoch
                message.partition.post(Settle(flow_id, epoch, first, first + 1, REJECTED, delivery_count=count))
                report(first, error)


def report_unwritable(
    events: Events, counters: ProtocolCounters | None, sequence: int, error: Exception, *, client: str
) -> None:
    """Count a message that was rejected, and report it to operators.

    REST delivery points have no counters; queues count such messages, too.
    """
    if counters is not None:
        counters.count(counters.dropped, UNWRITABLE)
    log.error("message %d cannot be written for client %r, and is rejected", sequence, client, exc_info=error)
    text = f"message {sequence} cannot be written, and is rejected: {type(error).__name__}"
    events.emit(VPN_MESSAGE_UNWRITABLE, text, client=client)
