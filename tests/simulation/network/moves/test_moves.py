"""A fixed set of seeds in which a queue moves; `make simulate-moves` plays more."""

import pytest

from simulation.command import MOVES, replay_command
from simulation.network.moves.run import run_moves
from support.thorough import amount, examples

STEPS = 100


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, examples(amount(4, thorough=16)) + 1))
def test_a_queue_moves_and_nothing_is_lost_doubled_or_reordered_whatever_happens(seed: int) -> None:
    outcome = run_moves(seed, count=STEPS)
    assert outcome.violation == "", f"{outcome.violation}\nagain: {replay_command(seed, STEPS, MOVES)}"
