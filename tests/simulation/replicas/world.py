"""The world of one run: three machines, the servers between them, what clients want, and the judge."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any, Final

from simulation.judge.targets import Violation
from simulation.machine.virtual_loop import MONOTONIC_START_US
from simulation.network.wires.joined_loops import JoinedLoops
from simulation.replicas.book import Book, Owner
from simulation.replicas.broker.node import Demand, ModelNode
from simulation.replicas.broker.state import state_of
from simulation.replicas.process.loops import machine_loop, running
from simulation.replicas.process.machine import Machine
from simulation.replicas.process.report import Report
from simulation.replicas.process.surroundings import surrounded
from simulation.replicas.servers.connection import Connection
from simulation.replicas.servers.objects import maker_of_newest, verified_snapshots
from simulation.replicas.servers.servers import Servers
from simulation.replicas.servers.stream import ModelStream
from sluicegate.actors.runtime.clock import Clock
from sluicegate.gateway.cluster.replica.process import ReplicaProcess
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.cluster import Cluster
from sluicegate.gateway.config.sections.node import Data, Node, Spool
from sluicegate.gateway.config.sections.watchdog import Watchdog
from sluicegate.gateway.node.environment import Environment
from sluicegate.storage.interface import Store
from sluicegate.storage.replication.jetstream import stream_name
from sluicegate.storage.replication.messages import Kind, place_of
from support.storage.replicas import content_of

BROKER: Final = "edge"
MACHINES: Final = ("a", "b", "c")
LEASE_US: Final = 3_000_000
WATCH_US: Final = 100_000
LOG: Final = stream_name(BROKER)
WRITTEN: Final = re.compile(r"another replica has written message (\d+)")
SNAPSHOTS: Final = f"OBJ_{stream_name(BROKER)}"
KEPT: Final = 2  # snapshots of which one may be lost
UNCHECKED_SEEDS: Final = 4  # each so many of them has servers that store whatever comes: readers have the last word
MAP_BYTES: Final = 16 << 20
LOG_BYTES: Final = (150_000, 300_000, 300_000, 2_000_000)
IN_MEMORY: Final = Path("/dev/shm")  # a run is quick without a disk


class World:
    """Everything there is in one run. Make it within `worlds`."""

    def __init__(self, seed: int, folder: Path) -> None:
        rng = Random(f"replicas {seed}")
        self.rng: Final = Random(seed)  # seeded anew by each step
        self.book: Final = Book()
        self.demand: Final = Demand(Random(seed))
        self.demand.checkpoint_share = rng.choice((0.02, 0.1, 0.5))
        self.trace: Final = blake2b(digest_size=8)  # of what the servers have stored
        self.report: Final = Report()
        self.crashes_count = 0
        self._joined: Final = JoinedLoops()
        self._loop: Final = self._joined.begin(MONOTONIC_START_US)
        self.servers: Final = Servers(self._loop, Random(seed))
        self.servers.on_stored = self._stored
        self.servers.on_purged = self._purged
        if seed % UNCHECKED_SEEDS == 0:
            self.servers.api.unchecked = LOG
        self._epoch = 0  # the highest in the log
        self._epoch_us = 0  # when it was stored
        log_bytes = rng.choice(LOG_BYTES)
        self.machines: Final = {
            name: Machine(
                _config(name, folder, log_bytes),
                self._joined,
                self._failed,
                lost=self._ended,
                log_begins=self.log_begins,
            )
            for name in MACHINES
        }
        self._connections_count = 0
        self._lost: set[str] = set()  # snapshots
        self._joined.is_over = lambda: bool(self.book.violation)

    def reseed(self, salt: int) -> None:
        """Begin a step: what is drawn from here on depends on its salt only."""
        for number, rng in enumerate((self.rng, self.demand.rng, self.servers.rng)):
            rng.seed(f"{salt} {number}")

    def start(self) -> None:
        """Start all replicas."""
        for machine in self.machines.values():
            machine.start()
        self._loop.call_later(WATCH_US / 1_000_000, self._watch)

    def advance(self, duration_us: int) -> None:
        """Let time pass. Raises Violation."""
        self._joined.advance(duration_us)
        if self.book.violation:
            raise Violation(self.book.violation)

    def later(self, after_us: int, then: Any) -> None:
        """Have something happen after a while."""
        self._loop.call_later(after_us / 1_000_000, then)

    def close(self) -> None:
        """Let go of everything."""
        for machine in self.machines.values():
            machine.crash()
        self._loop.close()

    def make_well(self) -> None:
        """End all faults, and have all replicas run."""
        self.servers.heal()
        for machine in self.machines.values():
            machine.pause(is_paused=False)
            if not machine.is_up:
                machine.start()

    def maker_of_snapshot(self) -> Machine | None:
        """Return the machine whose replica makes a snapshot that is not verified yet."""
        stream = self.servers.api.streams.get(SNAPSHOTS)
        return None if stream is None else self.machines.get(maker_of_newest(stream))

    def lose_snapshot(self, *, newest: bool) -> None:
        """Lose one of the newest two snapshots, unless one of them is lost already."""
        stream = self.servers.api.streams.get(SNAPSHOTS)
        kept = [] if stream is None else verified_snapshots(stream)[-KEPT:]
        if stream is not None and len(kept) == KEPT and not any(each.name in self._lost for each in kept):
            lost = kept[-1 if newest else 0]
            self._lost.add(lost.name)
            stream.purge(lost.chunks)

    # --- what replicas reach ---

    async def connected(self, *_: Any, **__: Any) -> Connection:
        """Return a connection of the process that runs."""
        machine = self.machines[machine_loop().clocks.machine]
        self._connections_count += 1
        made = Connection(self.servers, machine.name, self._connections_count)
        machine.connections.append(made)
        return made

    def loop_thread(self) -> Any:
        """Return a thread of the process that runs."""
        return self.machines[machine_loop().clocks.machine].loop_thread()

    def make_node(
        self, config: Config, store: Store, *, clock: Clock, environment: Environment, operator_ports: Any
    ) -> ModelNode:
        """Return the node of the process that runs."""
        process = self.machines[config.cluster.replica].process
        assert process is not None
        owner = Owner(config.cluster.replica, process.spool.replica.epoch)
        return ModelNode(store, environment, self.book, self.demand, owner, begins_turn=self._begins_turn)

    # --- what is watched ---

    def _failed(self, violation: Violation) -> None:
        said = f": {self.report.last}" if self.report.last else ""
        self.book.note(f"{violation}{said}")

    def _stored(self, stream: ModelStream) -> None:
        message = stream.messages[stream.last]
        self.trace.update(message.data)
        if stream.config["name"] == LOG and message.data[1] == Kind.EPOCH:
            epoch = place_of(message.data, "an epoch message").epoch
            if epoch > self._epoch:
                self._epoch, self._epoch_us = epoch, self._loop.now_us

    def _purged(self, stream: ModelStream) -> None:
        """See that two snapshots that count have what a trim of the log has deleted, so that one may be lost."""
        snapshots = self.servers.api.streams.get(SNAPSHOTS)
        if stream.config["name"] != LOG or stream.first == 1 or snapshots is None:
            return
        enough = [each for each in verified_snapshots(snapshots) if each.position >= stream.first]
        if len(enough) < KEPT:
            self.book.note(f"the log is trimmed to {stream.first}, and {len(enough)} snapshots go so far")

    def _ended(self, machine: Machine, process: ReplicaProcess) -> None:
        """See that a replica that begins anew has a reason."""
        stream = self.servers.api.streams[LOG]
        if process._gone.done():
            found = WRITTEN.search(process._gone.result())
            message = None if found is None else stream.messages.get(int(found[1]))
            if message is not None and self.servers.api.unchecked != LOG:
                epoch = place_of(message.data, "a message").epoch
                if epoch == process.spool.replica.epoch:
                    self.book.note(f"replica {machine.name} has lost the broker to a copy of its own")
            return
        store = process.spool._store
        if store is not None and max(1, store.last_number) < stream.first == machine.log_began:
            text = f"has record {store.last_number} since it began, and the log goes back to {stream.first}"
            self.book.note(f"replica {machine.name} {text}")

    def log_begins(self) -> int:
        """Return the first sequence of the log."""
        stream = self.servers.api.streams.get(LOG)
        return 1 if stream is None else stream.first

    def _begins_turn(self, owner: Owner) -> None:
        """See that an owner of the past does nothing."""
        process = self.machines[owner.replica].process
        assert process is not None
        over_s = machine_loop().time() - process.ownership._lease.stops_s()
        if over_s > 0:
            self.book.fail(f"{owner} goes on {over_s:.1f} s after its lease")
        if owner.epoch < self._epoch and self._loop.now_us - self._epoch_us > LEASE_US:
            over_s = (self._loop.now_us - self._epoch_us) / 1_000_000
            self.book.fail(f"{owner} goes on {over_s:.1f} s after epoch {self._epoch}")

    def _watch(self) -> None:
        """See that an owner of the past serves for a lease at most."""
        self.later(WATCH_US, self._watch)
        over_us = self._loop.now_us - self._epoch_us
        for machine in self.machines.values():
            process = machine.process
            if process is None or machine.clocks.is_paused or over_us <= LEASE_US:
                continue
            with running(machine.main_loop):
                is_past = process.ownership.serves() and 0 < process.ownership._lease.epoch < self._epoch
            if is_past:
                text = f"replica {machine.name} serves {over_us / 1_000_000:.1f} s after epoch {self._epoch}"
                self.book.note(text)

    def owner(self) -> Machine | None:
        """Return the machine whose replica has a node and may serve."""
        for machine in self.machines.values():
            process = machine.process
            if process is not None and process.node is not None and not machine.clocks.is_paused:
                with running(machine.main_loop):
                    if process.ownership.serves() and process.role == "owner":
                        return machine
        return None

    def are_all_caught_up(self) -> bool:
        """Return whether all replicas have what the log has."""
        stream = self.servers.api.streams.get(LOG)
        return stream is not None and all(
            each.process is not None and each.process.spool.replica.read_through == stream.last
            for each in self.machines.values()
        )

    def check_copies(self) -> None:
        """Compare what all replicas have. Raises Violation."""
        for machine in self.machines.values():
            store = machine.store()
            if store is None:
                self.book.fail(f"replica {machine.name} has no store")
            content = content_of(store)
            if content.quarantined_count:
                self.book.fail(f"replica {machine.name} has {content.quarantined_count} damaged records")
            self.book.check_copy(machine.name, state_of(content))


def _config(name: str, folder: Path, log_bytes: int) -> Config:
    """Return the configuration of a replica, with a log that is smaller than operators may have it."""
    cluster = Cluster(servers=("nats://one:4222",), replica=name, replicas=MACHINES, lease_ms=LEASE_US // 1000)
    return Config(
        node=Node(name=BROKER),
        data=Data(path=folder / name),
        spool=Spool(map_bytes_max=MAP_BYTES, usage_bytes_max=MAP_BYTES // 2, sync=False),
        watchdog=Watchdog(kill_s=0),
        cluster=cluster.model_copy(update={"log_bytes_max": log_bytes}),
    )


@contextmanager
def world_of(seed: int) -> Iterator[World]:
    """Have a world within the block."""
    parent = IN_MEMORY if IN_MEMORY.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="replicas-", dir=parent))
    try:
        world = World(seed, folder)
        with (
            world.report.taken(),
            surrounded(
                Random(f"secrets {seed}"),
                loop_thread=world.loop_thread,
                connected=world.connected,
                make_node=world.make_node,
            ),
        ):
            try:
                world.start()
                yield world
            finally:
                world.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
