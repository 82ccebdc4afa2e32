"""Marks of a stretch of messages: what a queue has to know of it without having it in memory.

A page carries its marks in its directory row, so a partition with a million messages on disk knows when the next of
them may expire or become due, and what priorities there are, from some thousand rows. Marks are bounds: a page is read
when they say that it may be time, and its messages decide.
"""

from typing import Final, NamedTuple

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import PRIORITY_DEFAULT, PRIORITY_MAX, Headers

PRIORITIES_ALL: Final = (1 << PRIORITY_MAX + 1) - 1
TIME_MAX: Final = (1 << 63) - 1


class Marks(NamedTuple):
    """Bounds for every message of a stretch. Times are milliseconds of the wall clock."""

    arrived_ms: int  # when the oldest came
    expires_ms: int  # the earliest expiry that a publisher set; 0: there is none
    not_before_ms: int  # no publisher allowed an earlier delivery; 0: one allowed it at once
    priorities: int  # bit p is set when a message may have priority p


# Of a page whose row has no marks: its messages have to be looked at to know anything.
UNKNOWN_MARKS: Final = Marks(0, 1, 0, PRIORITIES_ALL)


def marks_of(batch: MessageBatch) -> Marks:
    """Return the marks of all rows of a batch."""
    column = batch.headers()
    if column is None:
        return Marks(batch.received_ms, 0, 0, 1 << PRIORITY_DEFAULT)
    expires_ms = 0
    not_before_ms = TIME_MAX
    priorities = 0
    for headers in column:
        if headers is None:
            not_before_ms = 0
            priorities |= 1 << PRIORITY_DEFAULT
            continue
        if headers.expires_at_ms > 0 and (expires_ms == 0 or headers.expires_at_ms < expires_ms):
            expires_ms = min(headers.expires_at_ms, TIME_MAX)
        not_before_ms = min(not_before_ms, max(headers.not_before_ms, 0))
        priorities |= 1 << min(headers.priority, PRIORITY_MAX)
    return Marks(batch.received_ms, expires_ms, not_before_ms, priorities)


def marks_together(one: Marks, other: Marks) -> Marks:
    """Return the marks of two stretches taken as one."""
    if one.expires_ms == 0 or other.expires_ms == 0:
        expires_ms = max(one.expires_ms, other.expires_ms)
    else:
        expires_ms = min(one.expires_ms, other.expires_ms)
    return Marks(
        min(one.arrived_ms, other.arrived_ms),
        expires_ms,
        min(one.not_before_ms, other.not_before_ms),
        one.priorities | other.priorities,
    )


def has_delays(column: list[Headers | None]) -> bool:
    """Return whether some message may not be delivered at once."""
    return any(headers is not None and headers.not_before_ms > 0 for headers in column)
