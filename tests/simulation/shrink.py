"""Shrinking of a failing run: omit steps while it fails in the same way, large parts first (delta debugging)."""

import re
from collections.abc import Callable

from simulation.run import Outcome, run
from simulation.steps import Step

RUNS_MAX = 600
LAST_WORDS = 4  # of what was violated: they say which promise it was, and no name or number of this run


Run = Callable[[int, list[Step]], Outcome]


def shrink(seed: int, steps: list[Step], run: Run = run) -> tuple[list[Step], Outcome]:
    """Return fewer steps that fail alike, and what becomes of them. The given ones have to fail."""
    outcome = run(seed, steps)
    assert outcome.violation, "only a failing run can be shrunk"
    promise = _promise(outcome)
    kept = steps[: outcome.failed_at + 1]
    size = max(1, len(kept) // 2)
    runs = 0
    while runs < RUNS_MAX:
        place, smaller = 0, False
        while place < len(kept) and runs < RUNS_MAX:
            fewer = kept[:place] + kept[place + size :]
            its = run(seed, fewer)
            runs += 1
            if _promise(its) == promise:
                kept, outcome, smaller = fewer[: its.failed_at + 1], its, True
            else:
                place += size
        if size == 1 and not smaller:
            break
        size = max(1, size // 2)
    return kept, outcome


def _promise(outcome: Outcome) -> list[str]:
    return re.findall("[A-Za-z]+", outcome.violation)[-LAST_WORDS:]
