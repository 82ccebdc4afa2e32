"""The store's three threads as steps of the virtual loop: each commit, checkpoint and read takes time, in two parts.

A commit is first made and later reported, so a power failure can come before, between and after. What is being written
when the power fails may be on the disk or not: a record also in part, a checkpoint only as a whole.

The loop makes some commits itself. Time goes on meanwhile, and nothing else happens. A power failure within such a
commit leaves what one leaves that comes while a thread writes the same record: nobody has heard of it.
"""

from random import Random

from simulation.machine.memory_store import MemoryStore
from simulation.machine.virtual_loop import VirtualLoop
from sluicegate.actors.messages.spool import ReadPage, ReloadPartition
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.spool.store_threads import (
    CheckpointDone,
    CommitDone,
    CommitFailed,
    PageReads,
    read_back,
    run_checkpoint,
    run_commit,
    store_has_room,
)
from sluicegate.messaging.message.address import Address
from sluicegate.storage.commit.disk_pace import RECORD_BYTES_MAX
from sluicegate.storage.interface import CheckpointJob, CommitJob

QUICK_US = 400
SLOW_US = 300_000
CHECKPOINT_US = 20_000
SLOW_CHECKPOINT_US = 5_000_000
QUIET_SHARE = 0.5  # of the moments at which the loop would make a commit


class Pace:
    """How long the disk takes. `slow_left` commits and reads take long, and `slow_checkpoints_left` checkpoints."""

    def __init__(self) -> None:
        self.rng = Random(0)  # seeded anew by each step
        self.checkpoint_rng = Random(0)  # the same
        self.quiet_rng = Random(0)  # the same
        self.slow_left = 0
        self.slow_checkpoints_left = 0

    def delay_s(self) -> float:
        """Return the time of one part of an operation."""
        if self.slow_left > 0:
            self.slow_left -= 1
            return self.rng.randrange(SLOW_US) / 1_000_000
        return self.rng.randrange(QUICK_US) / 1_000_000

    def is_quiet(self) -> bool:
        """Return whether nobody waits for the loop at this moment."""
        return self.quiet_rng.random() < QUIET_SHARE

    def checkpoint_delay_s(self) -> float:
        """Return the time of one part of a checkpoint."""
        if self.slow_checkpoints_left > 0:
            self.slow_checkpoints_left -= 1
            return self.checkpoint_rng.randrange(SLOW_CHECKPOINT_US) / 1_000_000
        return self.checkpoint_rng.randrange(CHECKPOINT_US) / 1_000_000


class StepwiseStore:
    """A store behind threads that work in virtual time, each on one job at a time."""

    def __init__(self, store: MemoryStore, runtime: Runtime, pace: Pace) -> None:
        self._store = store
        self._runtime = runtime
        self._pace = pace
        self._reads: list[ReadPage] = []
        self._reading = False
        self._page_reads = PageReads(store)
        self._report_to: Address | None = None
        self._appending: CommitJob | None = None
        self._checkpoint_job: CheckpointJob | None = None
        self.checkpoints_made = 0
        self.commits_made_here = 0

    def report_reads(self, report_to: Address) -> None:
        """Report to this callback when pages begin, or cease, to fail."""
        self._report_to = report_to

    def commit_here(self, job: CommitJob) -> CommitDone | CommitFailed | None:
        """Commit while the loop stands still."""
        if not self._store.is_at_hand(RECORD_BYTES_MAX):
            return None
        loop = self._runtime.loop
        assert isinstance(loop, VirtualLoop)
        loop.now_us += round(self._pace.delay_s() * 1_000_000)
        self.commits_made_here += 1
        return run_commit(self._store, job)

    def write(self, job: CommitJob, reply_to: Address) -> None:
        """Commit after a while, and report after another."""
        self._appending = job
        self._runtime.loop.call_later(self._pace.delay_s(), self._commit, job, reply_to)

    def checkpoint(self, job: CheckpointJob, reply_to: Address) -> None:
        """Make a checkpoint after a while, and report after another."""
        self._checkpoint_job = job
        self._runtime.loop.call_later(self._pace.checkpoint_delay_s(), self._make_checkpoint, job, reply_to)

    def reload(self, request: ReloadPartition, reply_to: Address) -> None:
        """Read a partition back after a while, and report after another."""
        self._runtime.loop.call_later(self._pace.delay_s(), self._reload, request, reply_to)

    def read(self, request: ReadPage) -> None:
        """Read in the order asked."""
        self._reads.append(request)
        self._read_next()

    def has_room(self) -> bool:
        """Return whether a store that was full takes messages again."""
        return store_has_room(self._store)

    def stop(self) -> None:
        """Nothing is left to do: the node stops when its spool is idle."""

    def power_fails(self, rng: Random) -> None:
        """Have what is being written on the disk or not."""
        if self._appending is not None:
            outcome = rng.randrange(3)
            if outcome == 0:
                run_commit(self._store, self._appending)
            elif outcome == 1:
                self._store.tear(self._appending)
        if self._checkpoint_job is not None and rng.randrange(2):
            run_checkpoint(self._store, self._checkpoint_job)

    def _commit(self, job: CommitJob, reply_to: Address) -> None:
        self._appending = None
        report = run_commit(self._store, job)
        self._runtime.loop.call_later(self._pace.delay_s(), reply_to.post, report)

    def _make_checkpoint(self, job: CheckpointJob, reply_to: Address) -> None:
        self._checkpoint_job = None
        report = run_checkpoint(self._store, job)
        self.checkpoints_made += isinstance(report, CheckpointDone)
        self._runtime.loop.call_later(self._pace.checkpoint_delay_s(), reply_to.post, report)

    def _reload(self, request: ReloadPartition, reply_to: Address) -> None:
        found = read_back(self._store, request)
        self._runtime.loop.call_later(self._pace.delay_s(), reply_to.post, found)

    def _read_next(self) -> None:
        if self._reads and not self._reading:
            self._reading = True
            self._runtime.loop.call_later(self._pace.delay_s(), self._read, self._reads.pop(0))

    def _read(self, request: ReadPage) -> None:
        answer, unread = self._page_reads.read(request)
        self._reading = False
        self._runtime.loop.call_later(self._pace.delay_s(), request.partition.post, answer)
        if unread is not None and self._report_to is not None:
            self._report_to.post(unread)
        self._read_next()
