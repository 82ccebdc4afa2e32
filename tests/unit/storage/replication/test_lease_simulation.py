"""Replicas that want one key, in many random runs, and faults of each that the judge has to find."""

import re

import pytest

from support.cores.leases import World

SEEDS = range(60)
RUN_S = 600.0


@pytest.mark.parametrize("seed", SEEDS)
def test_there_is_one_owner_within_bounds_whatever_is_lost_or_late(seed: int) -> None:
    world = World(seed)
    world.run(RUN_S)
    assert world.take_count > 1
    assert world.stop_count > 0


def test_an_owner_that_lives_on_its_appends_overlaps_with_the_next_for_less_than_the_lease() -> None:
    longest_s = 0.0
    for seed in SEEDS:
        world = World(seed, appends=True)
        world.run(RUN_S)
        longest_s = max(longest_s, world.overlap_s)
    assert longest_s > 0, "no run has come upon it"


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ({"by_wall_clock": True}, "still serves|serve at|nobody serves"),
        ({"failed_reads_count": True}, "the bucket was away for"),
        ({"compares": False}, "still serves|serve at"),
    ],
    ids=["a lease by the wall clock", "a silence of reads that fail", "a take without comparing"],
)
def test_the_judge_finds(fault: dict[str, bool], found: str) -> None:
    problems = [problem for seed in SEEDS if (problem := problem_of(World(seed, **fault)))]
    assert any(re.search(found, problem) for problem in problems), problems


def problem_of(world: World) -> str:
    """Return which promise a run breaks, nothing for none."""
    try:
        world.run(RUN_S)
    except AssertionError as broken:
        return str(broken)
    return ""
