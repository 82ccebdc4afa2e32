"""The store's three threads: one commits, one makes checkpoints, one reads.

All of them release the interpreter lock while they wait for the disk. They are pykka actors with a thread each, for
their work blocks. They answer by posting messages to the loop. The loop makes a small commit by itself where that is
quick, while the first thread has nothing to do.
"""

import logging
import queue
from dataclasses import dataclass
from typing import Any, Protocol, final

import pykka
from pykka._envelope import Envelope

from sluicegate.actors.messages.spool import PageRead, PagesUnread, ReadPage, ReloadPartition
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.spool.health import DAMAGED, FULL, MISTAKE, REFUSED
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.partitions.recovery import StoredPartition
from sluicegate.storage.catalog.recovered import read_partition
from sluicegate.storage.commit.disk_pace import RECORD_BYTES_MAX
from sluicegate.storage.errors import CommitInDoubt, DamagedRecord, PageNotFound, StorageError, StoreDamaged, StoreFull
from sluicegate.storage.interface import CheckpointJob, CommitJob, Store

log = logging.getLogger("sluicegate.spool")

DISK_FREE_BYTES_MIN = 64 << 20  # a disk with less is full: the file system needs some for itself


@dataclass(slots=True)
class CommitDone:
    """Writer -> spool: the commit is on the disk."""

    next_number: int  # of the next commit


@dataclass(slots=True)
class CommitFailed:
    """Writer -> spool: nothing of the commit was done, unless it is in doubt."""

    reason: str
    kind: str  # one of spool_health.COMMIT_FAILURES
    mistake: Exception | None = None  # with its traceback, for the log
    is_in_doubt: bool = False  # the disk may have it


@dataclass(slots=True)
class CheckpointDone:
    """Checkpoint thread -> spool: the state is on the disk, and the log is trimmed."""

    overhead_bytes: int  # what a checkpoint writes beside its content
    is_sparse: bool = False  # another one makes room


@dataclass(slots=True)
class CheckpointFailed:
    """Checkpoint thread -> spool: nothing of the checkpoint was done."""

    reason: str
    kind: str  # one of COMMIT_FAILURES
    mistake: Exception | None = None  # with its traceback, for the log


@dataclass(slots=True)
class PartitionFound:
    """Writer -> spool: what the store has of a partition; None when it could not be read."""

    request: ReloadPartition
    stored: StoredPartition | None


@dataclass(slots=True)
class _Write:
    job: CommitJob
    reply_to: Address


@dataclass(slots=True)
class _Checkpoint:
    job: CheckpointJob
    reply_to: Address


@dataclass(slots=True)
class _Read:
    request: ReadPage
    report_to: Address | None


@dataclass(slots=True)
class _Reload:
    request: ReloadPartition
    reply_to: Address


class StoreWriter(Protocol):
    """Carries out commits, one at a time, and reports to the spool actor."""

    def commit_here(self, job: CommitJob) -> CommitDone | CommitFailed | None:
        """Carry out a commit of at most RECORD_BYTES_MAX on the caller's thread, if one write and one sync do it.

        Else return None, with nothing done. The caller has no other commit and no reload in progress.
        """

    def write(self, job: CommitJob, reply_to: Address) -> None:
        """Carry out a commit; answer with CommitDone or CommitFailed."""

    def checkpoint(self, job: CheckpointJob, reply_to: Address) -> None:
        """Make a checkpoint, one at a time; answer with CheckpointDone or CheckpointFailed."""

    def reload(self, request: ReloadPartition, reply_to: Address) -> None:
        """Read everything of one partition; answer with PartitionFound."""

    def has_room(self) -> bool:
        """Return whether a store that was full takes messages again."""

    def report_reads(self, report_to: Address) -> None:
        """Report PagesUnread to this address from now on."""


class StoreReader(Protocol):
    """Reads pages."""

    def read(self, request: ReadPage) -> None:
        """Read a page; answer the partition with PageRead."""


class StoreThreads(StoreWriter, StoreReader, Protocol):
    """The threads, as a node has them until it stops."""

    def stop(self) -> None:
        """Stop, after the work that has been queued."""


def run_commit(store: Store, job: CommitJob) -> CommitDone | CommitFailed:
    """Commit, and return a report in any case: without one publishers would wait for ever."""
    try:
        return CommitDone(store.commit(job))
    except Exception as error:
        return CommitFailed(*_failure(error, "the commit failed"), is_in_doubt=isinstance(error, CommitInDoubt))


def run_checkpoint(store: Store, job: CheckpointJob) -> CheckpointDone | CheckpointFailed:
    """Make a checkpoint, and return a report in any case: the next one waits for it."""
    try:
        store.checkpoint(job)
        usage = store.usage()
        return CheckpointDone(usage.checkpoint_bytes, usage.is_sparse)
    except Exception as error:
        return CheckpointFailed(*_failure(error, "the checkpoint failed"))


def _failure(error: Exception, what: str) -> tuple[str, str, Exception | None]:
    """Return the reason of a failure, its kind, and the error itself when it is a mistake of the program."""
    if isinstance(error, StoreFull):
        return str(error), FULL, None
    if isinstance(error, StoreDamaged):
        return str(error), DAMAGED, None
    if isinstance(error, StorageError):
        return str(error), REFUSED, None
    return f"{what}: {error!r}", MISTAKE, error


def read_back(store: Store, request: ReloadPartition) -> PartitionFound:
    """Read everything of one partition, and return a report in any case: the partition waits.

    It costs a pass over the journal, during which nothing is committed; only a partition that fails again and again
    causes one. A checkpoint may be made meanwhile: without the log, messages that it moves into pages would be found
    neither there nor here.
    """
    try:
        with store.log_held():
            return PartitionFound(request, read_partition(store.recover(), request.partition_id))
    except StorageError as error:
        log.error("partition %d cannot be read back: %s", request.partition_id, error)
    except Exception:
        log.exception("partition %d cannot be read back", request.partition_id)
    return PartitionFound(request, None)


class StoreThread(pykka.ThreadingActor):
    """A thread with an inbox that wakes it by one lock: pykka's own takes three, and ten microseconds more."""

    use_daemon_thread = True

    @staticmethod
    def _create_actor_inbox() -> "queue.SimpleQueue[Envelope[Any]]":
        return queue.SimpleQueue()


class WriterThread(StoreThread):
    """Carries out commits."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        super().__init__()
        self._store = store
        self._runtime = runtime

    def on_receive(self, message: _Write | _Reload) -> None:
        """Commit or read, and report."""
        report: CommitDone | CommitFailed | PartitionFound
        if isinstance(message, _Reload):
            report = read_back(self._store, message.request)
        else:
            report = run_commit(self._store, message.job)
        self._runtime.post_from_thread(message.reply_to, report)


class CheckpointThread(StoreThread):
    """Makes checkpoints."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        super().__init__()
        self._store = store
        self._runtime = runtime

    def on_receive(self, message: _Checkpoint) -> None:
        """Make a checkpoint, and report."""
        self._runtime.post_from_thread(message.reply_to, run_checkpoint(self._store, message.job))


class ReaderThread(StoreThread):
    """Reads pages."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        super().__init__()
        self._reads = PageReads(store)
        self._runtime = runtime

    def on_receive(self, message: _Read) -> None:
        """Read a page, and answer."""
        page, unread = self._reads.read(message.request)
        self._runtime.post_from_thread(message.request.partition, page)
        if unread is not None and message.report_to is not None:
            self._runtime.post_from_thread(message.report_to, unread)


class ThreadedStore:
    """The store behind its threads."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._writer: pykka.ActorRef[WriterThread] = WriterThread.start(store, runtime)
        self._checkpoints: pykka.ActorRef[CheckpointThread] = CheckpointThread.start(store, runtime)
        self._reader: pykka.ActorRef[ReaderThread] = ReaderThread.start(store, runtime)
        self._report_to: Address | None = None

    def commit_here(self, job: CommitJob) -> CommitDone | CommitFailed | None:
        """Carry out a small commit on the caller's thread, if one write and one sync do it."""
        return run_commit(self._store, job) if self._store.is_at_hand(RECORD_BYTES_MAX) else None

    def write(self, job: CommitJob, reply_to: Address) -> None:
        """Carry out a commit; answer with CommitDone or CommitFailed."""
        self._writer.tell(_Write(job, reply_to))

    def checkpoint(self, job: CheckpointJob, reply_to: Address) -> None:
        """Make a checkpoint, one at a time; answer with CheckpointDone or CheckpointFailed."""
        self._checkpoints.tell(_Checkpoint(job, reply_to))

    def reload(self, request: ReloadPartition, reply_to: Address) -> None:
        """Read everything of one partition; answer with PartitionFound."""
        self._writer.tell(_Reload(request, reply_to))

    def read(self, request: ReadPage) -> None:
        """Read a page; answer the partition with PageRead."""
        self._reader.tell(_Read(request, self._report_to))

    def report_reads(self, report_to: Address) -> None:
        """Report PagesUnread to this address from now on."""
        self._report_to = report_to

    def has_room(self) -> bool:
        """Return whether a store that was full takes messages again."""
        return store_has_room(self._store)

    def stop(self) -> None:
        """Stop the threads, after the work that has been queued."""
        self._writer.stop()
        self._checkpoints.stop()
        self._reader.stop()


@final
class PageReads:
    """Reads pages, and notices when those of a partition begin, or cease, to fail.

    A page that cannot be read is requested again and again; the spool is told once.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._failing: dict[int, str] = {}  # partition id -> reason

    def read(self, request: ReadPage) -> tuple[PageRead, PagesUnread | None]:
        """Return a page, or why it cannot be read, and a change to report to the spool.

        It never raises: the requester waits, and the thread has to go on.
        """
        first, partition_id = request.first_sequence, request.partition_id
        try:
            runs, lost = self._store.read_page(partition_id, first)
        except (PageNotFound, DamagedRecord) as error:
            return PageRead(first, [], str(error)), self._news(PagesUnread(partition_id, ""))
        except StorageError as error:
            unread = PagesUnread(partition_id, str(error), is_damage=isinstance(error, StoreDamaged))
        except Exception as error:
            unread = PagesUnread(partition_id, f"reading failed: {error!r}", mistake=error)
        else:
            page = PageRead(first, [(run.first_sequence, run.batch) for run in runs], "", lost=lost)
            return page, self._news(PagesUnread(partition_id, ""))
        return PageRead(first, [], "", failed=True), self._news(unread)

    def _news(self, unread: PagesUnread) -> PagesUnread | None:
        if unread.reason == self._failing.get(unread.partition_id, ""):
            return None
        if unread.reason:
            self._failing[unread.partition_id] = unread.reason
        else:
            del self._failing[unread.partition_id]
        return unread


def store_has_room(store: Store) -> bool:
    """Return whether none of disk, map and log is full."""
    try:
        usage = store.usage()
    except (StoreFull, OSError):
        return False
    if usage.is_log_full:
        return False
    free_in_map = usage.map_bytes_max - usage.used_bytes
    wanted_on_disk = max(DISK_FREE_BYTES_MIN, 2 * usage.reserve_bytes)
    return free_in_map > 2 * usage.reserve_bytes and usage.disk_room_bytes() > wanted_on_disk
