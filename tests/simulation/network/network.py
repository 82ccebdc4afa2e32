"""The brokers of one run, each with its clients, its disk and its judge, and what joins them."""

import hashlib
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any, Final

from simulation.checks.log_watch import LogWatch
from simulation.checks.node_checks import queues_of
from simulation.clients.client import ONLINE
from simulation.course import Course
from simulation.judge.targets import NOT_YET, Violation
from simulation.network.clients.direct_clients import DirectClient
from simulation.network.clients.replies import AnsweredClient, Reply, ReplyBook
from simulation.network.clients.retaining_clients import RetainBook, RetainingClient
from simulation.network.judge.interests import interests_agree, knows_all
from simulation.network.judge.link_judge import LinkJudge
from simulation.network.judge.link_tap import LinkTap
from simulation.network.judge.retained_state import refuses_retained, retained_at_rest
from simulation.network.steps import scenario_at
from simulation.network.wires.joined_loops import JoinedLoops
from simulation.network.wires.ways import Pair, Process, Reach, Tap, Ways
from simulation.scenario import APART, SOLE_QUEUES, SPARE, Scenario
from simulation.surroundings import Surroundings
from simulation.wires.memory_network import MemoryListener
from simulation.world import AnyClient, Backup, World
from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE
from sluicegate.storage.interface import CommitJob

BROKERS: Final = ("a", "b", "c")
# What their clocks show differs, by less than makes brokers doubt a neighbor's clock.
AHEAD_MS: Final = (0, 2_400_000, -900_000)
TICK_US: Final = 10_000_000  # clients show that they are alive so often
DIRECT_CLIENTS: Final = ("d0", "d1")
PAIRS: Final[tuple[Pair, ...]] = tuple((one, other) for one in BROKERS for other in BROKERS if one != other)


class Network:
    """Everything there is in one run."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        rng = Random(f"network {seed}")
        self.course = Course()
        self.loops = JoinedLoops()
        self.log = LogWatch()
        self.ways = Ways(BROKERS)
        self.up_again_us: dict[str, int] = {}  # brokers that are down
        self.backups: dict[str, Backup] = {}  # by broker: the last one
        self.judge = LinkJudge()
        self.retained = RetainBook()
        self.replies = ReplyBook()
        self.worlds: dict[str, Broker] = {}
        dials = {pair: rng.random() < 0.7 for pair in PAIRS}
        for one, other in PAIRS:  # one of two has to
            dials[one, other] = dials[one, other] or not dials[other, one]
        homes = {queue: rng.choice(BROKERS) for queue in SOLE_QUEUES}
        when_full = rng.choice(("refuse", "discard"))
        for name, ahead_ms in zip(BROKERS, AHEAD_MS, strict=True):
            links: dict[str, dict[str, Any]] = {
                other: {
                    "url": f"flow://127.0.0.1:{self.ways.port_of(other)}" if dials[name, other] else "",
                    "when_full": when_full,
                    "export_exclude_queues": [APART],
                }
                for other in BROKERS
                if other != name
            }
            surroundings = Surroundings(
                broker=name,
                course=self.course,
                log=self.log,
                begin=self.loops.begin,
                began_us=self.loops.now_us,
                outside=Reach(name, self.ways),
                ahead_ms=ahead_ms,
                links=links,
            )
            its_scenario = scenario_at(scenario, {queue for queue, home in homes.items() if home == name})
            self.worlds[name] = Broker(self, rng.getrandbits(32), its_scenario, surroundings)
        self._next_tick_us = self.loops.now_us + TICK_US
        self.loops.is_over = self._is_over

    def close(self) -> None:
        """Let go of everything."""
        for name, world in self.worlds.items():
            if name not in self.up_again_us:
                world.close()
        self.log.stop()

    @property
    def up(self) -> "dict[str, Broker]":
        """The brokers that run."""
        return {name: world for name, world in self.worlds.items() if name not in self.up_again_us}

    # --- brokers ---

    def dies(self, name: str, down_us: int) -> None:
        """A broker loses its power, for a while."""
        self.worlds[name].dies()
        self.up_again_us[name] = self.loops.now_us + down_us

    def restores(self, name: str) -> None:
        """A broker dies, and comes back with its last backup."""
        self.dies(name, 0)
        self.worlds[name].restore(self.backups[name])
        self.retained.restored(name)
        self.replies.restored(name)
        self.comes_back(name)

    def comes_back(self, name: str) -> None:
        """A broker starts again."""
        del self.up_again_us[name]
        world = self.worlds[name]
        world.loop = world.surroundings.begin(self.loops.now_us)
        world.start()

    def all_come_back(self) -> None:
        """All brokers run."""
        for name in list(self.up_again_us):
            self.comes_back(name)

    def mend_disks(self) -> None:
        """All brokers can write."""
        for world in self.up.values():
            world.faults.end()

    def hexdigest(self) -> str:
        """Return what tells one run from another."""
        trace = hashlib.blake2b(digest_size=8)
        for world in self.worlds.values():
            trace.update(world.trace.digest())
        return trace.hexdigest()

    # --- time and checks ---

    def advance(self, duration_us: int) -> None:
        """Advance the time."""
        end_us = self.loops.now_us + duration_us
        while True:
            down = min(self.up_again_us, key=lambda name: self.up_again_us[name], default="")
            due_us = min(end_us, self._next_tick_us, self.up_again_us.get(down, end_us))
            self.loops.advance(max(0, due_us - self.loops.now_us))
            if self.loops.now_us >= self._next_tick_us:
                self._next_tick_us = self.loops.now_us + TICK_US
                for world in self.up.values():
                    world.show_that_clients_live()
            if down and self.loops.now_us >= self.up_again_us[down]:
                self.comes_back(down)
            elif self.loops.now_us >= end_us:
                break
        self.check()

    def check(self) -> None:
        """Hold everything that is known now against the promises."""
        for world in self.up.values():
            world.check()
        self._see_what_is_known()
        self.judge.check()

    def _see_what_is_known(self) -> None:
        """Note of queues and sessions that other brokers know of them: they have acknowledged all that was told."""
        up = self.up
        for name, world in up.items():
            for other in up:
                if other == name or not knows_all(world.node, other):
                    continue
                for target in world.truth.targets.values():
                    if target.since_tick != NOT_YET and other not in target.known_tick:
                        target.known_tick[other] = world.truth.next_tick()

    def are_all_linked(self) -> bool:
        """Return whether all brokers run, and know of each other what they want."""
        up = self.up
        return len(up) == len(BROKERS) and all(
            interests_agree(up[one].node, up[other].node, up[other].image) for one, other in PAIRS
        )

    @property
    def direct_clients(self) -> list[DirectClient]:
        """Those that are there."""
        return [each for world in self.up.values() for each in world.direct_clients if each.state == ONLINE]

    def wait_for_links(self, within_s: int) -> None:
        """Let time go on until all are linked. Raises Violation."""
        for _ in range(within_s):
            if self.are_all_linked():
                return
            self.advance(1_000_000)
        raise Violation(f"the network is whole since {within_s} s, and brokers do not know what the others want")

    def wait_for_retained(self, within_s: int, *, may_be_full: bool = False) -> bool:
        """Let time go on until all brokers, which run, agree on what is retained. Raises Violation.

        Return False if a store refuses a message all the time, as one that is full may do.
        """
        for _ in range(within_s):
            worlds = list(self.worlds.values())
            found = None
            if not any(each.retaining_client.is_waiting for each in worlds):
                found = retained_at_rest([each.node for each in worlds])
            if found is not None:
                self.retained.agreed(found)
                return True
            self.advance(1_000_000)
        if may_be_full and any(refuses_retained(each.node) for each in self.worlds.values()):
            return False
        raise Violation(f"the network is whole since {within_s} s, and retained messages are still under way")

    def wait_for_replies(self, within_s: int) -> None:
        """Let time go on until what was confirmed to temporary queues has come. Raises Violation."""
        for _ in range(within_s):
            missing = [each for world in self.up.values() for each in world.missing_replies]
            if not missing:
                return
            self.advance(1_000_000)
        raise Violation(f"the network is whole since {within_s} s, and these have not come: {missing}")

    def look_at_what_is_retained(self) -> None:
        """See that clients are sent what their brokers retain."""
        found = retained_at_rest([each.node for each in self.worlds.values()])
        clients = [each.retaining_client for each in self.worlds.values()]
        for client in clients:
            client.look()
        self.advance(1_000_000)
        for client in clients:
            if client.state == ONLINE and client.saw != found:
                raise Violation(f"a client at {client.broker} was sent {client.saw}, and {found} are retained")

    def _is_over(self) -> bool:
        """Return whether a promise is broken. What circles for ever, and becomes more, would go on until the end."""
        return any(world.has_violation for world in self.worlds.values())


class Broker(World):
    """One broker of the network."""

    def __init__(self, network: Network, seed: int, scenario: Scenario, surroundings: Surroundings) -> None:
        self._ways = network.ways
        self._link_judge = network.judge
        self._replies = network.replies
        name, dial = surroundings.broker, partial(self._dial, "mqtt")
        self.direct_clients = [
            DirectClient(each, name, network.judge.direct, network.replies, dial=dial) for each in DIRECT_CLIENTS
        ]
        self.answered_client = AnsweredClient(f"x-{name}", network.replies, dial=partial(self._dial, "amqp"))
        self.retaining_client = RetainingClient(f"r-{name}", name, network.retained, dial=dial)
        self.dial_mqtt = dial
        self.others: list[AnyClient] = []  # of the game that is played
        super().__init__(seed, scenario, surroundings)

    def start(self) -> None:
        """Bring up a node from the image; the others can reach it once it is up."""
        name = self.surroundings.broker
        self._link_judge.knows(self.truth)
        self._ways.went_down(name)
        self._ways.came_up(name, Process(self.loop, self._link_end))
        super().start()
        listener = self.node.flow.listeners["flow"]
        assert isinstance(listener, MemoryListener)
        self._ways.processes[name].listener = listener

    def dies(self) -> None:
        """Lose everything but the image."""
        self._ways.went_down(self.surroundings.broker)
        super().dies()

    def _link_end(self, neighbor: str) -> Tap:
        """Return who is told of this broker's end of a connection."""
        tap = LinkTap(self.truth, self._link_judge.truths[neighbor])

        def written(data: bytes) -> None:
            self.trace.update(data)
            self._judge(tap.written, data)

        return Tap(written, lambda data: self._judge(tap.read, data), tap.ended)

    @property
    def missing_replies(self) -> list[Reply]:
        """Replies that were confirmed, and have not come to its client that is there."""
        queue = self.answered_client.queue
        return self._replies.missing(queue) if queue else []

    def _everybody(self) -> Iterator[AnyClient]:
        yield from super()._everybody()
        yield from self.direct_clients
        yield self.retaining_client
        yield self.answered_client
        yield from self.others

    def committed(self, job: CommitJob) -> None:
        """A record is in the log."""
        super().committed(job)
        dead = {
            each.partition_id
            for queue in queues_of(self.node)
            if queue.name in (SPARE, DEAD_MESSAGE_QUEUE)
            for each in queue.target.partitions
        }
        ahead_ms = self.surroundings.ahead_ms
        self._judge(lambda job: self._link_judge.committed(self.truth, job, ahead_ms=ahead_ms, dead=dead), job)
