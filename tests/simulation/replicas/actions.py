"""What the steps of a run of replicas do."""

from collections.abc import Callable
from typing import Final

from simulation.replicas.process.machine import Machine
from simulation.replicas.servers.servers import Troubles
from simulation.replicas.world import MACHINES, World
from simulation.steps import Step

SECOND_US: Final = 1_000_000
DURATIONS_US: Final = (100_000, 800_000, 2_700_000, 4_000_000, 9_000_000)
SERVED_S_MAX: Final = 12
PEACE_US_MAX: Final = 7_000_000  # so that a replica looks after the length of the log
QUIET_US_MAX: Final = 12_000_000
SPOIL_US, SPOIL_SLICES = 20_000, 150
ROOM_BYTES: Final = (100, 400, 1_500)
COMMITS: Final = (1, 5, 20, 100)
WANTED_MAX: Final = 200
PAUSES_S: Final = (0.0, 0.0, 0.02, 0.2)  # between two commits
CLOCK_MS: Final = 7_200_000  # by which a clock is set at most, forth or back


def play(world: World, step: Step) -> None:
    """Play a step. Raises Violation."""
    world.reseed(step.salt)
    ACTIONS[step.kind](world, step)
    world.advance(step.then_us)


def _machine(world: World, step: Step) -> Machine:
    """Return the machine of a step: the owner's as often as not, for there it matters most."""
    owner = world.owner() if step.who % 2 else None
    return owner or world.machines[MACHINES[step.who // 2 % len(MACHINES)]]


def _duration_us(step: Step) -> int:
    return DURATIONS_US[step.amount % len(DURATIONS_US)]


def _demand(world: World, step: Step) -> None:
    world.demand.wanted = min(world.demand.wanted + COMMITS[step.amount % len(COMMITS)], WANTED_MAX)
    world.demand.pause_s = PAUSES_S[step.who % len(PAUSES_S)]
    world.advance(step.what * 5)


def _crash(world: World, step: Step) -> None:
    machine = _machine(world, step)
    if machine.is_up:
        world.crashes_count += 1
        machine.crash()


def _lose_disk(world: World, step: Step) -> None:
    machine = _machine(world, step)
    _crash(world, step)
    machine.lose_disk()


def _start(world: World, step: Step) -> None:
    for machine in world.machines.values():
        if not machine.is_up:
            machine.start()


def _pause(world: World, step: Step) -> None:
    machine = _machine(world, step)
    if machine.is_up:
        process = machine.process
        machine.pause(is_paused=True)

        def go_on() -> None:
            if machine.process is process:
                machine.pause(is_paused=False)

        world.later(_duration_us(step), go_on)


def _stop(world: World, step: Step) -> None:
    _machine(world, step).stop()


def _hand_over(world: World, step: Step) -> None:
    successor = ("", *MACHINES)[step.what % (1 + len(MACHINES))]
    _machine(world, step).asks_to_hand_over(successor)


def _cut(world: World, step: Step) -> None:
    name = _machine(world, step).name
    world.servers.is_cut.add(name)
    world.later(_duration_us(step), lambda: world.servers.is_cut.discard(name))


def _heal(world: World, step: Step) -> None:
    world.servers.is_cut.clear()


def _majority(world: World, step: Step) -> None:
    if world.servers.is_majority_there:
        world.servers.lose_majority()
        world.later(_duration_us(step), world.servers.regain_majority)


def _elect(world: World, step: Step) -> None:
    world.servers.elect(_duration_us(step) // 2)


def _forget(world: World, step: Step) -> None:
    world.servers.forget_consumers()


def _troubles(world: World, step: Step) -> None:
    rng = world.rng
    world.servers.troubles = Troubles(
        lost=rng.choice((0.0, 0.02, 0.2)),
        unanswered=rng.choice((0.0, 0.02, 0.2)),
        late=rng.choice((0.0, 0.02, 0.2)),
        twice=rng.choice((0.0, 0.02, 0.3)),
        slow_us=rng.choice((0, 0, 20_000, 400_000)),
    )


def _calm(world: World, step: Step) -> None:
    world.servers.troubles = Troubles()


def _peace(world: World, step: Step) -> None:
    """Have all be well until the broker is served."""
    world.make_well()
    for _ in range(SERVED_S_MAX):
        if world.owner() is not None:
            break
        world.advance(SECOND_US)
    world.advance(step.what % PEACE_US_MAX)


def _spoil(world: World, step: Step) -> None:
    """Kill a replica while it makes a snapshot."""
    for _ in range(SPOIL_SLICES):
        maker = world.maker_of_snapshot()
        if maker is not None:
            world.crashes_count += 1
            maker.crash()
            break
        world.advance(SPOIL_US)


def _bad_day(world: World, step: Step) -> None:
    """Lose one of the newest two snapshots, as is promised that one may be lost, and a disk; begin anew with these."""
    world.lose_snapshot(newest=step.what % 4 > 0)
    _lose_disk(world, step)
    _start(world, step)


def _key_away(world: World, step: Step) -> None:
    """Have a machine reach the log, and not the key that says who owns it."""
    name = _machine(world, step).name
    world.servers.has_no_key.add(name)
    world.later(_duration_us(step), lambda: world.servers.has_no_key.discard(name))


def _full(world: World, step: Step) -> None:
    """Have servers with little room: what is small is stored, and what is large is not."""
    world.servers.troubles = Troubles(lost=0.1, unanswered=0.1, late=0.3)
    world.servers.room_bytes = ROOM_BYTES[step.what % len(ROOM_BYTES)]
    world.later(_duration_us(step), world.servers.has_room)


def _set_clock(world: World, step: Step) -> None:
    """Set the time of day of a machine; while nobody commits, only the lease ends an owner."""
    _machine(world, step).clocks.wall_step_ms = world.rng.randint(-CLOCK_MS, CLOCK_MS)
    world.demand.wanted = 0
    world.advance(step.what % QUIET_US_MAX)


def _wait(world: World, step: Step) -> None:
    world.advance(_duration_us(step))


ACTIONS: Final[dict[str, Callable[[World, Step], None]]] = {
    "demand": _demand,
    "crash": _crash,
    "lose_disk": _lose_disk,
    "start": _start,
    "pause": _pause,
    "stop": _stop,
    "hand_over": _hand_over,
    "cut": _cut,
    "heal": _heal,
    "majority": _majority,
    "elect": _elect,
    "forget": _forget,
    "troubles": _troubles,
    "calm": _calm,
    "peace": _peace,
    "spoil": _spoil,
    "bad_day": _bad_day,
    "key_away": _key_away,
    "full": _full,
    "set_clock": _set_clock,
    "wait": _wait,
}
