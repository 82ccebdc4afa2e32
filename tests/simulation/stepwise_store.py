"""The store's two threads as steps of the virtual loop: each commit and each read takes time, in two parts.

A commit is first made and later reported, so a power failure can come before, between and after.
"""

from random import Random

from sluicegate.actors.messages.spool import ReadPage, ReloadPartition
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.spool.store_threads import PageReads, read_back, run_commit, store_has_room
from sluicegate.messaging.message.address import Address
from sluicegate.storage.interface import CommitJob, Store

QUICK_US = 400
SLOW_US = 300_000


class Pace:
    """How long the disk takes. `slow_left` operations take long."""

    def __init__(self) -> None:
        self.rng = Random(0)  # seeded anew by each step
        self.slow_left = 0

    def delay_s(self) -> float:
        """Return the time of one part of an operation."""
        if self.slow_left > 0:
            self.slow_left -= 1
            return self.rng.randrange(SLOW_US) / 1_000_000
        return self.rng.randrange(QUICK_US) / 1_000_000


class StepwiseStore:
    """A store behind a writer and a reader that work in virtual time, each on one job at a time."""

    def __init__(self, store: Store, runtime: Runtime, pace: Pace) -> None:
        self._store = store
        self._runtime = runtime
        self._pace = pace
        self._reads: list[ReadPage] = []
        self._reading = False
        self._page_reads = PageReads(store)
        self._report_to: Address | None = None

    def report_reads(self, report_to: Address) -> None:
        """Report to this callback when pages begin, or cease, to fail."""
        self._report_to = report_to

    def write(self, job: CommitJob, reply_to: Address) -> None:
        """Commit after a while, and report after another."""
        self._runtime.loop.call_later(self._pace.delay_s(), self._commit, job, reply_to)

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

    def _commit(self, job: CommitJob, reply_to: Address) -> None:
        report = run_commit(self._store, job)
        self._runtime.loop.call_later(self._pace.delay_s(), reply_to.post, report)

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
