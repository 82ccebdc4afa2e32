"""A clock that a test sets."""

from sluicegate.actors.runtime.clock import Clock


class SetClock(Clock):
    """A clock that stands still until a test sets `at_ms`, which both of its times show."""

    def __init__(self, at_ms: int = 0) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms

    def now_ns(self) -> int:
        return self.at_ms * 1_000_000

    def wall_ms(self) -> int:
        return self.at_ms
