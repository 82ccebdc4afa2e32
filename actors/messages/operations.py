"""What operators ask of single messages of a queue, and the answer. One ask covers a bounded part of one partition."""

from dataclasses import dataclass, field

from sluicegate.messaging.queues.message_filter import MessageFilter
from sluicegate.messaging.routing.destinations import QueueTarget

DELETE = "delete"
MOVE = "move"
COPY = "copy"
REDRIVE = "redrive"  # back to where each one died, or to `target`, as they were published


class QueueGone(Exception):
    """The queue was deleted, or its node stops, before everything was done."""


@dataclass(slots=True)
class TakeMessages:
    """Ask of a queue, passed on to a partition. Answered with MessagesTaken, or QueueGone is raised.

    With `sequences`, those; else what the filter matches of `[first, end)`. What a consumer holds is left alone, but
    for copies.
    """

    deed: str
    partition_number: int
    sequences: list[int] | None  # ascending
    first: int
    end: int
    message_filter: MessageFilter
    limit: int  # most messages to do it to
    target: QueueTarget | None  # None: the messages say where to, or nowhere


@dataclass(slots=True)
class MessagesTaken:
    """What was done. `next_sequence` is where to go on; at `end`, everything was looked at."""

    next_sequence: int = 0
    done_count: int = 0
    kept: dict[str, int] = field(default_factory=dict)  # reason -> messages that were meant and stay
    not_found: list[int] = field(default_factory=list)  # of the sequences asked for
