"""Rows of a batch as the bodies of LINK_DELIVER, cut so that each fits into a frame."""

import logging
from collections.abc import Iterator

from sluicegate.actors.network.link_batches import body_once, piece_end
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.protocols.network.queues.channel import QueuesChannel

log = logging.getLogger("sluicegate.network")


def bodies(
    batch: MessageBatch, start: int, stop: int, channel: QueuesChannel, neighbor: str
) -> Iterator[tuple[int, int, bytes]]:
    """Yield the first row, the number of rows and the body of each piece; an empty body: it cannot cross the link."""
    while start < stop:
        end = piece_end(batch, start, stop)
        part = batch if start == 0 and end == batch.count else batch.select(list(range(start, end)))
        try:
            body = body_once(part)
        except Exception:  # a fault of ours; it must not hold up what is behind it
            log.exception("%d messages for a client at %s could not be written", part.count, neighbor)
            body = b""
        yield start, part.count, body if channel.takes(body) else b""
        start = end
