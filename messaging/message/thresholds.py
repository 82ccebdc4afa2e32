"""Thresholds: when a quantity that rises and falls is news. Raised at one level, cleared below a lower one.

The two levels are written as a pair, percentages of a limit (`80/60%`) or values (`1250/900`), never mixed. Whoever
owns a quantity compares it with `raise_at` when it has risen and with `clear_below` when it has fallen, once a batch;
all else happens on a crossing. What is told then, and to whom, is the owner's business.
"""

import re
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

NEVER_REACHED: Final = 1 << 60  # of the integers that compiled code compares without making objects
PERCENT_MAX: Final = 100
VALUE_MAX: Final = 0xFFFF_FFFF
PAIR_FORM: Final = re.compile(r"([0-9]{1,10})/([0-9]{1,10})(%?)")
PAIR_ALLOWED: Final = f"SET/CLEAR% with 1 <= CLEAR <= SET <= {PERCENT_MAX}, or SET/CLEAR as values up to {VALUE_MAX}"


class ThresholdInvalid(ValueError):
    """A text is no pair of thresholds."""


@final
class ThresholdPair:
    """Where something is raised and where it is cleared: percentages of a limit, or values."""

    __slots__ = ("clear", "is_percent", "set")

    def __init__(self, text: str) -> None:
        """Read a pair such as `80/60%`. Raises ThresholdInvalid."""
        found = PAIR_FORM.fullmatch(text)
        if found is None:
            raise ThresholdInvalid(f"{text!r} is not of the form; allowed: {PAIR_ALLOWED}")
        self.set = int(found[1])
        self.clear = int(found[2])
        self.is_percent = found[3] == "%"
        if not 1 <= self.clear <= self.set <= (PERCENT_MAX if self.is_percent else VALUE_MAX):
            raise ThresholdInvalid(f"{text!r} is out of range; allowed: {PAIR_ALLOWED}")

    def levels(self, limit: int, unit: int) -> tuple[int, int]:
        """Return the levels to raise at and to clear below, for a limit; values are multiples of `unit`."""
        if self.is_percent:
            # Rounded up: 80 % of 3 is reached with 3, and the levels are never 0.
            return -(-limit * self.set // 100), -(-limit * self.clear // 100)
        return self.set * unit, self.clear * unit


@final
class Threshold:
    """One quantity under watch.

    Invariants: raised or not, one of `raise_at` and `clear_below` is out of reach; a change is told once.
    """

    __slots__ = ("_clear", "_set", "_tell", "clear_below", "is_raised", "raise_at")

    def __init__(self, tell: Callable[[bool, int, int], None]) -> None:
        """Watch nothing until `watch`. `tell` hears: raised or cleared, the level, and the value."""
        self._tell = tell
        self._set = NEVER_REACHED
        self._clear = 0
        self.is_raised = False
        self.raise_at: i64 = NEVER_REACHED
        self.clear_below: i64 = 0

    def watch(self, pair: ThresholdPair, *, limit: int, unit: int, value: int) -> None:
        """Take other levels; a limit of 0 is none, and then nothing is raised. Tells when that changes the state."""
        self._set, self._clear = pair.levels(limit, unit) if limit > 0 else (NEVER_REACHED, NEVER_REACHED)
        self._arm()
        if value >= self.raise_at or value < self.clear_below:
            self.cross(value)

    def cross(self, value: int) -> None:
        """Note that the value reached `raise_at`, or fell below `clear_below`."""
        self.is_raised = not self.is_raised
        self._arm()
        self._tell(self.is_raised, self._set if self.is_raised else self._clear, value)

    def _arm(self) -> None:
        self.raise_at = NEVER_REACHED if self.is_raised else self._set
        self.clear_below = self._clear if self.is_raised else 0


@final
class Exceedance:
    """A limit that refuses: news the first time, and again once a tenth of the limit was taken in meanwhile.

    Refusals come by the thousand while a queue is full. That it was emptied and filled again shows in what it took.
    """

    __slots__ = ("_taken_before", "_tell")

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell  # hears the limit
        self._taken_before = -1  # what had been taken in all when it was last told; -1: never

    def refused(self, *, taken: int, limit: int) -> None:
        """Note a refusal. `taken` is what was taken in all, in the unit of the limit."""
        if self._taken_before < 0 or taken - self._taken_before > limit // 10:
            self._taken_before = taken
            self._tell(limit)


def no_listener(_raised: bool, _level: int, _value: int) -> None:
    """Be told of a threshold by somebody that nobody watches."""


def no_refusal_listener(_limit: int) -> None:
    """Be told of an exceedance by somebody that nobody watches."""
