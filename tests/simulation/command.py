"""The command line: `--seed N` replays one run and shrinks it if it fails, `--seeds N` plays many.

`--network` plays three linked brokers instead of one, `--moves` a queue that moves between them, `--replicas` three
replicas of one broker.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import active_children
from time import perf_counter  # how fast the simulation itself is; nothing of a run depends on it
from typing import NamedTuple

from simulation.network.moves.run import moves_steps_of, run_moves
from simulation.network.run import run as run_network
from simulation.network.steps import network_steps_of
from simulation.replicas.run import run_replicas
from simulation.replicas.steps import replica_steps_of
from simulation.run import STEPS_DEFAULT, Outcome, run
from simulation.shrink import Run, shrink
from simulation.steps import Step, steps_of

FAILURES_MAX = 5  # by default; then there is enough to look at


class Game(NamedTuple):
    """What is played."""

    run: Run
    steps_of: Callable[[int, int], list[Step]]
    target: str  # of the Makefile


ONE_BROKER = Game(run, steps_of, "simulate")
NETWORK = Game(run_network, network_steps_of, "simulate-network")
MOVES = Game(run_moves, moves_steps_of, "simulate-moves")
REPLICAS = Game(run_replicas, replica_steps_of, "simulate-replicas")


def main() -> None:
    """Play what the arguments say; exit with 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one")
    parser.add_argument("--seeds", type=int, default=100, help="how many to play (default 100)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default 1)")
    parser.add_argument("--steps", type=int, default=STEPS_DEFAULT, help=f"steps of a run (default {STEPS_DEFAULT})")
    parser.add_argument("--failures", type=int, default=FAILURES_MAX, help="end after so many failures")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=int, default=cores, help=f"processes that play (default {cores}, all cores)")
    parser.add_argument("--network", action="store_true", help="three linked brokers")
    parser.add_argument("--moves", action="store_true", help="three linked brokers, and a queue that moves")
    parser.add_argument("--replicas", action="store_true", help="three replicas of a broker")
    given = parser.parse_args()
    named = ((given.replicas, REPLICAS), (given.moves, MOVES), (given.network, NETWORK))
    game = next((game for is_meant, game in named if is_meant), ONE_BROKER)
    if given.seed is not None:
        sys.exit(_replay(game, given.seed, given.steps))
    seeds = range(given.first, given.first + given.seeds)
    sys.exit(_play_many(game, seeds, given.steps, given.failures, given.jobs))


def replay_command(seed: int, count: int, game: Game = ONE_BROKER) -> str:
    """Return the command that plays a run again."""
    return f"make {game.target} SEED={seed} STEPS={count}"


def describe(steps: list[Step], outcome: Outcome) -> str:
    """Return a failing run in words: its steps, and what went wrong."""
    lines = [f"{place:4} {step}" for place, step in enumerate(steps)]
    place = "in the drain at the end" if outcome.failed_at >= len(steps) else f"at step {outcome.failed_at}"
    return "\n".join([*lines, f"{place}: {outcome.violation}"])


def _replay(game: Game, seed: int, count: int) -> int:
    outcome = game.run(seed, game.steps_of(seed, count))
    if not outcome.violation:
        print(f"seed {seed}, {count} steps: every promise was kept; trace {outcome.trace}")
        return 0
    print(f"seed {seed}: {outcome.violation}\nshrinking ...")
    steps, outcome = shrink(seed, game.steps_of(seed, count), game.run)
    print(describe(steps, outcome))
    return 1


def _play_many(game: Game, seeds: range, count: int, failures_max: int, jobs: int) -> int:
    began_s = perf_counter()
    failures = deliveries = settled = crashes = played = 0
    for seed, outcome in zip(seeds, _outcomes(game, seeds, count, jobs), strict=True):
        played += 1
        deliveries += outcome.deliveries_count
        settled += outcome.settled_count
        crashes += outcome.crashes_count
        if outcome.violation:
            failures += 1
            print(f"seed {seed}: {outcome.violation}\n  again: {replay_command(seed, count, game)}")
            if failures == failures_max:
                break
    took_s = perf_counter() - began_s
    print(
        f"{played} seeds of {count} steps, {failures} failed: {deliveries} deliveries, {settled} settled, "
        f"{crashes} power failures; {played * count / took_s:.0f} steps/s"
    )
    return 1 if failures else 0


def _play(game: Game, count: int, seed: int) -> Outcome:
    return game.run(seed, game.steps_of(seed, count))


def _outcomes(game: Game, seeds: range, count: int, jobs: int) -> Iterator[Outcome]:
    """Yield how each run ended, in the order of the seeds; a failure is told when those before it are through."""
    with ProcessPoolExecutor(jobs) as processes:
        try:
            yield from processes.map(partial(_play, game, count), seeds)
        finally:  # a failure is told at once, whatever else is being played
            processes.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                process.terminate()
