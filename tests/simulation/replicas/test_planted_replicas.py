"""Runs of three replicas find faults of replicas: each planted fault must be found."""

from pathlib import Path

import pytest

from simulation.planted import Planted, edited, plant, play
from simulation.replicas.planted import FAULTS
from simulation.replicas.steps import STEPS_DEFAULT
from support.thorough import cases

SEEDS_MAX = 12
EACH_RUN = 2


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted_in_the_sources_as_they_are(fault: Planted) -> None:
    assert edited(fault), "an edit of it, at least"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", cases(FAULTS, each_run=EACH_RUN), ids=lambda fault: fault.name)
def test_a_planted_fault_of_replicas_is_found(fault: Planted, tmp_path: Path) -> None:
    plant(fault, tmp_path)
    options = ("--replicas", "--steps", str(STEPS_DEFAULT))
    played = play(tmp_path, *options, first=fault.seed, seeds=SEEDS_MAX, failures_max=1, jobs=1)
    assert played.failed == 1, f"{played.played} seeds, and none noticed that {fault.name}"
