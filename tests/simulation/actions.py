"""What each kind of step does to the world."""

from collections.abc import Callable
from typing import Final

from gateway.ports import QueueAlreadyExists, QueueNotFound, Refused
from simulation.client import MODES, OFFLINE, ONLINE, Client
from simulation.inside import queues_of
from simulation.steps import Step
from simulation.tap import number_of
from simulation.world import CONSUMERS, FLEETING, PUBLISHERS, QUEUES, SUBSCRIBERS, World, definition_of
from storage.errors import DamagedRecord
from storage.record_page import decode_page, directory_row

TOPICS = ("work/a/x", "work/a/y", "work/b/x", "work/c/x", "work/d/x")
SESSION_PREFIXES = ("work/a/", "work/b/", "work/")
SMALL_BYTES, LARGE_BYTES = 40, 8_000
FEW, BURST_MAX = 12, 60  # messages of one step
EXPIRING_SHARE, EXPIRY_S_MAX = 0.1, 20
LIMITS = (0, 1, 3)
NAMES = tuple(QUEUES)
FAILURES_MAX = 8  # a partition that fails six times in a minute is read back from the store


class Unheard:
    """A message that no actor knows: who gets it fails."""


def play(world: World, step: Step) -> None:
    """Carry out a step, then let time go on. Raises Violation."""
    world.reseed(step.salt)
    ACTIONS[step.kind](world, step)
    world.advance(step.then_us)


def queue_id(name: str) -> int:
    """Return the subscription identifier that consumers of a queue use."""
    return NAMES.index(name) + 1


# --- clients ---


def _someone(world: World, step: Step, names: tuple[str, ...], state: str) -> Client | None:
    """Return one of the clients with these names that is in a state."""
    there = [world.clients[name] for name in names if world.clients[name].state == state]
    return there[step.who % len(there)] if there else None


def _connect(world: World, step: Step) -> None:
    take_over = step.amount % 12 == 0
    client = _someone(world, step, tuple(world.clients), ONLINE if take_over else OFFLINE)
    if client is not None:
        client.connect(clean_start=client.name in FLEETING or step.what % 40 == 0)


def _publish(world: World, step: Step) -> None:
    client = _someone(world, step, PUBLISHERS, ONLINE)
    if client is None:
        return
    rng = world.salted
    for _ in range(1 + step.amount % (BURST_MAX if step.what % 8 == 0 else FEW)):
        size = LARGE_BYTES if rng.random() < world.large_share else SMALL_BYTES
        expiry_s = rng.randrange(1, EXPIRY_S_MAX) if rng.random() < EXPIRING_SHARE else 0
        client.publish(rng.choice(TOPICS), f"k{rng.randrange(4)}", rng.choice((0, 1, 1, 2)), size, expiry_s)


def _consume(world: World, step: Step) -> None:
    name = NAMES[step.what % len(NAMES)]
    client = _someone(world, step, CONSUMERS, ONLINE)
    if client is not None:
        client.consume(queue_id(name), name, 1 + step.amount % 2)


def _subscribe(world: World, step: Step) -> None:
    prefix = SESSION_PREFIXES[step.what % len(SESSION_PREFIXES)]
    client = _someone(world, step, SUBSCRIBERS, ONLINE)
    if client is not None:
        client.subscribe(prefix, 1 + step.amount % 2)


def _unsubscribe(world: World, step: Step) -> None:
    client = _someone(world, step, CONSUMERS, ONLINE)
    if client is not None:
        client.unsubscribe(f"$queue/{NAMES[step.what % len(NAMES)]}")


def _settle(world: World, step: Step) -> None:
    reason_code = 0x80 if step.what % 8 == 0 else 0
    holding = [client for client in world.clients.values() if client.held]
    if holding:
        client = holding[step.who % len(holding)]
        client.settle(1 + step.amount % 6, order=step.amount % 3, reason_code=reason_code, twice=step.what % 5 == 0)


def _mode(world: World, step: Step) -> None:
    client = _someone(world, step, CONSUMERS + SUBSCRIBERS, ONLINE)
    if client is None:
        return
    client.mode = MODES[step.what % len(MODES)]
    if client.mode != "hold":
        client.settle(len(client.held), order=0, reason_code=0, twice=False)


def _leave(world: World, step: Step) -> None:
    client = _someone(world, step, tuple(world.clients), ONLINE)
    if client is not None:
        {"cut": client.cut, "close": client.close, "vanish": client.vanish}[step.kind]()


def _stall(world: World, step: Step) -> None:
    client = _someone(world, step, tuple(world.clients), ONLINE)
    if client is not None:
        client.stall(True)


def _read_on(world: World, _: Step) -> None:
    for client in world.clients.values():
        client.stall(False)


def _wait(world: World, step: Step) -> None:
    world.advance((1 + step.amount % 40) * 1_000_000)


# --- administrators ---


def _queue(world: World, step: Step) -> str | None:
    """Return a queue that is there."""
    world.finish_admin()
    there = [name for name in NAMES if name in world.truth.targets]
    return there[step.what % len(there)] if there else None


def _purge(world: World, step: Step) -> None:
    name = _queue(world, step)
    if name is None:
        return
    purge = [world.truth.next_tick(), 0]
    world.truth.targets[name].purges.append(purge)

    def done() -> None:
        purge[1] = world.truth.next_tick()

    world.administer(world.view.purge_queue(name), done)


def _delete(world: World, step: Step) -> None:
    name = _queue(world, step)
    if name is not None:
        world.truth.ends(name)
        world.administer(world.view.delete_queue(name), lambda: None)


def _create(world: World, step: Step) -> None:
    world.finish_admin()
    missing = [name for name in NAMES if name not in world.truth.targets]
    if not missing:
        return
    name = missing[step.what % len(missing)]

    async def create() -> None:
        try:
            await world.view.create_queue(definition_of(name).to_dict())
        except QueueAlreadyExists:  # its deletion was begun, and a power failure came first
            pass
        except Refused:
            return
        world.begins(name)

    world.administer(create(), lambda: None)


def _ingress(world: World, step: Step) -> None:
    name = _queue(world, step)
    if name is None:
        return
    enabled = step.amount % 2 == 0
    if not enabled:
        world.truth.outage(name, True)
    _update(world, name, {"ingress_enabled": enabled}, lambda: world.truth.outage(name, not enabled))


def _egress(world: World, step: Step) -> None:
    name = _queue(world, step)
    if name is not None:
        target = world.truth.targets[name]
        target.flow_cuts += 1

        def done() -> None:
            target.flow_cuts += 1

        _update(world, name, {"egress_enabled": step.amount % 2 == 0}, done)


def _limit(world: World, step: Step) -> None:
    name = _queue(world, step)
    if name is not None:
        limit = LIMITS[step.amount % len(LIMITS)]
        world.truth.limits(name, limit)
        _update(world, name, {"max_redelivery_count": limit}, lambda: None)


def _update(world: World, name: str, changes: dict[str, object], done: Callable[[], None]) -> None:
    async def update() -> None:
        try:
            await world.view.update_queue(name, changes)
        except (Refused, QueueNotFound):
            return
        done()

    world.administer(update(), lambda: None)


# --- fate ---


def _power(world: World, step: Step) -> None:
    world.power_fails()


def _restart(world: World, step: Step) -> None:
    world.restart()


def _full(world: World, _: Step) -> None:
    world.truth.store_faults += 1
    world.faults.full = True


def _room(world: World, _: Step) -> None:
    world.faults.full = False


def _refuse(world: World, step: Step) -> None:
    world.truth.store_faults += 1
    world.faults.failures_left += 1 + step.amount % 3


def _slow(world: World, step: Step) -> None:
    world.pace.slow_left += 1 + step.amount % 6


def _damage(world: World, step: Step) -> None:
    """Flip a byte of a page. What lay in it may be lost, and has to be counted."""
    pages = sorted(world.image.pages)
    if not pages:
        return
    key = pages[step.who % len(pages)]
    page = world.image.pages[key]
    row_bytes = len(directory_row(page))  # a page whose row is damaged as well would not be known at all
    place = row_bytes + step.amount % (len(page) - row_bytes)
    try:
        runs = decode_page(page)
    except DamagedRecord:
        return  # damaged before
    for run in runs:
        for payload in run.batch.payloads():
            for target in world.truth.targets.values():
                target.damaged.add(number_of(payload))
    world.image.pages[key] = page[:place] + bytes([page[place] ^ 1]) + page[place + 1 :]


def _unreadable(world: World, step: Step) -> None:
    world.faults.reads_fail += 1 + step.amount % 4


def _break(world: World, step: Step) -> None:
    """Have a partition's actor fail, a few times or too often."""
    queues = queues_of(world.node)
    if not queues:
        return
    queue = queues[step.who % len(queues)]
    cells = list((queue.cell.children or {}).values())
    times = 1 + step.amount % FAILURES_MAX
    client = queue.name.removeprefix("#mqtt/")
    name = world.clients[client].session_name if client in world.clients else queue.name
    target = world.truth.targets.get(name)
    if target is not None:
        target.flow_cuts += 1
        target.recounts += 1
        if not queue.durable:  # what is never written is lost with the ledger
            target.purges.append([world.truth.next_tick(), world.truth.next_tick()])
    world.log.expected.append("failed: AssertionError()")
    for _ in range(times):
        cells[step.what % len(cells)].inbox.post(Unheard())


ACTIONS: Final[dict[str, Callable[[World, Step], None]]] = {
    "publish": _publish,
    "connect": _connect,
    "settle": _settle,
    "consume": _consume,
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "mode": _mode,
    "cut": _leave,
    "close": _leave,
    "vanish": _leave,
    "stall": _stall,
    "read_on": _read_on,
    "wait": _wait,
    "purge": _purge,
    "delete": _delete,
    "create": _create,
    "ingress": _ingress,
    "egress": _egress,
    "limit": _limit,
    "power": _power,
    "restart": _restart,
    "full": _full,
    "room": _room,
    "refuse": _refuse,
    "slow": _slow,
    "damage": _damage,
    "unreadable": _unreadable,
    "break": _break,
}
