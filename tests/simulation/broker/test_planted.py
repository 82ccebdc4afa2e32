"""The simulation finds faults: each planted fault must be found."""

from pathlib import Path

import pytest

from simulation.planted import FAULTS, Planted, edited, plant, play
from support.thorough import cases

SEEDS_MAX = 40  # `docs/develop/testing.md` says how soon each is found
EACH_RUN = 2


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted_in_the_sources_as_they_are(fault: Planted) -> None:
    assert edited(fault), "an edit of it, at least"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", cases(FAULTS, each_run=EACH_RUN), ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Planted, tmp_path: Path) -> None:
    plant(fault, tmp_path)
    played = play(tmp_path, first=fault.seed, seeds=SEEDS_MAX, failures_max=1, jobs=1)  # the first finds it
    assert played.failed == 1, f"{played.played} seeds, and none noticed that {fault.name}"
