"""The events of all brokers in one row, with numbers of the machine: each broker counts its own."""

from collections import deque
from dataclasses import replace
from typing import final

from sluicegate.actors.runtime.events import RECENT_MAX
from sluicegate.gateway.views.node.runtime import EventView


@final
class MergedEvents:
    """The latest events of all brokers, in the order in which they were asked for, and by time within an answer."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}  # the last number of each broker
        self._recent: deque[EventView] = deque(maxlen=RECENT_MAX)
        self._number = 0

    def last_of(self, broker: str) -> int:
        """Return the number of a broker's last event that was taken; 0: none."""
        return self._last.get(broker, 0)

    def forget(self, broker: str) -> None:
        """The broker was started again, and counts from 1."""
        self._last.pop(broker, None)

    def take(self, broker: str, events: list[EventView]) -> None:
        """Take further events of a broker, and give them numbers."""
        for event in events:
            self._last[broker] = event.number
            self._number += 1
            self._recent.append(replace(event, number=self._number))

    def recent(self, after: int, limit: int) -> list[EventView]:
        """Return events with numbers above `after`; the latest ones when there are more than `limit`."""
        return [event for event in self._recent if event.number > after][-limit:]
