"""One run of three brokers: the steps of a seed, the drain at the end, and what became of it."""

from simulation.judge.targets import Violation
from simulation.machine.virtual_loop import EndlessLoop
from simulation.network.actions import play
from simulation.network.network import Network
from simulation.network.steps import STEPS_DEFAULT, network_scenario_of, network_steps_of
from simulation.run import (
    DRAIN_ROUND_US,
    DRAIN_ROUNDS_MAX,
    Outcome,
    consume_everything,
    everybody_is_willing,
    is_empty,
    mend,
    see_that_all_is_done,
)
from simulation.scenario import CONSUMERS, MOVERS
from simulation.steps import Step

LINKED_S_MAX = 60  # after the network is mended: a broker tries again after 15 s at most


def run(seed: int, steps: list[Step] | None = None, *, count: int = STEPS_DEFAULT) -> Outcome:
    """Play the steps of a seed, or some of them, then drain."""
    steps = network_steps_of(seed, count) if steps is None else steps
    network = Network(seed, network_scenario_of(seed))
    violation, played = "", 0
    try:
        for step in steps:
            play(network, step)
            played += 1
        drain(network)
    except (Violation, AssertionError, EndlessLoop, TimeoutError) as error:
        violation = f"{type(error).__name__}: {error}"
    finally:
        network.close()
    truths = [world.truth for world in network.worlds.values()]
    deliveries, settled = sum(each.deliveries_count for each in truths), sum(each.settled_count for each in truths)
    return Outcome(seed, violation, played, network.hexdigest(), deliveries, settled, network.course.crashes)


def drain(network: Network) -> None:
    """Mend everything, let willing consumers take what is left, and see that nothing is lost and nothing left over."""
    network.ways.rng.seed("drain")
    network.ways.heal()
    network.all_come_back()
    worlds = list(network.worlds.values())
    for world in worlds:
        mend(world)
    network.wait_for_links(LINKED_S_MAX)
    for rounds in range(DRAIN_ROUNDS_MAX):
        for place, world in enumerate(worlds):
            everybody_is_willing(world, away=MOVERS if place != rounds % len(worlds) else ())
        network.advance(DRAIN_ROUND_US)
        if rounds < len(CONSUMERS):
            for world in worlds:
                consume_everything(world, rounds)
        elif all(is_empty(world) for world in worlds):
            break
        network.advance(DRAIN_ROUND_US)
    network.advance(2 * DRAIN_ROUND_US)
    network.wait_for_links(LINKED_S_MAX)
    network.wait_for_retained(LINKED_S_MAX)
    network.wait_for_replies(LINKED_S_MAX)
    for world in worlds:
        see_that_all_is_done(world)
    network.wait_for_links(LINKED_S_MAX)
    network.wait_for_retained(LINKED_S_MAX)
