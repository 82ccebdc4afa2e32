"""The effect of each kind of step on the network."""

from collections.abc import Callable
from typing import Final

from simulation.actions import ACTIONS
from simulation.clients.client import CONNECTING, OFFLINE, ONLINE, Client
from simulation.judge.targets import Violation
from simulation.network.clients.direct_clients import KINDS, DirectClient
from simulation.network.clients.lone_clients import LoneClient
from simulation.network.clients.replies import AnsweredClient
from simulation.network.clients.retaining_clients import TOPICS
from simulation.network.network import BROKERS, DIRECT_CLIENTS, PAIRS, Network
from simulation.network.wires.ways import Pair
from simulation.scenario import MOVERS, PUBLISHERS, RETURNERS, TRANSACTORS
from simulation.steps import Step
from simulation.world import World

DOWN_US_MAX: Final = 20_000_000
STRIKE_US_MAX: Final = 15_000
PUBLISHES: Final = 9  # as what a client of the flow protocol, or one with transactions, does
DELAY_US_MAX: Final = 400_000
CALM_S_MAX: Final = 60
SECOND_US: Final = 1_000_000
ANSWER_S_MAX: Final = 10
TAKEN_OVER: Final = 0x8E  # the reason code


def play(network: Network, step: Step) -> None:
    """Carry out a step, then advance the time. Raises Violation."""
    network.ways.rng.seed(f"ways {step.salt}")
    act = NETWORK_ACTIONS.get(step.kind)
    broker = BROKERS[step.salt % len(BROKERS)]
    world = network.up.get(broker)
    if act is not None:
        act(network, step)
    elif world is not None:
        world.reseed(step.salt)
        ACTIONS[step.kind](world, step)
    network.advance(step.then_us)


def _pair(step: Step) -> Pair:
    return PAIRS[step.what % len(PAIRS)]


def _die(network: Network, step: Step) -> None:
    broker = BROKERS[step.who % len(BROKERS)]
    world = network.up.get(broker)
    if world is not None:
        world.reseed(step.salt)
        network.dies(broker, 1 + step.amount * 7 % DOWN_US_MAX)


def _strike(network: Network, step: Step) -> None:
    """Have the power fail at a broker while what clients there or elsewhere have just published is being written."""
    struck = BROKERS[step.who % len(BROKERS)]
    world = network.up.get(struck)
    publishing = world if step.salt % 2 else network.up.get(BROKERS[step.what % len(BROKERS)])
    if world is None or publishing is None:
        return
    for each in (world, publishing):
        each.reseed(step.salt)
    world.pace.slow_left += 1 + step.amount % 8
    ACTIONS["publish"](publishing, step)
    for who in range(len(RETURNERS)):
        ACTIONS["return"](publishing, step._replace(who=who, what=PUBLISHES))
    if publishing.scenario.transactions:
        for who in range(len(TRANSACTORS)):
            ACTIONS["transact"](publishing, step._replace(who=who, what=PUBLISHES))
    network.advance(step.amount % STRIKE_US_MAX)
    network.dies(struck, 1 + step.amount * 7 % SECOND_US)


def _backup(network: Network, step: Step) -> None:
    """Back a broker up, or restore what it has.

    A backup is often made before power fails: with that, other messages get the sequences that the restored one gives.
    """
    broker = BROKERS[step.who % len(BROKERS)]
    world = network.up.get(broker)
    if world is None:
        return
    world.reseed(step.salt)
    if step.what % 2 or broker not in network.backups:
        network.backups[broker] = world.take_backup()
        if step.amount % 3:
            network.dies(broker, SECOND_US)
        return
    network.mend_disks()
    network.restores(broker)


def _relapse(network: Network, step: Step) -> None:
    """Restore a broker that was backed up just before its power failed: both lives after that give equal sequences."""
    broker = BROKERS[step.who % len(BROKERS)]
    world = network.up.get(broker)
    if world is None:
        return
    world.reseed(step.salt)
    network.mend_disks()
    network.backups[broker] = world.take_backup()
    network.dies(broker, 1)
    network.advance(SECOND_US)
    _publishers_publish(network, world, step)
    network.restores(broker)
    network.ways.heal()
    network.wait_for_links(CALM_S_MAX)
    _publishers_publish(network, world, step)


def _publishers_publish(network: Network, world: World, step: Step) -> None:
    for name in PUBLISHERS:
        world.clients[name].connect(clean_start=False)
    network.advance(SECOND_US)
    for who in range(len(PUBLISHERS)):
        ACTIONS["publish"](world, step._replace(who=who))
    network.advance(SECOND_US)


def _block(network: Network, step: Step) -> None:
    one, other = _pair(step)
    for pair in ((one, other), (other, one)):
        network.ways.change(pair, is_blocked=True, delay_us=0)


def _one_way(network: Network, step: Step) -> None:
    network.ways.change(_pair(step), is_blocked=True, delay_us=0)


def _slow_way(network: Network, step: Step) -> None:
    network.ways.change(_pair(step), is_blocked=False, delay_us=step.amount * 7 % DELAY_US_MAX)


def _break_link(network: Network, step: Step) -> None:
    network.ways.breaks(_pair(step), step.who % 3)


def _heal(network: Network, step: Step) -> None:
    if step.what % 2:
        network.ways.heal()
    else:
        one, other = _pair(step)
        for pair in ((one, other), (other, one)):
            network.ways.change(pair, is_blocked=False, delay_us=0)


def _calm(network: Network, step: Step) -> None:
    """Have the network whole until all are linked."""
    network.ways.heal()
    network.mend_disks()
    for _ in range(CALM_S_MAX):
        network.wait_for_links(CALM_S_MAX)
        network.advance(SECOND_US)
        if network.are_all_linked():  # still: a link that has just been broken is up until its ends hear of it
            break
    if len(network.up) < len(BROKERS):
        return
    clients = network.direct_clients
    sent = [each.publish(kind) for each in clients[:: 1 + step.amount % 2] for kind in KINDS]
    network.advance(SECOND_US)
    if clients == network.direct_clients:
        for number in sent:
            network.judge.direct.check_came(number, clients)
    is_whole = len(network.up) == len(BROKERS) and network.are_all_linked()
    if is_whole and network.wait_for_retained(CALM_S_MAX, may_be_full=True):
        network.look_at_what_is_retained()
    if is_whole:
        network.wait_for_replies(CALM_S_MAX)
    _move(network, step)


def _move(network: Network, step: Step) -> None:
    """Have a client connect at a broker while the network is whole: that is the connection that it has then."""
    name, broker = MOVERS[step.what % len(MOVERS)], BROKERS[step.who % len(BROKERS)]
    clients = {at: world.clients[name] for at, world in network.up.items()}
    for client in clients.values():
        client.stall(False)
    _wait_for_answers(network, list(clients.values()))
    before = [at for at, client in clients.items() if client.state == ONLINE]
    clients[broker].connect(clean_start=False)
    _wait_for_answers(network, [clients[broker]])
    if not network.are_all_linked() or clients[broker].state == CONNECTING:
        return
    after = [at for at, client in clients.items() if client.state == ONLINE]
    if len(before) > 1 or after != [broker]:
        raise Violation(f"{name} had connections at {before}, and has them at {after} since it connected at {broker}")
    for at in before:
        if at != broker and clients[at].disconnected_with != TAKEN_OVER:
            raise Violation(f"{name} at {at} was disconnected with 0x{clients[at].disconnected_with:02x}")


def _wait_for_answers(network: Network, clients: list[Client]) -> None:
    for _ in range(ANSWER_S_MAX):
        network.advance(SECOND_US)
        if not any(client.state == CONNECTING for client in clients):
            break
    network.advance(SECOND_US)  # those that have lost their connection by that hear of it


def _direct(network: Network, step: Step) -> None:
    """Have a client of direct messages come, leave or publish, whatever the network does."""
    world = network.up.get(BROKERS[step.who % len(BROKERS)])
    if world is None:
        return
    client = world.direct_clients[step.what % len(DIRECT_CLIENTS)]
    for number in range(_comes_or_leaves(client, step)):
        client.publish(KINDS[number % len(KINDS)])
    answered = network.up.get(BROKERS[step.amount % len(BROKERS)])
    if answered is not None:
        _reply(client, answered.answered_client, step)


def _reply(client: DirectClient, answered: AnsweredClient, step: Step) -> None:
    """Have a client that may be at another broker come, leave, or be answered."""
    if answered.state == OFFLINE:
        answered.connect()
    elif step.what % 16 == 0:
        answered.cut()
    elif answered.queue:
        for _ in range(1 + step.what % 4):
            client.reply(answered.queue)


def _retain(network: Network, step: Step) -> None:
    """Have a client come, leave, or set or delete retained messages, whatever the network does."""
    world = network.up.get(BROKERS[step.who % len(BROKERS)])
    if world is None:
        return
    client = world.retaining_client
    deeds = _comes_or_leaves(client, step)
    for number in range(1 + deeds // 2 if deeds else 0):
        client.change(TOPICS[(step.what + number) % len(TOPICS)], deletes=(step.what >> number + 4) % 3 == 0)


def _comes_or_leaves(client: LoneClient, step: Step) -> int:
    """Have a client come or leave; return 0 then, or else how much it does while it is there: 2 to 7."""
    deed = step.amount % 8
    if client.state == OFFLINE:
        client.cut()
        client.connect()
    elif deed == 0:
        client.cut()
    elif deed == 1:
        client.close()
    else:
        return deed
    return 0


NETWORK_ACTIONS: Final[dict[str, Callable[[Network, Step], None]]] = {
    "die": _die,
    "strike": _strike,
    "backup": _backup,
    "relapse": _relapse,
    "block": _block,
    "one_way": _one_way,
    "slow_way": _slow_way,
    "break_link": _break_link,
    "heal": _heal,
    "calm": _calm,
    "direct": _direct,
    "retain": _retain,
}
