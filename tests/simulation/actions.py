"""The effect of each kind of step on the world."""

from collections.abc import Callable
from typing import Final

from simulation.administration import ADMINISTRATORS
from simulation.clients.client import MODES, OFFLINE, ONLINE, Client
from simulation.clients.http_clients import Requester
from simulation.clients.named_publisher import Returner
from simulation.clients.resuming_client import Resumer
from simulation.clients.staging_job import Job
from simulation.faults import FATE
from simulation.judge.targets import QUEUE_KINDS, RETAINED, Message
from simulation.judge.wills import Will
from simulation.reloads import RELOADING
from simulation.scenario import (
    COMPOSITE,
    CONSUMERS,
    FANNED_OUT,
    FLEETING,
    NAMES,
    NEAR,
    PUBLISHERS,
    QUEUES,
    REQUESTERS,
    RESUMERS,
    RETURNERS,
    SELECTIONS,
    SOLE_QUEUES,
    SUBSCRIBERS,
    TRANSACTORS,
    VIRTUAL,
    VIRTUAL_APART,
    VIRTUAL_HERE,
)
from simulation.steps import Step
from simulation.world import WINDOWS, World
from sluicegate.messaging.topics.syntax import queue_topic

TOPICS = ("work/a/x", "work/a/y", "work/b/x", "work/c/x", "work/d/x")
FORWARDED_TOPICS = (f"{VIRTUAL}x", f"{COMPOSITE}x", f"{COMPOSITE}x")
NEAR_TOPICS = (f"{VIRTUAL_HERE}x", f"{VIRTUAL_APART}x", f"{FANNED_OUT}x")
SOLE_TOPICS = ("work/q/x", "work/q/y", *[queue_topic(name) for name in SOLE_QUEUES])
QUEUE_TOPICS = tuple(queue_topic(name) for name, plan in QUEUES.items() if plan.kind in QUEUE_KINDS)
SESSION_PREFIXES = ("work/a/", "work/b/", "work/")
SMALL_BYTES, LARGE_BYTES = 40, 8_000
FEW, BURST_MAX = 12, 60  # messages of one step
EXPIRING_SHARE, EXPIRY_S_MAX = 0.1, 20
DELAYED_SHARE, DELAY_S_MAX = 0.1, 6
PRIORITIES = (0, 4, 4, 9)
SMALL_PREFIX = "work/d/"  # of the queue that is full now and then
WILL_TOPICS, WILL_DELAYS_S, WILL_QOS = ("work/a/x", "work/b/x", "work/c/x", RETAINED), (0, 0, 2, 5), (0, 1, 1, 2)
EXPIRIES_S, DELETION_SHARE = (0, 0, 0, 3, 10), 0.2  # of wills and retained messages; of changes of the latter
WILL_SHARE = 0.6  # of connections
ALIASES_MAX = (0, 1, 3, 10)  # topic aliases of a connection
WINDOW_MAX = 12  # messages that a client with transactions takes at a time


def play(world: World, step: Step) -> None:
    """Carry out a step, then advance the time. Raises Violation."""
    world.reseed(step.salt)
    ACTIONS[step.kind](world, step)
    world.advance(step.then_us)


# --- clients ---


def _someone(world: World, step: Step, names: tuple[str, ...], state: str) -> Client | None:
    """Return one of the clients with these names that is in a state."""
    there = [world.clients[name] for name in names if world.clients[name].state == state]
    return there[step.who % len(there)] if there else None


def _connect(world: World, step: Step) -> None:
    take_over = step.amount % 12 == 0
    client = _someone(world, step, tuple(world.clients), ONLINE if take_over else OFFLINE)
    if client is not None:
        if world.scenario.negotiates:
            rng = world.salted
            client.announces(receive_maximum=rng.choice(WINDOWS), aliases_max=rng.choice(ALIASES_MAX))
        will = _will(world, client) if world.scenario.wills and world.salted.random() < WILL_SHARE else None
        client.connect(clean_start=client.name in FLEETING or step.what % 40 == 0, will=will)


def _will(world: World, client: Client) -> Will:
    rng, number = world.salted, len(world.wills) + 1
    will = Will(
        world.truth,
        client.name,
        number,
        rng.choice(WILL_TOPICS),
        f"k{rng.randrange(4)}",
        qos=rng.choice(WILL_QOS),
        delay_s=rng.choice(WILL_DELAYS_S),
        is_kept=client.name not in FLEETING,
        expiry_s=rng.choice(EXPIRIES_S),
    )
    world.wills.append(will)
    return will


def _topics(world: World) -> tuple[str, ...]:
    topics: tuple[str, ...] = TOPICS + FORWARDED_TOPICS if world.scenario.forwards else TOPICS
    if NEAR in world.scenario.queues:
        topics += NEAR_TOPICS
    return topics + SOLE_TOPICS if len(world.scenario.consumed) > len(NAMES) else topics


def _publish(world: World, step: Step) -> None:
    client = _someone(world, step, PUBLISHERS, ONLINE)
    if client is None:
        return
    rng, topics = world.salted, _topics(world)
    for _ in range(1 + step.amount % (BURST_MAX if step.what % 8 == 0 else FEW)):
        size = LARGE_BYTES if rng.random() < world.large_share else SMALL_BYTES
        expiry_s, delay_s, priority = _terms(world)
        topic, key, qos = rng.choice(topics), f"k{rng.randrange(4)}", rng.choice((0, 1, 1, 2))
        client.publish(topic, key, qos, size, expiry_s=expiry_s, delay_s=delay_s, priority=priority)


def _terms(world: World) -> tuple[int, int, int]:
    """Return after how many seconds a message expires and may be delivered (0: never, at once), and its priority."""
    rng = world.salted
    expiry_s = rng.randrange(1, EXPIRY_S_MAX) if rng.random() < EXPIRING_SHARE else 0
    delay_s = rng.randrange(1, DELAY_S_MAX) if world.scenario.delays and rng.random() < DELAYED_SHARE else 0
    return expiry_s, delay_s, rng.choice(PRIORITIES) if world.scenario.priorities else 4


def _job(world: World, step: Step) -> None:
    if world.scenario.jobs:
        world.begins_job(Job(world.truth, f"job {len(world.jobs)}", _topics(world), world.salted))


def _retain(world: World, step: Step) -> None:
    client, rng = world.clients[PUBLISHERS[0]], world.salted  # one only: what is newer is known by its number
    deletes, expiry_s = rng.random() < DELETION_SHARE, rng.choice(EXPIRIES_S)
    client.retain(1 + step.amount % 2, deletes=deletes, expiry_s=0 if deletes else expiry_s)


def _look(world: World, step: Step) -> None:
    client = _someone(world, step, SUBSCRIBERS, ONLINE)
    if client is not None:
        client.look()


def _transact(world: World, step: Step) -> None:
    """Do a transaction; who is not there comes, and one of a few leaves."""
    transactor = world.transactors[TRANSACTORS[step.who % len(TRANSACTORS)]]
    if transactor.state == OFFLINE:
        queues = world.scenario.consumed
        transactor.connect(queues[step.what % len(queues)], window=1 + step.amount % WINDOW_MAX)
    elif step.what % 6 == 0:
        (transactor.cut, transactor.close, transactor.vanish)[step.amount % 3]()
    else:
        transactor.transact(_topics(world))


def _return(world: World, step: Step) -> None:
    """Have a client of the flow protocol come, leave, consume, settle or publish."""
    returner = world.returners[tuple(RETURNERS)[step.who % len(RETURNERS)]]
    deed = step.what % 10
    returner.tick()
    if returner.state == OFFLINE:
        returner.connect()
    elif deed == 0:
        (returner.cut, returner.cut, returner.vanish, returner.close, returner.crash)[step.amount % 5]()
    elif deed == 1:
        returner.consume(world.scenario.consumed[step.amount % len(world.scenario.consumed)])
    elif deed == 2:
        returner.mode = MODES[step.amount % len(MODES)]
    elif deed == 3:
        returner.settle(1 + step.amount % FEW)
    else:
        _publish_some(world, step, returner)


def _resume(world: World, step: Step) -> None:
    """Have a client whose links come back come, leave, settle or publish."""
    resumer = world.resumers[RESUMERS[step.who % len(RESUMERS)]]
    deed = step.what % 10
    resumer.tick()
    if resumer.state == OFFLINE:
        resumer.connect(resumer.queue if resumer.queue and deed else NAMES[step.amount % len(NAMES)])
    elif deed == 0:
        (resumer.cut, resumer.cut, resumer.vanish, resumer.close, resumer.crash)[step.amount % 5]()
    elif deed == 1:
        resumer.suspend()
    elif deed == 2:
        resumer.mode = MODES[step.amount % len(MODES)]
    elif deed < 5:
        resumer.settle(1 + step.amount % FEW)
    else:
        _publish_some(world, step, resumer)


def _publish_some(world: World, step: Step, client: Returner | Resumer) -> None:
    rng, topics = world.salted, [topic for topic in _topics(world) if not topic.startswith(SMALL_PREFIX)]
    for _ in range(1 + step.amount % FEW):
        size = LARGE_BYTES if rng.random() < world.large_share else SMALL_BYTES
        expiry_s, delay_s, priority = _terms(world)
        topic, key = rng.choice(topics), f"k{rng.randrange(4)}"
        client.publish(topic, key, size, expiry_s=expiry_s, delay_s=delay_s, priority=priority)


def _request(world: World, step: Step) -> None:
    """Have a connection of HTTP clients open, break, read, settle or publish."""
    requester = world.requesters[REQUESTERS[step.who % len(REQUESTERS)]]
    deed = step.what % 12
    if requester.state == OFFLINE:
        requester.connect()
    elif deed == 0 or not requester.can_send:
        (requester.cut, requester.cut, requester.vanish, requester.close, requester.crash)[step.amount % 5]()
    elif deed == 1:
        requester.program.mode = MODES[step.amount % len(MODES)]
    elif deed == 2:
        requester.end_a_flow()
    elif deed < 6:
        requester.read_queue(NAMES[step.amount % len(NAMES)])
    elif deed < 8:
        requester.settle(1 + step.amount % FEW)
    else:
        requester.publish([_to_request(world, requester) for _ in range(1 + step.amount % FEW)])


def _to_request(world: World, requester: Requester) -> tuple[Message, dict[str, str], bytes]:
    rng = world.salted
    size = LARGE_BYTES if rng.random() < world.large_share else SMALL_BYTES
    expiry_s, delay_s, priority = _terms(world)
    topic, key = rng.choice((*_topics(world), *QUEUE_TOPICS)), f"k{rng.randrange(4)}"
    return requester.sends(topic, key, size, expiry_s=expiry_s, delay_s=delay_s, priority=priority)


def _consume(world: World, step: Step) -> None:
    name = world.scenario.consumed[step.what % len(world.scenario.consumed)]
    client = _someone(world, step, CONSUMERS, ONLINE)
    if client is not None:
        selection = step.amount // 2 % len(SELECTIONS) if world.scenario.selects else 0
        client.consume(name, 1 + step.amount % 2, selection=selection)


def _subscribe(world: World, step: Step) -> None:
    prefix = SESSION_PREFIXES[step.what % len(SESSION_PREFIXES)]
    client = _someone(world, step, SUBSCRIBERS, ONLINE)
    if client is not None:
        client.subscribe(prefix, 1 + step.amount % 2)


def _overlap(world: World, step: Step) -> None:
    client = _someone(world, step, SUBSCRIBERS, ONLINE)
    if client is not None and step.what % 3:
        client.overlap(step.amount % 3)
    elif client is not None:
        client.end_overlap()


def _join(world: World, step: Step) -> None:
    client = _someone(world, step, SUBSCRIBERS, ONLINE)
    if client is not None and step.what % 4:
        client.join(2 if step.amount % 4 else 1)
    elif client is not None:
        client.leave()


def _unsubscribe(world: World, step: Step) -> None:
    client = _someone(world, step, CONSUMERS, ONLINE)
    if client is not None:
        client.unsubscribe(f"$queue/{world.scenario.consumed[step.what % len(world.scenario.consumed)]}")


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


CLIENTS: Final[dict[str, Callable[[World, Step], None]]] = {
    "publish": _publish,
    "job": _job,
    "transact": _transact,
    "return": _return,
    "resume": _resume,
    "request": _request,
    "retain": _retain,
    "look": _look,
    "connect": _connect,
    "settle": _settle,
    "consume": _consume,
    "subscribe": _subscribe,
    "join": _join,
    "overlap": _overlap,
    "unsubscribe": _unsubscribe,
    "mode": _mode,
    "cut": _leave,
    "close": _leave,
    "vanish": _leave,
    "stall": _stall,
    "read_on": _read_on,
    "wait": _wait,
}
ACTIONS: Final = {**CLIENTS, **ADMINISTRATORS, **FATE, **RELOADING}
