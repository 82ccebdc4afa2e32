"""The spool actor alone on virtual time: its publishers, its partitions, and a disk that obeys or fails on command."""

import random
from collections.abc import Callable

from simulation.machine.virtual_loop import MONOTONIC_START_US, VirtualClock, virtual_loop
from sluicegate.actors.messages.data import Confirmed, PublishFailed, Settled, StorePublication
from sluicegate.actors.messages.spool import ReloadPartition, WriteTables
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.actors.spool.actor import Spool
from sluicegate.actors.spool.health import REFUSED, SpoolHealth
from sluicegate.actors.spool.store_threads import CheckpointDone, CheckpointFailed, CommitDone, CommitFailed
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.publication import UNWRITTEN, Publication
from sluicegate.messaging.queues.admission import SpoolGate
from sluicegate.storage.interface import CheckpointJob, CommitJob, Table, TableWrite
from support.cores.messages import numbered
from support.cores.spool_steps import P, Q, planner_with

INTERVAL_MS = 4
COMMIT_US = 1_000
A_ROW = TableWrite(Table.CATALOG, b"k", b"v")


class Publisher(LoopActor):
    """Hears what becomes of what was published."""

    def __init__(
        self, cell: ActorCell, confirmed: Callable[[Confirmed], None], refused: Callable[[PublishFailed], None]
    ) -> None:
        super().__init__(cell)
        self.handlers = {Confirmed: confirmed, PublishFailed: refused}


class Keeper:
    """A spool, its disk, and the publisher of everything. Times are in microseconds."""

    def __init__(self, interval_ms: int = INTERVAL_MS) -> None:
        self.loop = virtual_loop(MONOTONIC_START_US)
        clock = VirtualClock(self.loop, look_ns=0)
        self.runtime = Runtime(
            loop=self.loop, clock=clock, rng=random.Random(1), on_fatal=self.fail, is_quiet=lambda: self.is_quiet
        )
        self.planner = planner_with(P, Q)
        self.partitions: dict[int, Address] = {}
        self.gate = SpoolGate(usage_bytes_max=1 << 40)
        self.cell = self.runtime.spawn(
            lambda cell: self._made(cell, interval_ms), kind="spool", name="spool", policy=ONE_CONNECTION
        )
        self._publisher = self.another_publisher()
        self.published: dict[int, Publication] = {}  # by token; its messages have one sequence each
        self.came_us: dict[int, int] = {}
        self.confirmed_us: dict[int, int] = {}
        self.refused: dict[int, str] = {}  # token -> why
        self.began_us: list[int] = []  # of each commit by the thread
        self.commit_us = COMMIT_US
        self.began_here_us: list[int] = []  # of each commit on the loop
        self.here_us: int | None = None  # how long one takes; None: the store would have to begin a file first
        self.is_quiet = True
        self.jobs: list[CommitJob] = []
        self.failures_left = 0  # so many of the next commits are not made
        self.failure = CommitFailed("input/output error", REFUSED)
        self.checkpoints: list[tuple[int, CheckpointJob]] = []  # when each began
        self.checkpoint_us = COMMIT_US
        self.checkpoint_failures_left = 0
        self.checkpoint_failure = CheckpointFailed("input/output error", REFUSED)
        self.reloads: list[ReloadPartition] = []  # begun, and never done before a test says so
        self.is_full = False
        self.sparse_left = 0  # so many of the next checkpoints leave files to empty

    # --- the disk ---

    def commit_here(self, job: CommitJob) -> CommitDone | CommitFailed | None:
        if self.here_us is None:
            return None
        self.began_here_us.append(self.now_us())
        self.loop.now_us += self.here_us
        return self._committed(job)

    def write(self, job: CommitJob, reply_to: Address) -> None:
        self.began_us.append(self.now_us())
        self.loop.call_later(self.commit_us / 1_000_000, reply_to.post, self._committed(job))

    def _committed(self, job: CommitJob) -> CommitDone | CommitFailed:
        self.jobs.append(job)
        if self.failures_left > 0:
            self.failures_left -= 1
            return self.failure
        return CommitDone(job.number + 1)

    def checkpoint(self, job: CheckpointJob, reply_to: Address) -> None:
        self.checkpoints.append((self.now_us(), job))
        report: CheckpointDone | CheckpointFailed = CheckpointDone(overhead_bytes=0)
        if self.sparse_left > 0:
            self.sparse_left -= 1
            report = CheckpointDone(overhead_bytes=0, is_sparse=True)
        if self.checkpoint_failures_left > 0:
            self.checkpoint_failures_left -= 1
            report = self.checkpoint_failure
        self.loop.call_later(self.checkpoint_us / 1_000_000, reply_to.post, report)

    def reload(self, request: ReloadPartition, reply_to: Address) -> None:
        self.reloads.append(request)

    def report_reads(self, report_to: Address) -> None:
        """Nothing is read."""

    def has_room(self) -> bool:
        return not self.is_full

    # --- the publisher, and the partition ---

    def _made(self, cell: ActorCell, interval_ms: int) -> Spool:
        self.spool = Spool(
            cell,
            planner=self.planner,
            writer=self,
            gate=self.gate,
            health=SpoolHealth(),
            commit_interval_ms=interval_ms,
            partitions=self.partitions,
            tracing=None,
        )
        return self.spool

    def _confirmed(self, message: Confirmed) -> None:
        assert message.token not in self.confirmed_us, "a publisher hears once"
        self.confirmed_us[message.token] = self.now_us()

    def _refused(self, message: PublishFailed) -> None:
        assert message.token not in self.refused, "a publisher hears once"
        self.refused[message.token] = message.reason

    def another_publisher(self) -> Address:
        return self.runtime.spawn(
            lambda cell: Publisher(cell, self._confirmed, self._refused),
            kind="publisher",
            name="publisher",
            policy=ONE_CONNECTION,
        ).inbox

    def publish(self, *, consumers: bool, publisher: Address | None = None, patience_ms: int = 0) -> int:
        """Publish a message that is at once with a consumer, or waits for one; return its token."""
        token = len(self.published) + 1
        address = publisher or self._publisher
        publication = Publication(numbered(1), publisher=address, token=token, partitions_count=1)
        publication.sequenced(P, token, None)
        if consumers:
            publication.undelivered_count = 0
        publication.patience_ms = patience_ms
        self.published[token] = publication
        self.came_us[token] = self.now_us()
        self.cell.inbox.post(StorePublication(publication))
        return token

    def settle(self, token: int) -> None:
        publication = self.published[token]
        publication.open_count = 0
        is_written = publication.record_number != UNWRITTEN
        self.cell.inbox.post(Settled(P, [(token, token + 1)], [publication], [], is_written))

    def write_a_row(self, reply_to: Address | None = None, token: int = 0, *, row: TableWrite = A_ROW) -> None:
        self.cell.inbox.post(WriteTables([row], reply_to, token))

    # --- time ---

    def now_us(self) -> int:
        return self.loop.now_us - MONOTONIC_START_US

    def passes(self, *, us: int = 0) -> None:
        self.loop.advance(us)

    def fail(self, error: BaseException) -> None:
        raise error
