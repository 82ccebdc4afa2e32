"""A fixed set of seeds in which a queue moves; `make simulate-moves` plays more. Planted faults must be found."""

from pathlib import Path

import pytest

from simulation.command import MOVES, replay_command
from simulation.network.moves.planted import FAULTS
from simulation.network.moves.run import run_moves
from simulation.planted import Planted, plant, play

STEPS, SEEDS_MAX = 100, 24


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, 9))
def test_a_queue_moves_and_nothing_is_lost_doubled_or_reordered_whatever_happens(seed: int) -> None:
    outcome = run_moves(seed, count=STEPS)
    assert outcome.violation == "", f"{outcome.violation}\nagain: {replay_command(seed, STEPS, MOVES)}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_of_moves_is_found(fault: Planted, tmp_path: Path) -> None:
    plant(fault, tmp_path)
    options = ("--moves", "--steps", str(STEPS))
    played = play(tmp_path, *options, first=fault.seed, seeds=SEEDS_MAX, failures_max=1, jobs=1)
    assert played.failed == 1, f"{played.played} seeds, and none noticed that {fault.name}"
