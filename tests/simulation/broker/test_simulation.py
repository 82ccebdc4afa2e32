"""A fixed set of seeds with every change; `make simulate` plays more. A failure names the command that replays it."""

import pytest

from simulation.command import replay_command
from simulation.run import STEPS_DEFAULT, run
from support.thorough import amount, examples

SEEDS_PER_TEST = 2
SEEDS = examples(amount(8, thorough=32))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_PER_TEST))
def test_every_promise_is_kept_whatever_happens(first: int) -> None:
    """Nothing confirmed is lost, order holds by key, nothing is left over: `simulation.judge.truth` has the rules."""
    for seed in range(first, first + SEEDS_PER_TEST):
        outcome = run(seed)
        assert outcome.violation == "", f"{outcome.violation}\nagain: {replay_command(seed, STEPS_DEFAULT)}"


@pytest.mark.timeout(600)
def test_a_seed_is_one_run_and_no_other() -> None:
    """What the node writes to its clients and to its journal is the same, byte for byte."""
    traces = [run(7).trace for _ in range(2)]
    assert traces[0] == traces[1]
    assert run(8).trace != traces[0]
