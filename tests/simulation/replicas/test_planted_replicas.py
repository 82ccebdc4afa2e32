"""Runs of three replicas find faults of replicas: each planted fault must be found."""

from pathlib import Path

import pytest

from simulation.planted import Planted, plant, play
from simulation.replicas.planted import FAULTS
from simulation.replicas.steps import STEPS_DEFAULT

SEEDS_MAX = 12


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_of_replicas_is_found(fault: Planted, tmp_path: Path) -> None:
    plant(fault, tmp_path)
    options = ("--replicas", "--steps", str(STEPS_DEFAULT))
    played = play(tmp_path, *options, first=fault.seed, seeds=SEEDS_MAX, failures_max=1, jobs=1)
    assert played.failed == 1, f"{played.played} seeds, and none noticed that {fault.name}"
