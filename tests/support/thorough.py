"""How much tests do of what they could repeat without end: little in each run, and more for `make test-thorough`.

`make test-pure` tries a quarter of what `make test` tries of the same sources compiled: what the two builds do
differently shows in few examples.
"""

import os
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import pytest

THOROUGH: Final = os.environ.get("SLUICEGATE_THOROUGH") == "1"
AGAIN: Final = os.environ.get("SLUICEGATE_EXPECT") == "pure" and not THOROUGH

Amount = TypeVar("Amount")

# Of a test that shows again, with other parts, what another test shows in each run.
only_thorough = pytest.mark.skipif(not THOROUGH, reason="takes long; `make test-thorough` runs it")


def amount(each_run: Amount, *, thorough: Amount) -> Amount:
    """Return how much to do: in each run, or where it may take long."""
    return thorough if THOROUGH else each_run


def examples(count: int) -> int:
    """Return how many examples or seeds to try, of so many in the run over the compiled package."""
    return max(1, count // 4) if AGAIN else count


def cases(values: Iterable[object], *, each_run: int) -> list[Any]:
    """Return the values of one parameter of a test: the first so many for each run, the others for thorough ones."""
    return [pytest.param(value, marks=() if at < each_run else only_thorough) for at, value in enumerate(values)]
