"""The store's two threads: one writer, one reader. LMDB releases the interpreter lock while it syncs and reads.

They are pykka actors with a thread each, for their work blocks. They answer by posting messages to the loop.
"""

import logging
from dataclasses import dataclass
from typing import Protocol, final

import pykka

from sluicegate.actors.messages.spool import PageRead, PagesUnread, ReadPage, ReloadPartition
from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.actors.spool.health import DAMAGED, FULL, MISTAKE, REFUSED
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.partitions.recovery import StoredPartition
from sluicegate.storage.catalog.recovered import read_partition
from sluicegate.storage.errors import DamagedRecord, PageNotFound, StorageError, StoreDamaged, StoreFull
from sluicegate.storage.interface import CommitJob, Store

log = logging.getLogger("sluicegate.spool")

DISK_FREE_BYTES_MIN = 64 << 20  # a disk with less is full: the file system needs some for itself


@dataclass(slots=True)
class CommitDone:
    """Writer -> spool: the commit is on the disk."""


@dataclass(slots=True)
class CommitFailed:
    """Writer -> spool: nothing of the commit was done."""

    reason: str
    kind: str  # one of spool_health.COMMIT_FAILURES
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
class _Read:
    request: ReadPage
    report_to: Address | None


@dataclass(slots=True)
class _Reload:
    request: ReloadPartition
    reply_to: Address


class StoreWriter(Protocol):
    """Carries out commits, one at a time, and reports to the spool actor."""

    def write(self, job: CommitJob, reply_to: Address) -> None:
        """Carry out a commit; answer with CommitDone or CommitFailed."""

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
    """Both threads, as a node has them until it stops."""

    def stop(self) -> None:
        """Stop, after the work that has been queued."""


def run_commit(store: Store, job: CommitJob) -> CommitDone | CommitFailed:
    """Commit, and return a report in any case: without one publishers would wait for ever."""
    try:
        store.commit(job)
    except StoreFull as error:
        return CommitFailed(str(error), FULL)
    except StoreDamaged as error:
        return CommitFailed(str(error), DAMAGED)
    except StorageError as error:
        return CommitFailed(str(error), REFUSED)
    except Exception as error:
        return CommitFailed(f"the commit failed: {error!r}", MISTAKE, error)
    return CommitDone()


def read_back(store: Store, request: ReloadPartition) -> PartitionFound:
    """Read everything of one partition, and return a report in any case: the partition waits.

    It costs a pass over the journal, during which nothing is committed; only a partition that fails again and again
    causes one.
    """
    try:
        return PartitionFound(request, read_partition(store.recover(), request.partition_id))
    except StorageError as error:
        log.error("partition %d cannot be read back: %s", request.partition_id, error)
    except Exception:
        log.exception("partition %d cannot be read back", request.partition_id)
    return PartitionFound(request, None)


class WriterThread(pykka.ThreadingActor):
    """Carries out commits."""

    use_daemon_thread = True

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


class ReaderThread(pykka.ThreadingActor):
    """Reads pages."""

    use_daemon_thread = True

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
    """The store behind its two threads."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._writer: pykka.ActorRef[WriterThread] = WriterThread.start(store, runtime)
        self._reader: pykka.ActorRef[ReaderThread] = ReaderThread.start(store, runtime)
        self._report_to: Address | None = None

    def write(self, job: CommitJob, reply_to: Address) -> None:
        """Carry out a commit; answer with CommitDone or CommitFailed."""
        self._writer.tell(_Write(job, reply_to))

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
    """Return whether neither disk nor map is full."""
    try:
        usage = store.usage()
    except (StoreFull, OSError):
        return False
    free_in_map = usage.map_bytes_max - usage.used_bytes
    wanted_on_disk = max(DISK_FREE_BYTES_MIN, 2 * usage.reserve_bytes)
    return free_in_map > 2 * usage.reserve_bytes and usage.disk_room_bytes() > wanted_on_disk
