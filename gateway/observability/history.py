"""The history of figures in bounded memory: steps of 2 seconds for 5 minutes, steps of 10 seconds for an hour.

Nothing is counted for it: counters that exist are read at each step, and two readings make the values of a step. A step
is named by its number since the epoch of the wall clock, so that the steps of several brokers are the same ones.

One object takes at most 4 bytes for each of its figures and of 510 steps.
"""

import math
from array import array
from collections.abc import Hashable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar, final

STEP_MS: Final = 2_000
STEPS_MAX: Final = 150  # five minutes
COARSE: Final = 5  # steps that make a coarse one
COARSE_STEP_MS: Final = STEP_MS * COARSE
COARSE_STEPS_MAX: Final = 360  # an hour
FINE_SPAN_S: Final = STEPS_MAX * STEP_MS // 1000

IDLE_STEPS: Final = 30  # an object at rest for a minute makes room for one that works
LOOK_STEPS: Final = 1_800  # an object that an operator looked at within an hour makes room for none

NOTHING: Final = math.nan  # the value of a step in which nothing was measured


class Kind(Enum):
    """What a figure is: how readings become values, and values of several steps one."""

    RATE = "rate"  # read as a total; the increase per second, of several steps the mean
    LEVEL = "level"  # read as it is; of several steps the last
    TIME = "time"  # read as a sum of times and a count of what took them; the mean, of several steps the highest


class Figure(NamedTuple):
    """One figure of an object."""

    name: str
    kind: Kind


def values_of(
    figures: Sequence[Figure], before: Sequence[float] | None, now: Sequence[float], passed_s: float
) -> list[float]:
    """Return the values of the step between two readings. A reading has one number for each figure, two for a time.

    A total that has fallen is that of another object of the name: the step has no rate.
    """
    values: list[float] = []
    at = 0
    for figure in figures:
        if figure.kind is Kind.LEVEL:
            values.append(now[at])
        elif before is None or passed_s <= 0 or now[at] < before[at]:
            values.append(NOTHING)
        elif figure.kind is Kind.RATE:
            values.append((now[at] - before[at]) / passed_s)
        else:
            count = now[at + 1] - before[at + 1]
            values.append((now[at] - before[at]) / count if count > 0 else NOTHING)
        at += 2 if figure.kind is Kind.TIME else 1
    return values


def folded(figures: Sequence[Figure], steps: Sequence[Sequence[float]]) -> list[float]:
    """Return one step for several; a figure that has no value in any of them has none."""
    return [_folded(figure.kind, [step[at] for step in steps]) for at, figure in enumerate(figures)]


def _folded(kind: Kind, values: Sequence[float]) -> float:
    known = [each for each in values if not math.isnan(each)]
    if not known:
        return NOTHING
    if kind is Kind.RATE:
        return sum(known) / len(known)
    return known[-1] if kind is Kind.LEVEL else max(known)


@final
class Ring:
    """The values of the latest steps, at most `steps_max` of them. Steps in which nothing was put have no values."""

    def __init__(self, figures_count: int, steps_max: int) -> None:
        self._width = figures_count
        self._steps_max = steps_max
        self._values = array("f", [NOTHING]) * (figures_count * steps_max)
        self._first = 0  # that was put since it began
        self.end = 0  # behind the last one; 0: none

    def put(self, step: int, values: Sequence[float]) -> None:
        """Put the values of a step; again for the last one. A step long before the last, or long after it, begins anew.

        The first happens when the wall clock is set back.
        """
        if not self.end or step < self.end - 1 or step >= self.end + self._steps_max:
            self._first, self.end = step, step
        for passed in range(self.end, step):
            self._set(passed, [NOTHING] * self._width)
        self._set(step, values)
        self.end = step + 1

    def _set(self, step: int, values: Sequence[float]) -> None:
        at = step % self._steps_max * self._width
        self._values[at : at + self._width] = array("f", values)

    def after(self, step: int) -> tuple[int, list[Sequence[float]]]:
        """Return the first kept step behind `step`, and the values of this and all later ones."""
        begin = max(step + 1, self._first, self.end - self._steps_max)
        return begin, [self._of(each) for each in range(begin, self.end)]

    def _of(self, step: int) -> Sequence[float]:
        at = step % self._steps_max * self._width
        return self._values[at : at + self._width]


@final
class History:
    """The figures of one object in fine and in coarse steps. A coarse step is there when it is over.

    A coarse step `n` is that of the steps up to `n * COARSE`.
    """

    def __init__(self, figures: Sequence[Figure]) -> None:
        self.figures = figures
        self.fine = Ring(len(figures), STEPS_MAX)
        self.coarse = Ring(len(figures), COARSE_STEPS_MAX)
        self._open: list[list[float]] = []  # of the coarse step that is not over
        self._open_step = 0
        self._reading: tuple[float, Sequence[float]] | None = None  # when, in seconds of a monotonic clock, and what

    def read(self, step: int, at_s: float, reading: Sequence[float]) -> bool:
        """Take a reading for a step; return whether it differs from the one before."""
        before = self._reading
        self._reading = at_s, reading
        passed_s = 0.0 if before is None else at_s - before[0]
        self._add(step, values_of(self.figures, None if before is None else before[1], reading, passed_s))
        return before is None or before[1] != reading

    def _add(self, step: int, values: list[float]) -> None:
        self.fine.put(step, values)
        coarse = -(-step // COARSE)
        if coarse != self._open_step:
            self._close()
        self._open_step = coarse
        self._open.append(values)
        if step % COARSE == 0:
            self._close()

    def _close(self) -> None:
        if self._open:
            self.coarse.put(self._open_step, folded(self.figures, self._open))
        self._open = []


K = TypeVar("K", bound=Hashable)


class _Kept:
    __slots__ = ("history", "looked_step", "worked_step")

    def __init__(self, history: History) -> None:
        self.history = history
        self.looked_step = -LOOK_STEPS  # when an operator looked at it
        self.worked_step = 0  # when a reading of it differed from the one before


@final
class Histories(Generic[K]):
    """The histories of the objects of a kind, of at most `count_max` of them.

    An object gets one when it works, if there is room, or one at rest makes room. It gets one when an operator looks at
    it, whatever the others do.
    """

    def __init__(self, figures: Sequence[Figure], count_max: int) -> None:
        self.figures = figures
        self._count_max = count_max
        self._kept: dict[K, _Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._kept))

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def look(self, key: K, step: int) -> History:
        """Return the history of an object that an operator looks at; one that begins now has no steps."""
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= self._count_max:
                del self._kept[min(self._kept, key=lambda each: self._standing(each, step))]
            kept = self._add(key, step)
        kept.looked_step = step
        return kept.history

    def offer(self, keys: Iterable[K], step: int) -> None:
        """Keep the histories of objects that work: of as many as there is room for, or others make room for."""
        new = [key for key in keys if key not in self._kept]
        free_count = self._count_max - len(self._kept)
        if len(new) > free_count:
            resting = [(self._kept[key].worked_step, at) for at, key in enumerate(self._kept) if self._rests(key, step)]
            names = list(self._kept)
            for _, at in sorted(resting)[: len(new) - free_count]:
                del self._kept[names[at]]
                free_count += 1
        for key in new[:free_count]:
            self._add(key, step)

    def read(self, key: K, step: int, at_s: float, reading: Sequence[float]) -> None:
        """Take a reading of an object that has a history."""
        kept = self._kept[key]
        if kept.history.read(step, at_s, reading):
            kept.worked_step = step

    def drop(self, key: K) -> None:
        """Forget an object that is gone."""
        self._kept.pop(key, None)

    def forget_unseen(self, step: int) -> None:
        """Forget objects that no operator has looked at for an hour."""
        for key in [key for key, kept in self._kept.items() if step - kept.looked_step >= LOOK_STEPS]:
            del self._kept[key]

    def _add(self, key: K, step: int) -> _Kept:
        kept = self._kept[key] = _Kept(History(self.figures))
        kept.worked_step = step
        return kept

    def _rests(self, key: K, step: int) -> bool:
        is_looked_at, worked_step = self._standing(key, step)
        return not is_looked_at and step - worked_step >= IDLE_STEPS

    def _standing(self, key: K, step: int) -> tuple[bool, int]:
        kept = self._kept[key]
        return step - kept.looked_step < LOOK_STEPS, kept.worked_step
