"""The order in which a queue binding may push its messages: one message of a lane at a time.

With order kept, a partition is a lane. Without, every message is a lane of its own.
"""

from collections import deque
from typing import final

from sluicegate.protocols.http.consuming.unsettled import UnsettledMessage


@final
class Lanes:
    """The messages of one flow that wait to be pushed.

    Invariants: a lane is in `_open` when it has messages and none of it is out; messages of a lane come out in the
    order they were added in. One that its queue has taken back and delivered again takes its former place.
    """

    def __init__(self, *, keeps_order: bool) -> None:
        self._keeps_order = keeps_order
        self._waiting: dict[int, deque[UnsettledMessage]] = {}  # by lane
        self._out: dict[int, UnsettledMessage] = {}  # by lane: the message of it that is being pushed
        self._open: deque[int] = deque()

    def add(self, message: UnsettledMessage) -> None:
        """Put a message behind those of its lane; one that comes again, before those that stood behind it."""
        lane = self._lane(message)
        waiting = self._waiting.get(lane)
        if waiting is None:
            waiting = self._waiting[lane] = deque()
        out = self._out.get(lane)
        places = [place for place, each in enumerate(waiting) if each.sequence == message.sequence]
        if out is not None and out.sequence == message.sequence:
            waiting.appendleft(message)
        elif places and self._keeps_order:
            waiting[places[0]] = message  # the delivery before it is void
            return
        else:
            waiting.append(message)
        if len(waiting) == 1 and lane not in self._out:
            self._open.append(lane)

    def next(self) -> UnsettledMessage | None:
        """Take a message out of the lane that has waited longest; None when there is none to push."""
        if not self._open:
            return None
        lane = self._open.popleft()
        message = self._waiting[lane].popleft()
        self._out[lane] = message
        return message

    def done(self, message: UnsettledMessage) -> None:
        """Let the lane of a message that was taken out go on."""
        lane = self._lane(message)
        self._out.pop(lane, None)
        if self._waiting.get(lane):
            self._open.append(lane)
        else:
            self._waiting.pop(lane, None)

    def take_rest(self, message: UnsettledMessage) -> list[UnsettledMessage]:
        """Take out all that waits behind a message that was taken out; return it in order."""
        waiting = self._waiting.get(self._lane(message))
        rest = [] if waiting is None else list(waiting)
        if waiting is not None:
            waiting.clear()
        return rest

    def _lane(self, message: UnsettledMessage) -> int:
        return message.source.partition_number if self._keeps_order else message.number

    def check(self) -> None:
        """Assert the invariants."""
        assert sorted(self._open) == sorted(
            lane for lane, waiting in self._waiting.items() if waiting and lane not in self._out
        )
