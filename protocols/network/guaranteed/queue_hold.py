"""The hold of one queue's topics, as it is stored."""

from typing import Final, final

import orjson

from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.messaging.queues.moves import filters_in

Filters = tuple[tuple[str, str], ...]  # each with its syntax


@final
class QueueHold:
    """The hold of one queue."""

    def __init__(self, queue: str, old: str, new: str, filters: Filters, attempt: int) -> None:
        self.queue: Final = queue
        self.old: Final = old  # its home before, by name
        self.new: Final = new  # its home afterwards
        self.filters: Final = filters
        self.attempt: Final = attempt  # number that the old home has given
        self.is_answered = False  # it does not end by itself any more
        self.since_ms = 0
        self.released: LoopFuture[None] | None = None  # it is being ended

    def value(self) -> bytes:
        """Return what is stored."""
        return orjson.dumps({"old": self.old, "new": self.new, "filters": self.filters, "attempt": self.attempt})


def hold_in(queue: str, value: bytes) -> QueueHold:
    """Return a stored hold. Raises ValueError."""
    try:
        row = orjson.loads(value)
        filters = tuple((str(text), str(syntax)) for text, syntax in row["filters"])
        hold = QueueHold(queue, str(row["old"]), str(row["new"]), filters, int(row["attempt"]))
        filters_in(filters)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the hold of queue {queue!r}: {error!r}") from None
    hold.is_answered = True
    return hold
