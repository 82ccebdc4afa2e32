"""A fixed set of seeds with every change; `make simulate-network` plays more."""

import pytest

from simulation.command import NETWORK, replay_command
from simulation.network.run import run
from simulation.network.steps import STEPS_DEFAULT
from support.thorough import amount, examples

FEW_STEPS = 60
FEWER_STEPS = 45  # the first of them are the same in each run


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, 3))
def test_three_brokers_keep_every_promise_in_a_short_run(seed: int) -> None:
    outcome = run(seed, count=FEW_STEPS)
    assert outcome.violation == "", f"{outcome.violation}\nagain: {replay_command(seed, FEW_STEPS, NETWORK)}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, examples(amount(4, thorough=16)) + 1))
def test_three_brokers_keep_every_promise_whatever_happens(seed: int) -> None:
    outcome = run(seed)
    assert outcome.violation == "", f"{outcome.violation}\nagain: {replay_command(seed, STEPS_DEFAULT, NETWORK)}"


@pytest.mark.timeout(600)
def test_a_seed_is_one_run_and_no_other() -> None:
    """What brokers write to each other, to clients and to their journals is the same, byte for byte."""
    traces = [run(7, count=FEWER_STEPS).trace for _ in range(2)]
    assert traces[0] == traces[1]
    assert run(8, count=FEWER_STEPS).trace != traces[0]
