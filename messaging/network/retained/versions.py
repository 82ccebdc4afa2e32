"""Versions of what all brokers of a network have in common: the last writer wins, whoever hears of it when.

A version is a time, a counter and the name of the broker that gave it, compared in this order. The time is that of the
broker's wall clock or, if that is behind, of the latest version that the broker has seen (a hybrid logical clock). So
what a broker writes is later than everything it knew.
"""

from typing import Final, final

AHEAD_MS_MAX: Final = 60 * 60 * 1000  # of a version before the clock of a broker that takes it: else a clock is wrong
COUNTER_MAX: Final = 0xFFFF_FFFF


@final
class Version:
    """When something was written, and by which broker. Immutable."""

    __slots__ = ("broker", "counter", "wall_ms")

    def __init__(self, wall_ms: int, counter: int, broker: str) -> None:
        self.wall_ms = wall_ms
        self.counter = counter  # of the versions with the same time
        self.broker = broker

    def is_after(self, other: "Version") -> bool:
        """Return whether this version wins over another."""
        if self.wall_ms != other.wall_ms:
            return self.wall_ms > other.wall_ms
        if self.counter != other.counter:
            return self.counter > other.counter
        return self.broker > other.broker

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Version)
            and self.wall_ms == other.wall_ms
            and self.counter == other.counter
            and self.broker == other.broker
        )

    def __hash__(self) -> int:
        return hash((self.wall_ms, self.counter, self.broker))

    def __repr__(self) -> str:
        return f"Version({self.wall_ms}, {self.counter}, {self.broker!r})"


NO_VERSION: Final = Version(0, 0, "")  # every other one is after it


@final
class VersionClock:
    """Gives versions, each after all that it has given or seen."""

    def __init__(self, broker: str = "") -> None:
        self.broker = broker
        self._wall_ms = 0
        self._counter = 0

    def next(self, wall_ms: int) -> Version:
        """Return the version of what is written now, when the wall clock shows `wall_ms`."""
        if wall_ms > self._wall_ms:
            self._wall_ms = wall_ms
            self._counter = 0
        elif self._counter < COUNTER_MAX:
            self._counter += 1
        else:
            self._wall_ms += 1
            self._counter = 0
        return Version(self._wall_ms, self._counter, self.broker)

    def is_ahead(self, wall_ms: int) -> bool:
        """Return whether versions are so far ahead of this time that no broker with a right clock takes them."""
        return self._wall_ms > wall_ms + AHEAD_MS_MAX

    def goes_back(self, wall_ms: int) -> None:
        """Give versions of this time again: those that are later come of a clock that was wrong."""
        self._wall_ms = wall_ms
        self._counter = 0

    def saw(self, version: Version) -> None:
        """Give only versions after this one from now on."""
        if version.wall_ms > self._wall_ms:
            self._wall_ms, self._counter = version.wall_ms, version.counter
        elif version.wall_ms == self._wall_ms and version.counter > self._counter:
            self._counter = version.counter
