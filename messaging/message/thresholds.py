"""Thresholds: report when a quantity rises to one level, and when it falls below a lower one.

The two levels are written as a pair, percentages of a limit (`80/60%`) or values (`1250/900`), never mixed. The owner
of a quantity compares it once a batch: with `raise_at` when it has risen and with `clear_below` when it has fallen.
Everything else is done on a crossing. The owner also decides what is reported, and where.
"""

import re
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

NEVER_REACHED: Final = 1 << 60  # in the range of integers that compiled code compares without making objects
PERCENT_MAX: Final = 100
VALUE_MAX: Final = 0xFFFF_FFFF
PAIR_FORM: Final = re.compile(r"([0-9]{1,10})/([0-9]{1,10})(%?)")
PAIR_ALLOWED: Final = f"SET/CLEAR% with 1 <= CLEAR <= SET <= {PERCENT_MAX}, or SET/CLEAR as values up to {VALUE_MAX}"


class ThresholdInvalid(ValueError):
    """A text is not a pair of thresholds."""


@final
class ThresholdPair:
    """The levels at which a threshold is raised and cleared: percentages of a limit, or values."""

    __slots__ = ("clear", "is_percent", "set")

    def __init__(self, text: str) -> None:
        """Parse a pair such as `80/60%`. Raises ThresholdInvalid."""
        found = PAIR_FORM.fullmatch(text)
        if found is None:
            raise ThresholdInvalid(f"{text!r} is not a pair of thresholds; allowed: {PAIR_ALLOWED}")
        self.set = int(found[1])
        self.clear = int(found[2])
        self.is_percent = found[3] == "%"
        if not 1 <= self.clear <= self.set <= (PERCENT_MAX if self.is_percent else VALUE_MAX):
            raise ThresholdInvalid(f"{text!r} is out of range; allowed: {PAIR_ALLOWED}")

    def levels(self, limit: int, unit: int) -> tuple[int, int]:
        """Return the levels to raise at and to clear below, for a limit; values are multiples of `unit`."""
        if self.is_percent:
            # Rounded up: 80 % of 3 is reached with 3, and a level is never 0.
            return -(-limit * self.set // 100), -(-limit * self.clear // 100)
        return self.set * unit, self.clear * unit


@final
class Threshold:
    """A threshold of one quantity.

    Invariants: raised or not, one of `raise_at` and `clear_below` is out of reach; a change is reported once.
    """

    __slots__ = ("_clear", "_set", "_tell", "clear_below", "is_raised", "raise_at")

    def __init__(self, tell: Callable[[bool, int, int], None]) -> None:
        """Begin without levels; see `watch`. `tell` gets: raised or cleared, the level, and the value."""
        self._tell = tell
        self._set = NEVER_REACHED
        self._clear = 0
        self.is_raised = False
        self.raise_at: i64 = NEVER_REACHED
        self.clear_below: i64 = 0

    def followed_by(self, listener: Callable[[bool], None]) -> "Threshold":
        """Have a listener called after each report, with whether it is raised; return the threshold."""
        tell = self._tell

        def both(raised: bool, level: int, value: int) -> None:
            tell(raised, level, value)
            listener(raised)

        self._tell = both
        return self

    def watch(self, pair: ThresholdPair, *, limit: int, unit: int, value: int) -> None:
        """Set the levels; a limit of 0 is no limit, and nothing is raised. Reports a change of state."""
        self._set, self._clear = pair.levels(limit, unit) if limit > 0 else (NEVER_REACHED, NEVER_REACHED)
        self._arm()
        if value >= self.raise_at or value < self.clear_below:
            self.cross(value)

    def cross(self, value: int) -> None:
        """Handle a value that reached `raise_at` or fell below `clear_below`."""
        self.is_raised = not self.is_raised
        self._arm()
        self._tell(self.is_raised, self._set if self.is_raised else self._clear, value)

    def _arm(self) -> None:
        self.raise_at = NEVER_REACHED if self.is_raised else self._set
        self.clear_below = self._clear if self.is_raised else 0


@final
class Exceedance:
    """A limit that refuses: reported the first time, and again after a tenth of the limit was taken in the meantime.

    Refusals come by the thousand while a queue is full. The amount taken shows that it was emptied and filled again.
    """

    __slots__ = ("_taken_before", "_tell")

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell  # gets the limit
        self._taken_before = -1  # total taken when it was last reported; -1: never

    def refused(self, *, taken: int, limit: int) -> None:
        """Handle a refusal. `taken` is the total taken so far, in the unit of the limit."""
        if self._taken_before < 0 or taken - self._taken_before > limit // 10:
            self._taken_before = taken
            self._tell(limit)

    def forget(self) -> None:
        """Report the next refusal: there was room, by the measure of whoever is told."""
        self._taken_before = -1

    def followed_by(self, listener: Callable[[], None]) -> "Exceedance":
        """Have a listener called after each report; return the exceedance."""
        tell = self._tell

        def both(limit: int) -> None:
            tell(limit)
            listener()

        self._tell = both
        return self


def no_listener(_raised: bool, _level: int, _value: int) -> None:
    """Ignore a change of a threshold: the default listener."""


def no_refusal_listener(_limit: int) -> None:
    """Ignore an exceedance: the default listener."""
