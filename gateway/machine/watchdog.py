"""Whether a broker answers its heartbeats, and what the supervisor does about one that does not."""

from enum import Enum, auto
from typing import Final, final

from sluicegate.gateway.config.sections.watchdog import Watchdog

HEARTBEAT_S: Final = 1  # from one heartbeat to the next


class Step(Enum):
    """What follows from a heartbeat."""

    UNRESPONSIVE = auto()  # it does not answer: ask it nothing
    CLEAR = auto()  # it answers again
    DUMP = auto()  # it is about to be killed: have it write where it hangs
    KILL = auto()


@final
class Heartbeats:
    """The heartbeats of one broker that takes traffic, for as long as its process runs.

    Counted are the supervisor's own heartbeats, and no clock. So a broker that was stopped together with the
    supervisor, by a signal or because the machine slept, is not taken for one that hangs.
    """

    def __init__(self) -> None:
        self.is_unresponsive = False
        self._silent_s = 0
        self._is_killed = False  # but its process has not ended yet

    def beat(self, *, answered: bool, settings: Watchdog) -> Step | None:
        """Take note of whether the last heartbeat was answered; return what has to be done now, if anything has."""
        if answered:
            self._silent_s = 0
            was, self.is_unresponsive = self.is_unresponsive, False
            return Step.CLEAR if was else None
        self._silent_s += HEARTBEAT_S
        if settings.kill_s and self._silent_s > settings.kill_s:
            step = None if self._is_killed else Step.KILL
            self._is_killed = True
            return step
        if self._silent_s == settings.kill_s:
            return Step.DUMP
        if self._silent_s >= settings.unresponsive_s and not self.is_unresponsive:
            self.is_unresponsive = True
            return Step.UNRESPONSIVE
        return None
