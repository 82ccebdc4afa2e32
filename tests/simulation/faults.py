"""Faults of the node and its machine: power, disk, damage, and failures of actors."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from simulation.checks.node_checks import queues_of
from simulation.judge.targets import GROUP
from simulation.steps import Step
from simulation.wires.mqtt_tap import number_of
from simulation.world import World
from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.records.page import decode_page, directory_row

BROKEN_US_MAX = 9_000_000  # a node gives up waiting after five seconds
FAILURES_MAX = 8  # a partition that fails six times in a minute is read back from the store


class Unheard:
    """A message that no actor knows: who gets it fails."""


def _power(world: World, step: Step) -> None:
    world.power_fails()


def _restart(world: World, step: Step) -> None:
    world.restart()


def _store_fails(world: World) -> None:
    world.truth.course.store_faults += 1
    for job in world.jobs:
        job.store_fails()


def _full(world: World, step: Step) -> None:
    """Have no room for messages, for checkpoints, or for both."""
    _store_fails(world)
    world.faults.full = step.what % 4 != 1
    if step.what % 2:
        world.faults.checkpoints_full_left += 1 + step.amount % 3
        world.want_checkpoint()


def _room(world: World, _: Step) -> None:
    world.faults.full = False


def _refuse(world: World, step: Step) -> None:
    """Refuse commits, checkpoints, or both."""
    _store_fails(world)
    times = 1 + step.amount % 3
    if step.what % 4 != 1:
        world.faults.failures_left += times
    if step.what % 2:
        world.faults.checkpoint_failures_left += times
        world.want_checkpoint()


def _broken(world: World, step: Step) -> None:
    """Break the store's own pages; the node is killed at some time, and started on what was committed before."""
    _store_fails(world)
    world.faults.broken = True
    world.advance(1 + step.amount % BROKEN_US_MAX)
    world.faults.broken = False
    world.power_fails()


def _slow(world: World, step: Step) -> None:
    world.pace.slow_left += 1 + step.amount % 6
    world.pace.slow_checkpoints_left += step.what % 3


def _damage(world: World, step: Step) -> None:
    """Flip a byte of a page. What lay in a batch that cannot be read then may be lost, and has to be counted."""
    pages = sorted(world.image.pages)
    if not pages:
        return
    key = pages[step.who % len(pages)]
    page = world.image.pages[key]
    row_bytes = len(directory_row(page))  # a page whose row is damaged as well would not be known at all
    place = row_bytes + step.amount % (len(page) - row_bytes)
    damaged = page[:place] + bytes([page[place] ^ 1]) + page[place + 1 :]
    lost = set(_numbers_in(page) - _numbers_in(damaged))  # also where another copy, which was sent again, is left
    for target in world.truth.targets.values():
        target.damaged |= lost
    world.image.pages[key] = damaged


def _numbers_in(page: bytes) -> Counter[int]:
    """Return the messages of a page that can be read, and how often each is in it."""
    try:
        runs = decode_page(page).runs
    except DamagedRecord:
        return Counter()
    return Counter(number_of(payload) for run in runs for payload in run.batch.payloads())


def _unreadable(world: World, step: Step) -> None:
    world.faults.reads_fail += 1 + step.amount % 4


def _break(world: World, step: Step) -> None:
    """Have a partition's actor fail, a few times or too often, in its own turn or in its sender's."""
    queues = queues_of(world.node)
    if not queues:
        return
    queue = queues[step.who % len(queues)]
    cells = list(queue.cell.children or ())
    if cells[step.what % len(cells)].kind == "browser":
        world.log.expected.append("failed: KeyError(<class 'simulation.faults.Unheard'>)")
        cells[step.what % len(cells)].inbox.post(Unheard())
        return
    times = 1 + step.amount % FAILURES_MAX
    client = queue.name.removeprefix("#mqtt/").partition("@")[0]
    name = world.clients[client].session_name if client in world.clients else queue.name
    if queue.name.startswith("#share/"):
        name = GROUP
    target = world.truth.targets.get(name)
    if target is not None:
        world.breaks(queue.name, target)
        if not queue.durable:  # what is never written is lost with the ledger
            target.purges.append([world.truth.next_tick(), world.truth.next_tick()])
    world.log.expected.append("failed: AssertionError(")
    inbox = cells[step.what % len(cells)].inbox
    leave = inbox.deliver_now if step.salt % 2 else inbox.post  # the first one at once, if the partition takes such
    for _ in range(times):
        leave(Unheard())


FATE: Final[dict[str, Callable[[World, Step], None]]] = {
    "power": _power,
    "restart": _restart,
    "full": _full,
    "room": _room,
    "refuse": _refuse,
    "broken": _broken,
    "slow": _slow,
    "damage": _damage,
    "unreadable": _unreadable,
    "break": _break,
}
