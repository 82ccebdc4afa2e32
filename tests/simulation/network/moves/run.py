"""One run of moves: the steps of a seed, and at the end one consumer, who gets what was confirmed."""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final

from simulation.clients.client import OFFLINE
from simulation.judge.targets import Violation
from simulation.machine.virtual_loop import EndlessLoop
from simulation.network.actions import NETWORK_ACTIONS
from simulation.network.moves.clients import (
    ASIDE,
    DYING,
    QUEUE,
    TOPICS,
    MoveBook,
    TravelConsumer,
    TravelPublisher,
)
from simulation.network.network import BROKERS, Broker, Network
from simulation.network.run import LINKED_S_MAX
from simulation.network.steps import network_scenario_of
from simulation.run import Outcome, mend
from simulation.steps import Step, drawn_steps
from sluicegate.actors.messages.directory import UpdateRefused
from sluicegate.protocols.network.moves.moves import VpnMoves

WEIGHTS: Final = {
    "die": 2.5,
    "block": 2.0,
    "one_way": 1.5,
    "slow_way": 1.5,
    "break_link": 3.0,
    "heal": 6.0,
    "send": 40.0,
    "take": 4.0,
    "move": 10.0,
    "move_and_die": 6.0,
    "move_and_send": 6.0,
    "answer_early": 4.0,
    "die_before_told": 4.0,
    "together": 2.0,
}
BEGIN: Final = ["together"] + ["send"] * 6 + ["move", "answer_early", "die_before_told"]
SECOND_US: Final = 1_000_000
STRIKE_US_MAX: Final = 400_000
SWITCH_US_MAX: Final = 60_000  # a move of a small queue takes about so long
SENDS_IN_SWITCH: Final = 12
SEND_EVERY_US_MAX: Final = 3_000
DOWN_US_MAX: Final = 4_000_000
MOMENT_US_MAX: Final = 3_000_000  # until a move is as far as a step waits for
LOOK_EVERY_US: Final = 500
HOLD_US: Final = 20_000  # on its way to a broker, which goes on to send meanwhile
OVER_S_MAX: Final = 180  # after the network is mended
COMES_S_MAX: Final = 60


class Travel:
    """A network, and a queue that moves in it."""

    def __init__(self, seed: int) -> None:
        self.network = Network(seed, network_scenario_of(seed))
        self.book = MoveBook()
        self.publishers: dict[str, TravelPublisher] = {}
        self.consumers: dict[str, TravelConsumer] = {}
        self.begun_count = 0
        for name, world in self.network.worlds.items():
            qos = 1 + (seed + BROKERS.index(name)) % 2
            self.publishers[name] = TravelPublisher(f"tp-{name}", name, self.book, qos=qos, dial=world.dial_mqtt)
            self.consumers[name] = TravelConsumer(f"tc-{name}", name, self.book, dial=world.dial_mqtt)
            world.others += [self.publishers[name], self.consumers[name]]
        home = self.network.worlds[BROKERS[seed % len(BROKERS)]]
        home.ask(home.view.create_queue({"name": QUEUE, "subscriptions": [f"{TOPICS}/>"]}, durable=True))
        for name, world in self.network.worlds.items():
            dying = {
                "name": f"{DYING}-{name}",
                "subscriptions": [f"{DYING}/{name}"],
                "dead_msg_queue": QUEUE,
                "respect_ttl_enabled": True,
                "max_ttl": 1,
            }
            world.ask(world.view.create_queue(dying, durable=True))
            aside = {"name": f"{ASIDE}-{name}", "subscriptions": [f"{ASIDE}/>"]}
            world.ask(world.view.create_queue(aside | {"respect_ttl_enabled": True, "max_ttl": 1}, durable=True))
            world.log.expected.append("traveller is about to get another home")  # a broker may be away for long
        self.network.wait_for_links(LINKED_S_MAX)

    def moves_at(self, world: Broker) -> VpnMoves:
        """Return the moves of a broker that runs."""
        links = next(iter(world.node.links.links.neighbors.values()))
        return links.vpns[0].vpn.moves

    @property
    def homes(self) -> list[str]:
        """The brokers that run and are the home of the queue."""
        return [name for name, each in self.network.up.items() if each.node.default.space.has_queue(QUEUE)]

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing moves, or waits for a move."""
        for world in self.network.worlds.values():
            moves = self.moves_at(world)
            if moves.movers or moves.moved or moves.holds.by_queue or world.node.default.space.held is not None:
                return False
        return len(self.homes) == 1

    def send(self, step: Step) -> None:
        """Publishers send, whatever the network does."""
        for place, name in enumerate(BROKERS):
            world, publisher = self.network.up.get(name), self.publishers[name]
            if world is None or step.who >> place & 1:
                continue
            world.reseed(step.salt)
            self._connect(name)
            for number in range(1 + step.amount % 12):
                publisher.publish(by_name=step.what >> number & 1 == 0, dies=(step.what >> number) % 3 == 0)

    def take(self, step: Step) -> None:
        """A consumer comes; those of other brokers leave, so that its messages come to one at a time."""
        name = BROKERS[step.who % len(BROKERS)]
        for each in self.network.up:
            self.consumers[each].close()
        world = self.network.up.get(name)
        if world is not None and step.what % 3:
            world.reseed(step.salt)
            self.network.advance(SECOND_US)
            self.consumers[name].connect()

    def move(self, step: Step) -> None:
        """Begin to move the queue, if it is anywhere."""
        homes = self.homes
        to = BROKERS[step.who % len(BROKERS)]
        if homes and homes[0] != to:
            self._move(step, homes[0], to)

    def _move(self, step: Step, home: str, to: str) -> None:
        world = self.network.worlds[home]
        world.reseed(step.salt)
        with suppress(UpdateRefused):
            world.ask(self.moves_at(world).begin(QUEUE, to))
            self.begun_count += 1

    def move_and_die(self, step: Step) -> None:
        """Begin to move it, and have a broker lose its power a moment later, while publishers send."""
        self.send(step)
        self.network.advance(step.amount % STRIKE_US_MAX)
        self.move(step)
        self.send(step)
        self.network.advance(step.what % SWITCH_US_MAX)
        broker = BROKERS[step.what % len(BROKERS)]
        if broker in self.network.up:
            self.network.up[broker].reseed(step.salt)
            self.network.dies(broker, 1 + step.amount * 7 % DOWN_US_MAX)

    def move_and_send(self, step: Step) -> None:
        """Begin to move it, and have publishers send again and again while brokers ask for the switch."""
        self.move(step)
        for number in range(SENDS_IN_SWITCH):
            self.send(step._replace(who=0, amount=step.amount + number))
            self.network.advance(1 + (step.what >> number) % SEND_EVERY_US_MAX)

    def _brokers_of(self, step: Step) -> tuple[str, str, str] | None:
        """Return the old home of a move, the new one, and the third broker, all at rest. None: they do not come to it.

        Nobody dies for as long as the step looks on.
        """
        self.network.ways.heal()
        self.network.all_come_back()
        self._comes(lambda: self.network.are_all_linked() and self.is_at_rest, look_every_us=SECOND_US // 5)
        homes, others = self.homes, [each for each in BROKERS if each not in self.homes]
        if len(homes) != 1 or not self.is_at_rest:
            return None
        to = others[step.who % 2]
        [third] = [each for each in others if each != to]
        self._connect(third)
        self.network.advance(SECOND_US)
        return homes[0], to, third

    def _connect(self, name: str) -> None:
        if self.publishers[name].state == OFFLINE:
            self.publishers[name].cut()
            self.publishers[name].connect()

    def _comes(self, moment: Callable[[], bool], *, look_every_us: int = LOOK_EVERY_US) -> bool:
        """Let time go on until something is so; return whether it is. Raises Violation."""
        for _ in range(MOMENT_US_MAX // look_every_us):
            if moment():
                break
            self.network.loops.advance(look_every_us)
        self.network.check()
        return moment()

    def _empty(self, home: str) -> None:
        """Have a consumer take what there is."""
        for each in self.consumers.values():
            each.close()
        self.network.advance(SECOND_US)
        self.consumers[home].connect()
        self._comes(lambda: _count_in(self.network.worlds[home]) == 0, look_every_us=SECOND_US // 50)

    def answer_early(self, step: Step) -> None:
        """Have a broker send for the queue until it holds, while the old home stores something else for long.

        What it has sent waits at the old home for that, and is behind an answer that is given too early.
        """
        found = self._brokers_of(step)
        if found is None:
            return
        home, to, third = found
        world, publisher = self.network.worlds[home], self.publishers[third]
        self._empty(home)  # the rest would be handed over behind what is stored for long
        self.network.ways.change((home, third), is_blocked=False, delay_us=HOLD_US)
        self._move(step, home, to)
        holds = self.moves_at(world).holds.by_queue
        if self._comes(lambda: QUEUE in holds and holds[QUEUE].is_answered):
            world.reseed(step.salt)
            world.pace.slow_left += 2
            publisher.publish_aside()
            for number in range(1 + step.amount % SENDS_IN_SWITCH):
                self.network.advance(1 + (step.what >> number) % SEND_EVERY_US_MAX // 2)
                publisher.publish(by_name=step.what >> number & 1 == 0, dies=False)

    def die_before_told(self, step: Step) -> None:
        """Have the old home die as soon as the queue is elsewhere; the new home reaches the third broker much later.

        The old home alone can tell the third broker then, which holds what is published there.
        """
        found = self._brokers_of(step)
        if found is None:
            return
        home, to, third = found
        world, ways = self.network.worlds[home], self.network.ways
        self._move(step, home, to)
        moves, holds = self.moves_at(world), self.moves_at(self.network.worlds[third]).holds.by_queue
        if self._comes(lambda: QUEUE in holds and holds[QUEUE].is_answered):
            ways.change((home, third), is_blocked=True, delay_us=0)  # the answer goes the other way
            ways.change((to, third), is_blocked=True, delay_us=0)  # the new home waits a while for it to be told
            if self._comes(lambda: QUEUE in moves.moved):
                world.reseed(step.salt)
                self.network.dies(home, 1 + step.amount * 7 % SECOND_US)
                ways.change((home, third), is_blocked=False, delay_us=0)
                for number in range(SENDS_IN_SWITCH):
                    self.publishers[third].publish(by_name=step.what >> number & 1 == 0, dies=False)
                self.network.advance(3 * SECOND_US)

    def together(self, step: Step) -> None:
        """Have the network whole for a while."""
        self.network.ways.heal()
        self.network.advance(3 * SECOND_US)

    def play(self, step: Step) -> None:
        """Carry out a step, then advance the time. Raises Violation."""
        self.network.ways.rng.seed(f"ways {step.salt}")
        own = {
            "send": self.send,
            "take": self.take,
            "move": self.move,
            "move_and_die": self.move_and_die,
            "move_and_send": self.move_and_send,
            "answer_early": self.answer_early,
            "die_before_told": self.die_before_told,
            "together": self.together,
        }.get(step.kind)
        if own is not None:
            own(step)
        else:
            NETWORK_ACTIONS[step.kind](self.network, step)
        self.network.advance(step.then_us)

    def drain(self, step: Step) -> None:
        """Mend everything, and have one consumer take what is left. Raises Violation."""
        network = self.network
        network.ways.rng.seed("drain")
        network.ways.heal()
        network.all_come_back()
        for world in network.worlds.values():
            mend(world)
        network.wait_for_links(LINKED_S_MAX)
        self._wait(lambda: self.is_at_rest, OVER_S_MAX, "the queue still moves, or publishers still wait")
        for each in self.consumers.values():
            each.close()
        network.advance(5 * SECOND_US)
        self.book.is_draining = True
        self.consumers[BROKERS[step.who % len(BROKERS)]].connect()
        home = network.worlds[self.homes[0]]
        self._wait(lambda: not self.book.missing, COMES_S_MAX, "confirmed messages have not come")
        self._wait(lambda: _count_in(home) == 0, COMES_S_MAX, "messages are left")

    def _wait(self, is_so: object, within_s: int, otherwise: str) -> None:
        assert callable(is_so)
        for _ in range(within_s):
            if is_so():
                return
            self.network.advance(SECOND_US)
        raise Violation(f"{otherwise}: at {self.homes}, {len(self.book.missing)} missing: {self.book.missing[:5]}")


def _count_in(world: Broker) -> int:
    return int(world.node.default.ways.targets[QUEUE].gate.usage_count)


def moves_steps_of(seed: int, count: int) -> list[Step]:
    """Return the steps of a seed."""
    return drawn_steps(Random(f"moves {seed}"), WEIGHTS, BEGIN, count)


def run_moves(seed: int, steps: list[Step] | None = None, *, count: int = 100) -> Outcome:
    """Play the steps of a seed, or some of them, then drain."""
    steps = moves_steps_of(seed, count) if steps is None else steps
    travel = Travel(seed)
    violation, played = "", 0
    try:
        for step in steps:
            travel.play(step)
            played += 1
        travel.drain(moves_steps_of(seed, 1)[0])
    except (Violation, AssertionError, EndlessLoop, TimeoutError) as error:
        violation = f"{type(error).__name__}: {error}"
    finally:
        travel.network.close()
    book, crashes = travel.book, travel.network.course.crashes
    seen = sum(book.seen.values())
    return Outcome(seed, violation, played, travel.network.hexdigest(), seen, len(book.confirmed), crashes)
