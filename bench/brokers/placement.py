"""The cores of the broker and those of the load generator.

Left alone, some schedulers pack both onto one core while the other idles (seen on a two-core virtual machine: the
broker at 60 %, the generator at 40 %), in one run and not in the next, and the wall rate then halves.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

Cores = frozenset[int]


def split_cores(cores: Cores, *, workers: int) -> tuple[Cores, Cores]:
    """Return the broker's cores and the generator's: as many as it has workers, but one core stays the broker's."""
    if len(cores) < 2:
        return cores, cores
    ordered = sorted(cores)
    first = max(1, len(ordered) - workers)
    return frozenset(ordered[:first]), frozenset(ordered[first:])


@contextmanager
def on_cores(cores: Cores) -> Iterator[None]:
    """Run the block on these cores; processes started in it stay there."""
    former = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, former)
