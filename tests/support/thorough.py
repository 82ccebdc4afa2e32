"""How much a test does of what it could repeat without end: little in each run, and more for `make test-thorough`."""

import os
from typing import Final, TypeVar

THOROUGH: Final = os.environ.get("SLUICEGATE_THOROUGH") == "1"

Amount = TypeVar("Amount")


def amount(each_run: Amount, *, thorough: Amount) -> Amount:
    """Return how much to do: in each run, or where it may take long."""
    return thorough if THOROUGH else each_run
