"""The steps of a run of replicas: what their clients want, and what becomes of machines, servers and network."""

from random import Random
from typing import Final

from simulation.steps import Step, drawn_steps

WEIGHTS: Final = {
    "demand": 40.0,
    "crash": 4.0,
    "lose_disk": 2.0,
    "spoil": 2.0,
    "bad_day": 2.0,
    "start": 4.0,
    "pause": 6.0,
    "stop": 2.0,
    "hand_over": 3.0,
    "cut": 4.0,
    "key_away": 5.0,
    "heal": 3.0,
    "majority": 3.0,
    "elect": 4.0,
    "forget": 2.0,
    "troubles": 6.0,
    "full": 3.0,
    "calm": 4.0,
    "set_clock": 5.0,
    "wait": 4.0,
}
BEGIN: Final = ["peace", "demand"]
PEACE_EVERY: Final = 8  # steps: nothing is confirmed for long while many things are broken at once
STEPS_DEFAULT: Final = 200


def replica_steps_of(seed: int, count: int) -> list[Step]:
    """Return the steps of a seed."""
    steps = drawn_steps(Random(f"replicas {seed}"), WEIGHTS, BEGIN, count)
    return [
        step._replace(kind="peace") if place % PEACE_EVERY == 0 and step.kind != "demand" else step
        for place, step in enumerate(steps)
    ]
