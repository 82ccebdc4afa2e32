"""One run: the steps of a seed, the drain at the end, and the report."""

from dataclasses import dataclass

from simulation.actions import play
from simulation.administration import if_there
from simulation.checks.final_checks import check_nothing_is_lost
from simulation.checks.node_checks import check_at_rest, queues_of
from simulation.clients.client import OFFLINE, PROMPT
from simulation.clients.staging_job import OVER
from simulation.judge.targets import RETAINED, Violation
from simulation.machine.virtual_loop import EndlessLoop
from simulation.scenario import CONSUMERS, FLEETING, SOLE_QUEUES, SUBSCRIBERS, scenario_of
from simulation.steps import Step, steps_of
from simulation.world import World

DRAIN_ROUND_US = 2_000_000
DRAIN_ROUNDS_MAX = 100
STEPS_DEFAULT = 400
MENDING_US = 5_000_000  # for what was under way as the last step was done


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run. `violation` is empty when every promise was kept."""

    seed: int
    violation: str
    failed_at: int  # the step that failed; the number of steps when it was the drain
    trace: str
    deliveries_count: int
    settled_count: int
    crashes_count: int


def run(seed: int, steps: list[Step] | None = None, *, count: int = STEPS_DEFAULT) -> Outcome:
    """Play the steps of a seed, or some of them, then drain."""
    steps = steps_of(seed, count) if steps is None else steps
    world = World(seed, scenario_of(seed))
    violation, played = "", 0
    try:
        for step in steps:
            play(world, step)
            played += 1
        drain(world)
    except (Violation, AssertionError, EndlessLoop, TimeoutError) as error:
        violation = f"{type(error).__name__}: {error}"
    finally:
        world.close()
    truth = world.truth
    return Outcome(
        seed,
        violation,
        played,
        world.trace.hexdigest(),
        truth.deliveries_count,
        truth.settled_count,
        truth.course.crashes,
    )


def drain(world: World) -> None:
    """Mend everything, let willing consumers take what is left, and see that nothing is lost and nothing left over."""
    mend(world)
    for rounds in range(DRAIN_ROUNDS_MAX):
        everybody_is_willing(world)
        world.advance(DRAIN_ROUND_US)
        if rounds < len(CONSUMERS):
            consume_everything(world, rounds)
        elif is_empty(world):
            break
        world.advance(DRAIN_ROUND_US)
    world.advance(DRAIN_ROUND_US)
    world.advance(DRAIN_ROUND_US)
    see_that_all_is_done(world)


def mend(world: World) -> None:
    """Mend everything, and have all queues take and give messages."""
    world.reseed(0)
    world.faults.end()
    world.finish_admin()
    world.advance(MENDING_US)
    world.web.mend()
    if world.scenario.reloads:
        world.configuration.mend()
        world.reload()
        world.finish_admin()
    for name in world.scenario.names:
        if name in world.truth.targets:
            opened: dict[str, object] = {"ingress_enabled": True, "egress_enabled": True, "max_redelivery_count": 0}
            world.ask(if_there(name, world.change(name, opened)))
            world.truth.outage(name, False)
            world.truth.limits(name, 0)
    for client in world.clients.values():
        if client.has_left_a_will:
            client.stall(False)
            client.close()


def everybody_is_willing(world: World, *, away: tuple[str, ...] = ()) -> None:
    """Have all clients come, but for some that are elsewhere, and settle everything at once."""
    for client in world.clients.values():
        client.stall(False)
        client.mode = PROMPT
        client.settle(len(client.held), order=0, reason_code=0, twice=False)
        if client.state == OFFLINE and client.name not in away:
            client.connect(clean_start=client.name in FLEETING)
    for transactor in world.transactors.values():
        if not transactor.is_waiting:
            transactor.close()
    for returner in world.returners.values():
        returner.mode = PROMPT
        returner.accept_all()
        returner.tick()  # what was refused for now is asked for again
        if returner.is_waiting and returner.state == OFFLINE:
            returner.connect()
    for resumer in world.resumers.values():
        resumer.mode = PROMPT
        resumer.accept_all()
        if resumer.queue and resumer.state == OFFLINE:
            resumer.connect(resumer.queue)
    for requester in world.requesters.values():
        requester.program.mode = PROMPT
        requester.end_reading()
    for browser in world.browsers.values():
        browser.give_up()


def consume_everything(world: World, number: int) -> None:
    """Have one of the consumers consume all queues. Those of one broker are consumed from the others."""
    names = [name for name in world.scenario.names if name not in SOLE_QUEUES]
    for name in [*names, *world.scenario.elsewhere]:
        world.clients[CONSUMERS[number]].consume(name, 1)


def is_empty(world: World) -> bool:
    """Return whether no queue holds anything."""
    return not any(queue.target.gate.usage_count for queue in queues_of(world.node))


def see_that_all_is_done(world: World) -> None:
    """See that nothing is lost and nothing left over, also after a restart. Raises Violation."""
    world.end_reading()
    unfinished = [job for job in world.jobs if job.state != OVER]
    if unfinished:
        raise Violation(f"everything was mended, and {len(unfinished)} jobs are not at their end")
    waiting = [each.name for each in world.transactors.values() if each.is_waiting]
    waiting += [each.name for each in world.returners.values() if each.is_waiting]
    waiting += [each.name for each in world.resumers.values() if each.is_waiting]
    waiting += [each.name for each in world.requesters.values() if each.is_waiting]
    waiting += [each.name for each in world.browsers.values() if each.is_waiting]
    if waiting:
        raise Violation(f"everything was mended, and what {waiting} sent is not at its end")
    for transactor in world.transactors.values():
        for transaction in transactor.transactions:
            transaction.reckon()
    for _ in range(2):
        for name, plan in world.scenario.queues.items():
            if "retention_time_s" in plan.attributes and name in world.truth.targets:
                world.ask(world.change(name, {"retention_time_s": 0}))
        world.advance(DRAIN_ROUND_US)
    for will in world.wills:
        will.check()
    look_at_what_is_retained(world)
    check_nothing_is_lost(world.truth)
    world.checkpoint()
    check_at_rest(world.node, world.image)
    world.restart()
    look_at_what_is_retained(world)
    check_nothing_is_lost(world.truth)
    world.checkpoint()
    check_at_rest(world.node, world.image)


def look_at_what_is_retained(world: World) -> None:
    """See that what is retained is what was confirmed last, or came behind that."""
    client = world.clients[SUBSCRIBERS[0]]
    if client.state == OFFLINE:
        client.connect(clean_start=False)
        world.advance(DRAIN_ROUND_US)
    client.look()
    world.advance(DRAIN_ROUND_US)
    wills = [will for will in world.wills if will.message.topic == RETAINED and not will.message.withheld]
    sure = [will.message for will in wills if will.is_sure]
    world.truth.retained.check_at_rest(client.saw, wills=[will.message for will in wills], sure=sure)
