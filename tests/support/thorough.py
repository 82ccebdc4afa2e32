"""How much a test does of what it could repeat without end: little in each run, and more for `make test-thorough`.

`make test-pure` tries a quarter of what `make test` tries of the same sources compiled: what the two builds do
differently shows in few examples.
"""

import os
from typing import Final, TypeVar

THOROUGH: Final = os.environ.get("SLUICEGATE_THOROUGH") == "1"
AGAIN: Final = os.environ.get("SLUICEGATE_EXPECT") == "pure" and not THOROUGH

Amount = TypeVar("Amount")


def amount(each_run: Amount, *, thorough: Amount) -> Amount:
    """Return how much to do: in each run, or where it may take long."""
    return thorough if THOROUGH else each_run


def examples(count: int) -> int:
    """Return how many examples or seeds to try, of so many in the run over the compiled package."""
    return max(1, count // 4) if AGAIN else count
