"""Times of messages that cross a link: the clocks of two brokers may differ, so a time of day means nothing there.

A frame names the sender's clock at the moment it is written. The difference between a time in a message and that moment
is a duration: what is left of its life, or of its delay. The receiver counts it from its own clock. So the time that a
message spent with the sender has passed, and clocks that differ change nothing.
"""

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers


def leaving(batch: MessageBatch, wall_ms: int) -> MessageBatch | None:
    """Return a batch without the messages that have expired: mostly the batch itself. None: all have expired."""
    column = batch.headers()
    if column is None:
        return batch
    alive = [row for row, headers in enumerate(column) if headers is None or not 0 < headers.expires_at_ms <= wall_ms]
    if len(alive) == batch.count:
        return batch
    return batch.select(alive) if alive else None


def arriving(batch: MessageBatch, sent_ms: int, wall_ms: int) -> MessageBatch:
    """Return a batch as it arrives: with times of this broker's clock, which shows `wall_ms`.

    `sent_ms` is what the sender's clock showed when it wrote the frame.
    """
    column = batch.headers()
    if column is None or not any(each is not None and (each.expires_at_ms or each.not_before_ms) for each in column):
        return batch.arriving(wall_ms)
    shift = wall_ms - sent_ms
    shifted: dict[int, Headers] = {}  # by the identity of the headers: rows that follow each other often share them
    moved: list[Headers | None] = []
    for headers in column:
        if headers is not None and (headers.expires_at_ms or headers.not_before_ms):
            known = shifted.get(id(headers))
            if known is None:
                known = shifted[id(headers)] = headers.copy()
                known.expires_at_ms = max(1, headers.expires_at_ms + shift) if headers.expires_at_ms else 0
                known.not_before_ms = max(1, headers.not_before_ms + shift) if headers.not_before_ms else 0
            moved.append(known)
        else:
            moved.append(headers)
    return batch.with_headers(moved).arriving(wall_ms)
