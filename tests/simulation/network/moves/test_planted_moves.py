"""Runs in which a queue moves find faults of moves: each planted fault must be found."""

from pathlib import Path

import pytest

from simulation.network.moves.planted import FAULTS
from simulation.planted import Planted, plant, play

STEPS, SEEDS_MAX = 100, 24


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_of_moves_is_found(fault: Planted, tmp_path: Path) -> None:
    plant(fault, tmp_path)
    options = ("--moves", "--steps", str(STEPS))
    played = play(tmp_path, *options, first=fault.seed, seeds=SEEDS_MAX, failures_max=1, jobs=1)
    assert played.failed == 1, f"{played.played} seeds, and none noticed that {fault.name}"
