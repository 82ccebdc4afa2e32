"""One run of three replicas: the steps of a seed, and a drain at the end, after which all of them have the same."""

from typing import Final

from simulation.judge.targets import Violation
from simulation.machine.virtual_loop import EndlessLoop
from simulation.replicas.actions import SECOND_US, play
from simulation.replicas.steps import STEPS_DEFAULT, replica_steps_of
from simulation.replicas.world import World, world_of
from simulation.run import Outcome
from simulation.steps import Step

OWNER_S_MAX: Final = 30  # until there is an owner when all is well: starts, the lease, two turns, some elections
CAUGHT_UP_S_MAX: Final = 30
LAST_COMMITS: Final = 5


def run_replicas(seed: int, steps: list[Step] | None = None, *, count: int = STEPS_DEFAULT) -> Outcome:
    """Play the steps of a seed, or some of them, then drain."""
    steps = replica_steps_of(seed, count) if steps is None else steps
    violation, played = "", 0
    with world_of(seed) as world:
        try:
            for step in steps:
                play(world, step)
                played += 1
            drain(world)
        except (Violation, AssertionError, EndlessLoop) as error:
            violation = f"{type(error).__name__}: {error}"
        book = world.book
        return Outcome(
            seed,
            violation,
            played,
            world.trace.hexdigest(),
            book.confirmed_count,
            book.owners_count,
            world.crashes_count,
        )


def drain(world: World) -> None:
    """Mend everything, and see that the broker is served, and that all replicas have the same. Raises Violation."""
    world.reseed(0)
    world.make_well()
    world.demand.wanted, world.demand.pause_s = 0, 0.0
    world.advance(10 * SECOND_US)  # late copies, and faults that end by themselves
    confirmed = world.book.confirmed_count
    for _ in range(OWNER_S_MAX):
        world.demand.wanted = LAST_COMMITS
        world.advance(SECOND_US)
        if world.owner() is not None and world.book.confirmed_count >= confirmed + LAST_COMMITS:
            break
    else:
        roles = ", ".join(f"{each.name}: {each.describe()}" for each in world.machines.values())
        world.book.fail(f"all is well, and the broker is not served within {OWNER_S_MAX} s: {roles}")
    world.demand.wanted = 0
    for _ in range(CAUGHT_UP_S_MAX):
        if world.are_all_caught_up() and not world.book.has_open():
            break
        world.advance(SECOND_US)
    else:
        roles = ", ".join(f"{each.name}: {each.describe()}" for each in world.machines.values())
        world.book.fail(f"all is well, and replicas lack records after {CAUGHT_UP_S_MAX} s: {roles}")
    world.check_copies()
