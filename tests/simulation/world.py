"""The world of one run: a node in one life after another, the image of its disk, clients, and operators.

`actions` contains the steps. Everything here raises Violation when the node breaks a promise.
"""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from random import Random
from typing import Any, NamedTuple, Protocol

import pykka

from simulation.checks.log_watch import LogWatch
from simulation.checks.node_checks import QuotaWatch, check_inside, forget_connections, is_being_read_back, queues_of
from simulation.checks.store_book import StoreBook
from simulation.clients.browser import Browser
from simulation.clients.client import KEEP_ALIVE_S, Client
from simulation.clients.cursor_reader import CURSOR, Reader
from simulation.clients.http_clients import Program, Requester
from simulation.clients.named_publisher import Returner
from simulation.clients.resuming_client import MANNERS, Resumer
from simulation.clients.staging_job import Job
from simulation.clients.transacting_client import Transactor
from simulation.configuration import UNBOUNDED, Configuration
from simulation.delivery_points import PORTS
from simulation.judge.sequences import SequenceBook
from simulation.judge.targets import NOT_YET, PARTITIONED, Target, Violation
from simulation.judge.truth import Truth
from simulation.judge.wills import Will
from simulation.machine.image import Image
from simulation.machine.memory_store import Faults, MemoryStore
from simulation.machine.stepwise_store import Pace, StepwiseStore
from simulation.machine.virtual_loop import VirtualClock
from simulation.machine.web_servers import Web
from simulation.scenario import (
    BROWSERS,
    CONSUMERS,
    FLEETING,
    PUBLISHERS,
    REQUESTERS,
    RESUMERS,
    RETURNERS,
    SPARE,
    SUBSCRIBERS,
    TEMPORARY,
    TRANSACTORS,
    Scenario,
)
from simulation.surroundings import Surroundings
from simulation.wires.memory_network import MemoryListener, Peer, Wire, dialed
from simulation.wires.push_tap import Pushes, PushTap
from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.gateway.config.sections.node import Spool
from sluicegate.gateway.node.environment import Environment
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import CursorNotFound, QueueNotFound
from sluicegate.gateway.views.queues.queues import QueueView
from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE
from sluicegate.storage.commit.planner import LOG_SHARE_MAX
from sluicegate.storage.interface import CheckpointJob, CommitJob
from support.referees.flow.consumer import SettleTimes
from support.referees.wire import judged

WINDOWS = (1, 3, 10, 100)  # Receive Maximum
WAIT_US_MAX = (KEEP_ALIVE_S - 5) * 1_000_000  # then clients show that they are alive
ADMIN_US_MAX = 60_000_000
THOROUGH_CHECK_EVERY = 8
CHECKPOINT_S_MAX = 20
BROKEN_US_MIN = 1_000_000  # by then a partition has failed as often as it will, and is being read back or is not


class AnyClient(Peer, Protocol):
    """A client, over all its connections."""

    name: str
    rng: Random  # seeded anew by each step

    def tick(self) -> None:
        """Show that it is alive."""

    def node_died(self) -> None:
        """The other end of the connection is no more."""


class AnyTap(Protocol):
    """One connection, as the judge sees it at the node's end."""

    def written(self, data: bytes) -> None:
        """The node writes."""

    def read(self, data: bytes) -> None:
        """The node reads."""

    def ended(self) -> None:
        """The node closes the connection, or has lost it."""


class Backup(NamedTuple):
    """A copy of a broker's disk."""

    image: Image
    book: StoreBook


class World:
    """Everything there is in one run."""

    node: Node  # in its present life

    def __init__(self, seed: int, scenario: Scenario, surroundings: Surroundings | None = None) -> None:
        rng = Random(seed)
        self.scenario = scenario
        self.surroundings = surroundings = surroundings or Surroundings()
        self.truth = Truth(
            lambda: self.loop.now_us,
            surroundings.course,
            broker=surroundings.broker,
            queues_elsewhere=scenario.elsewhere,
        )
        self.trace = hashlib.blake2b(digest_size=8)  # of what the node wrote, to clients and to its journal
        self.salted = Random(seed)  # seeded anew by each step
        self.pace = Pace()
        self.image = Image()
        self.faults = Faults(refused=self.truth.store_refuses)
        self.loop = surroundings.begin(surroundings.began_us)
        self.clients = {
            name: Client(
                name,
                self.truth,
                identifier=surroundings.identifier_of(name),
                connect=partial(self._dial, "mqtt"),
                later=lambda us, callback: self._later(us, callback),
                is_durable=name not in FLEETING,
                receive_maximum=rng.choice(WINDOWS),
            )
            for name in (*PUBLISHERS, *CONSUMERS, *SUBSCRIBERS)
        }
        self.transactors = {
            name: Transactor(
                name, self.truth, dial=partial(self._dial, "amqp"), later=lambda us, callback: self._later(us, callback)
            )
            for name in TRANSACTORS
        }
        self.returners = {
            name: Returner(
                name,
                self.truth,
                dial=partial(self._dial, "flow"),
                later=lambda us, callback: self._later(us, callback),
                window=window,
            )
            for name, window in RETURNERS.items()
        }
        self.resumers = {
            name: Resumer(
                name,
                self.truth,
                dial=partial(self._dial, "amqp"),
                later=lambda us, callback: self._later(us, callback),
                manner=manner,
                window=window,
            )
            for name, manner, window in zip(RESUMERS, MANNERS, WINDOWS[1:], strict=True)
        }
        program = Program()
        self.requesters = {
            name: Requester(
                name,
                self.truth,
                program,
                dial=partial(self._dial, "http"),
                later=lambda us, callback: self._later(us, callback),
            )
            for name in REQUESTERS
        }
        self.browsers = {
            name: Browser(
                name, self.truth, dial=partial(self._dial, "http"), later=lambda us, callback: self._later(us, callback)
            )
            for name in BROWSERS
        }
        self._rng = rng
        self._look_ns = rng.choice((0, 0, 100_000, 700_000))
        self.large_share = rng.choice((0.05, 0.05, 0.5))
        rng.choice((1, 4, 64))  # so that what is drawn behind it stays for each seed
        self._draw_log(Random(f"log {seed}"))
        spool = Spool(memory_bytes_max=1 << 20, commit_interval_ms=rng.choice((0, 2, 10)))
        self.configuration = Configuration(seed, scenario, spool, surroundings)
        self._config = self.configuration.config()
        self.pushes = Pushes(self.truth, self.configuration.points)
        self.web = Web(
            PORTS,
            later=lambda us, callback: self._later(us, callback),
            tap=lambda port: PushTap(self.pushes, port),
            judge=self._judge,
            loop=lambda: self.loop,
        )
        self._quota = QuotaWatch()
        self._violations: list[Violation] = []
        self._wire_violations: list[str] = []  # what the referees of the wire have seen
        self._store_book = StoreBook()
        self._sequence_book = SequenceBook(self._store_book.reserved, is_stored_once=self._is_stored_once)
        self._admin: Any = None  # the task of an administrator's request
        self._stored: dict[str, dict[str, object]] = {}  # by queue: attributes that the node said it had changed
        self._checks_count = 0
        self._broken: dict[str, tuple[Target, int]] = {}  # by queue: since when partitions of it fail
        self.log = surroundings.log or LogWatch()
        self.jobs: list[Job] = []
        self.wills: list[Will] = []
        self.reader = Reader(self.truth, scenario.reader, self._violations.append) if scenario.reader else None
        self._inside: list[asyncio.Task[None]] = []  # what jobs and the reader do in this life of the node
        self.start()

    def _draw_log(self, rng: Random) -> None:
        self._segment_records = rng.choice((1, 5, 50))
        self._map_bytes = LOG_SHARE_MAX * rng.choice((8 << 10, 128 << 10, 4 << 20))  # it says how long the log may be
        self._checkpoint_share = rng.choice((0.0, 0.0, 0.05, 0.3))  # of steps, beside those that are due

    def reseed(self, salt: int) -> None:
        """Begin a step: what is drawn from here on depends on its salt only."""
        self.salted.seed(salt)
        self.pace.rng.seed(salt)
        self.pace.checkpoint_rng.seed(f"checkpoints {salt}")
        self.pace.quiet_rng.seed(f"quiet {salt}")
        self.faults.rng.seed(f"faults {salt}")
        if self.faults.rng.random() < self._checkpoint_share:
            self.want_checkpoint()
        for client in self._everybody():
            client.rng.seed(salt)
        self.web.reseed(salt)

    def close(self) -> None:
        """Let go of everything."""
        self._let_go()
        self.log.stop()

    # --- the node's lives ---

    def start(self) -> None:
        """Bring up a node from the image."""
        self.truth.life += 1
        self.loop.outside = self.surroundings.outside or self.web
        self._inside = []
        store = MemoryStore(
            self.image, self.faults, self, segment_records=self._segment_records, map_bytes=self._map_bytes
        )
        self._store_book.compare(store.recover())

        times = SettleTimes(lambda name: self.scenario.rules(name).lock_ms, lambda: self.loop.now_us // 1000)
        environment = Environment(
            store_threads=lambda _, runtime: self._begin_threads(store, runtime),
            listener=judged(self._wire_violations, MemoryListener, times),
            dialed=dialed,
            turns=lambda: self.loop.call_soon,
            thread_calls=lambda: self.loop.call_soon_threadsafe,
            timers=lambda: self.loop.call_later,
            quiet=lambda: self.pace.is_quiet,
        )

        async def make() -> Node:
            clock = VirtualClock(self.loop, look_ns=self._look_ns, ahead_ms=self.surroundings.ahead_ms)
            rng = Random(self._rng.getrandbits(32))
            self.node = Node(self._config, store=store, clock=clock, rng=rng, environment=environment)
            await self.node.start()
            return self.node

        self.ask(make())
        self.view = NodeOperations(self.node)
        self._learn_queues(self.ask(self.view.list_queues()))
        self._is_configured()
        for job in self.jobs:
            self._run_inside(partial(job.go_on, self.node))
        if self.reader is not None:
            self._run_inside(partial(self.reader.read_on, self.node))
        self.check()

    def _begin_threads(self, store: MemoryStore, runtime: Runtime) -> StepwiseStore:
        self._threads = StepwiseStore(store, runtime, self.pace)
        return self._threads

    def power_fails(self) -> None:
        """Lose everything but the image, and come back after a while."""
        self.dies()
        self.loop = self.surroundings.begin(self.loop.now_us + self.salted.randrange(3_000_000))
        self.start()

    def dies(self) -> None:
        """Lose everything but the image."""
        self.truth.course.crashes += 1
        self.truth.begins_after_stop = False
        self._threads.power_fails(self.faults.rng)
        self._let_go()
        for will in self.wills:
            will.crashed()
        for client in self._everybody():
            client.node_died()
        self._no_more_pushes()
        self.truth.ends(TEMPORARY)

    def take_backup(self) -> Backup:
        """Return a copy of the disk, and of what is known of it."""
        return Backup(deepcopy(self.image), deepcopy(self._store_book))

    def restore(self, backup: Backup) -> None:
        """Have a copy as the disk of a broker that is dead: what happened since is undone."""
        incarnation = self.image.incarnation + 1
        self.image, self._store_book = deepcopy(backup.image), deepcopy(backup.book)
        self.image.incarnation = incarnation
        self._sequence_book = SequenceBook(self._store_book.reserved, is_stored_once=self._is_stored_once)
        self._stored.clear()
        self.truth.restored()
        for client in self.clients.values():
            client.forget()
        for returner in self.returners.values():
            returner.crash()

    def restart(self) -> None:
        """Stop in good order, and start. A store that cannot be written is none, so faults end before."""
        self.faults.end()
        self.advance(5_000_000)
        self.finish_admin()
        self.truth.ends(TEMPORARY)
        for task in self._inside:
            task.cancel()
        self._store_book.is_stopping = True
        self.ask(self.node.stop())
        self._store_book.is_stopping = False
        for client in self._everybody():
            client.node_died()
        self._no_more_pushes()
        self.loop.close()
        self.loop = self.surroundings.begin(self.loop.now_us + 1_000)
        self.truth.begins_after_stop = True
        self.start()

    def _learn_queues(self, views: Sequence[QueueView]) -> None:
        """Bring the truth up to what the node came back with, where a request of an administrator was cut short."""
        there = {view.config.name: view for view in views}
        for name in self.scenario.names:
            view = there.get(name)
            if view is None:
                if name in self.truth.targets and name != TEMPORARY:  # which may have just ended
                    raise Violation(f"queue {name} is lost")
                continue
            target = self.truth.targets.get(name) or self.begins(name)
            for attribute, value in self._stored.get(name, {}).items():
                found = getattr(view.config, attribute)
                if found != value:
                    raise Violation(f"{attribute} of {name} was set to {value}, and after a restart is {found}")
            self.truth.outage(name, not view.config.ingress_enabled)
            self.truth.limits(name, view.config.max_redelivery_count)
            if target.kind == PARTITIONED:
                self.truth.unordered(name, begins=view.config.partition_count == 0)
            for each in [*target.purges, *target.moves]:
                each[1] = each[1] or self.truth.next_tick()

    def _no_more_pushes(self) -> None:
        self.web.node_died()
        self.pushes.node_died()

    # --- the configuration ---

    def reload(self) -> None:
        """Have the node read the configuration again. It holds from the next start on, whatever becomes of this."""
        config = self._config = self.configuration.config()
        self.truth.acl.may_change()
        if self.configuration.quota_bytes != UNBOUNDED:
            self.truth.over_quota_tick = NOT_YET
        self.pushes.changes_to(self.configuration.points)
        self._quota.may_change()
        faults = self.truth.course.store_faults

        async def reload() -> None:
            before = {view.config.name: view for view in await self.view.list_queues()}
            await self.node.reload(config)
            after = await self.view.list_queues()
            known = set(self.truth.targets)
            self._check_reloaded(before, {view.config.name: view for view in after}, faults=faults)
            self._learn_queues(after)
            for name in set(self.truth.targets) - known:  # some of what it holds has come, unseen, and may come again
                self.truth.targets[name].unordered_until = self.truth.targets[name].since_tick
            self._is_configured()

        self.administer(reload(), lambda: None)

    def _check_reloaded(self, before: dict[str, QueueView], after: dict[str, QueueView], *, faults: int) -> None:
        """Raise Violation unless queues that were there are as they were, and those that are declared are there."""
        for name in self.scenario.names:
            if name in before and name in after and after[name].config != before[name].config:
                raise Violation(f"a reload has changed {before[name].config} to {after[name].config}")
            if name in before and name not in after and name != TEMPORARY:
                raise Violation(f"a reload has deleted {name}")
            is_missing = name in self.configuration.declared and name not in after
            if is_missing and faults == self.truth.course.store_faults and not self.node.services.spool_gate.blocked:
                raise Violation(f"{name} is declared, and a reload has not created it")

    def _is_configured(self) -> None:
        """The configuration is in force."""
        truth, configuration = self.truth, self.configuration
        truth.acl.is_in_force(truth.next_tick(), forbids=configuration.forbids)
        self.pushes.configured(configuration.points)
        self._quota.is_in_force(configuration.quota_bytes)
        if configuration.quota_bytes == UNBOUNDED and truth.over_quota_tick:
            truth.over_quota_tick = truth.next_tick()

    def begins(self, name: str) -> Target:
        """Report to the judge that a queue exists."""
        plan = self.scenario.queues[name]
        self._stored.pop(name, None)
        return self.truth.begins(name, plan.kind, self.scenario.prefixes(name), self.scenario.rules(name))

    def _let_go(self) -> None:
        forget_connections(self.node)
        for root in self.node.services.runtime.roots:
            if not root.is_stopped():
                pykka.ActorRegistry.unregister(root.actor.actor_ref)
        self._admin = None
        self.loop.close()

    # --- the store ---

    def committed(self, job: CommitJob) -> None:
        """A record is in the log."""
        if job.record is not None:
            self.trace.update(job.record)
        self._judge(self._store_book.committed, job)
        self._judge(self._sequence_book.committed, job)

    def checkpointed(self, store: MemoryStore, job: CheckpointJob) -> None:
        """A checkpoint is made."""
        self.trace.update(b"%d %d" % (job.applied, job.needed_from))
        self._judge(lambda job: self._store_book.checkpointed(store, job), job)
        self._judge(lambda _: self._store_book.check_pages(self.image.pages, self.image.changes().purged), job)

    def want_checkpoint(self) -> None:
        """Have a checkpoint made soon."""
        services = self.node.services
        services.planner.checkpoints.want()
        services.spool_actor().turn_ended()

    def checkpoint(self) -> None:
        """Have a checkpoint made now."""
        made = self._threads.checkpoints_made
        self.want_checkpoint()
        for _ in range(CHECKPOINT_S_MAX):
            self.advance(1_000_000)
            if self._threads.checkpoints_made > made:
                return
        raise Violation(f"no checkpoint was made in {CHECKPOINT_S_MAX} s")

    def _is_stored_once(self, partition_id: int, number: int) -> bool:
        """Return whether a message has one place in a partition: else it came from several queues, or was sent anew.

        Over a link each comes once, whatever is lost and sent again there.
        """
        message = self.truth.course.messages.get(number)
        if message is None:
            return False
        is_remote = message.broker != self.truth.broker
        if not (message.is_known or (is_remote and message.sent_count == 1)):
            return False
        return all(
            each.partition_id != partition_id
            for queue in queues_of(self.node)
            if queue.name in (SPARE, DEAD_MESSAGE_QUEUE)
            for each in queue.target.partitions
        )

    def _see_what_expired(self) -> None:
        """Let the truth know when the temporary queue has ended. Raises Violation when that was too early."""
        target = self.truth.targets.get(TEMPORARY)
        if target is None or self._admin is not None or any(queue.name == TEMPORARY for queue in queues_of(self.node)):
            return
        if (
            self.loop.now_us
            < target.touched_us + self.scenario.queues[TEMPORARY].attributes["expires_unbound_s"] * 1_000_000
        ):
            raise Violation(f"{TEMPORARY} ended too early")
        self.truth.ends(TEMPORARY)

    def breaks(self, queue_name: str, target: Target) -> None:
        """A partition of a queue is about to fail, perhaps too often."""
        self.truth.breaks(target, is_over=False)
        self._broken[queue_name] = target, self.loop.now_us

    def _see_what_is_mended(self) -> None:
        """Let the truth know which queues that were broken are whole."""
        if not self._broken:
            return
        being_read = {queue.name for queue in queues_of(self.node) if is_being_read_back(queue)}
        for name, (target, since_us) in list(self._broken.items()):
            if name not in being_read and self.loop.now_us - since_us >= BROKEN_US_MIN:
                self.truth.breaks(target, is_over=True)
                del self._broken[name]

    # --- clients ---

    def _everybody(self) -> Iterator[AnyClient]:
        yield from self.clients.values()
        yield from self.transactors.values()
        yield from self.returners.values()
        yield from self.resumers.values()
        yield from self.requesters.values()
        yield from self.browsers.values()

    def _dial(self, protocol: str, client: AnyClient, tap: AnyTap) -> Wire:
        """Connect a client. The judge sees both directions at the node's end."""
        name, node = client.name.encode(), self.node
        listeners = node.mqtt.listeners | node.amqp.listeners | node.flow.listeners | node.http.listeners
        listener = listeners[protocol]

        def writes(data: bytes) -> None:
            self.trace.update(name + data)
            self._judge(tap.written, data)

        def read(data: bytes) -> None:
            self._judge(tap.read, data)

        wire = Wire(self.loop, client, self.salted, written=writes, read=read, ended=tap.ended)
        if listener.admit():
            listener.open(wire, ("127.0.0.1", 40_000))
        return wire

    def _later(self, delay_us: int, callback: Callable[[], None]) -> None:
        self.loop.call_later(delay_us / 1_000_000, callback)

    def _judge(self, tell: Callable[[Any], None], what: object) -> None:
        """Report to the judge, which must not raise into the node."""
        try:
            tell(what)
        except Violation as violation:
            self._violations.append(violation)

    # --- those who have no wire form ---

    def begins_job(self, job: Job) -> None:
        """Let a job stage and commit its rows."""
        self.jobs.append(job)
        self._run_inside(partial(job.run, self.node))

    def end_reading(self) -> None:
        """Compare what the cursor returned with what it had to return, and delete it."""
        reader, self.reader = self.reader, None
        if reader is None:
            return
        reader.check()
        self._inside.pop().cancel()  # nothing was begun since
        self.ask(self._forget_cursor(reader.queue))

    async def _forget_cursor(self, queue: str) -> None:
        with suppress(CursorNotFound, QueueNotFound):
            await self.view.delete_cursor(queue, CURSOR)

    def _run_inside(self, doing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def judged() -> None:
            try:
                await doing()
            except Violation as violation:
                self._violations.append(violation)
            except Exception as error:
                self._violations.append(Violation(f"who asks inside the node got {error!r}"))

        self._inside.append(self.loop.create_task(judged()))

    # --- administrators ---

    def ask(self, request: Coroutine[Any, Any, Any]) -> Any:
        """Have a request carried out before anything else happens."""
        return self.loop.complete(request, within_us=ADMIN_US_MAX)

    def administer(self, request: Coroutine[Any, Any, Any], done: Callable[[], None]) -> None:
        """Begin a request, after the one before; `done` is called once it is, not if the disk refused."""
        self.finish_admin()

        async def carry_out() -> None:
            with suppress(StoreRefused):  # whether it holds after a restart is then open
                await request
                done()

        self._admin = self.loop.create_task(carry_out())

    async def change(self, name: str, changes: dict[str, object]) -> None:
        """Change a queue. Until the node confirms it, the old attributes may be in force, or the new ones."""
        known = self._stored.setdefault(name, {})
        for attribute in changes:
            known.pop(attribute, None)
        await self.view.update_queue(name, changes)
        known.update(changes)

    def finish_admin(self) -> None:
        """Wait until no request is under way."""
        if self._admin is not None:
            task, self._admin = self._admin, None
            self.ask(_result_of(task))

    # --- time and checks ---

    def advance(self, duration_us: int) -> None:
        """Advance the time."""
        while duration_us > WAIT_US_MAX:
            self.loop.advance(WAIT_US_MAX)
            duration_us -= WAIT_US_MAX
            self.show_that_clients_live()
        self.loop.advance(duration_us)
        self.check()

    def show_that_clients_live(self) -> None:
        """Have all clients say something."""
        for client in self._everybody():
            client.tick()

    @property
    def has_violation(self) -> bool:
        """Whether a promise is broken already; `check` says which."""
        return bool(self._violations)

    def check(self) -> None:
        """Hold everything that is known now against the promises."""
        if self._violations:
            raise self._violations[0]
        if self._wire_violations:
            raise Violation(f"the referee says: {self._wire_violations[0]}")
        for error in self.loop.errors:
            exception = error.get("exception")
            if isinstance(exception, Violation):
                raise exception
            raise Violation(f"the loop was told of {error}") from exception
        if self.log.errors:
            raise Violation(f"the log says: {self.log.errors[0]}")
        if self.node.failed.done():
            raise Violation(f"the node failed: {self.node.failed.result()!r}")
        self._see_what_expired()
        self._see_what_is_mended()
        if not self._broken:
            targets = self.truth.targets.values()
            self._quota.check(self.node, (self.truth.life, sum(each.forgot_tick for each in targets)))
        self._checks_count += 1
        check_inside(self.node, thorough=self._checks_count % THOROUGH_CHECK_EVERY == 0)


async def _result_of(task: Any) -> None:
    await task
