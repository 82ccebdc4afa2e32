"""The store's two threads: one writer, one reader. LMDB lets go of the interpreter lock while it syncs and reads.

They are pykka actors with a thread each, for what they do blocks. They answer by leaving messages on the loop.
"""

import logging
from dataclasses import dataclass
from typing import Final, Protocol

import pykka

from actors.messages import PageRead, ReadPage, ReloadPartition
from actors.runtime import Runtime
from messaging.address import Address
from messaging.recovery import StoredPartition
from storage.errors import DamagedRecord, PageNotFound, StorageError, StoreFull
from storage.interface import CommitJob, Store
from storage.stored_state import read_partition

log = logging.getLogger("sluicegate.spool")

DISK_FREE_BYTES_MIN = 64 << 20  # a disk with less is full: the file system needs some for itself


@dataclass(slots=True)
class CommitDone:
    """Writer -> spool: the commit is on the disk."""


COMMIT_FAILURES: Final = ("full", "refused", "mistake")  # kinds: no room, LMDB or the system would not, ours


@dataclass(slots=True)
class CommitFailed:
    """Writer -> spool: nothing of the commit was done."""

    reason: str
    kind: str  # one of COMMIT_FAILURES


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
class _Reload:
    request: ReloadPartition
    reply_to: Address


class StoreWriter(Protocol):
    """Somebody who carries out commits, one at a time, and reports to the spool actor."""

    def write(self, job: CommitJob, reply_to: Address) -> None:
        """Carry out a commit; answer with CommitDone or CommitFailed."""

    def reload(self, request: ReloadPartition, reply_to: Address) -> None:
        """Read everything of one partition; answer with PartitionFound."""

    def has_room(self) -> bool:
        """Return whether a store that was full takes messages again."""


class StoreReader(Protocol):
    """Somebody who reads pages."""

    def read(self, request: ReadPage) -> None:
        """Read a page; answer the partition with PageRead."""


class StoreThreads(StoreWriter, StoreReader, Protocol):
    """Both of them, as a node has them until it stops."""

    def stop(self) -> None:
        """End, after what has been given to them."""


def carry_out(store: Store, job: CommitJob) -> CommitDone | CommitFailed:
    """Commit, and return the report: the spool must hear of it whatever it was, or publishers wait for ever."""
    try:
        store.commit(job)
    except StoreFull as error:
        return CommitFailed(str(error), "full")
    except StorageError as error:
        return CommitFailed(str(error), "refused")
    except Exception as error:
        log.exception("a commit failed")
        return CommitFailed(f"the commit failed: {error!r}", "mistake")
    return CommitDone()


def read_back(store: Store, request: ReloadPartition) -> PartitionFound:
    """Read everything of one partition, and return the report, which comes whatever happens: the partition waits.

    It costs a pass over the journal, in which nothing is committed; a partition has to fail again and again for that.
    """
    try:
        return PartitionFound(request, read_partition(store.recover(), request.partition_id))
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
            report = carry_out(self._store, message.job)
        self._runtime.post_from_thread(message.reply_to, report)


class ReaderThread(pykka.ThreadingActor):
    """Reads pages."""

    use_daemon_thread = True

    def __init__(self, store: Store, runtime: Runtime) -> None:
        super().__init__()
        self._store = store
        self._runtime = runtime

    def on_receive(self, message: ReadPage) -> None:
        """Read a page, and answer."""
        self._runtime.post_from_thread(message.partition, read_page(self._store, message))


class ThreadedStore:
    """The store behind its two threads."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._writer: pykka.ActorRef[WriterThread] = WriterThread.start(store, runtime)
        self._reader: pykka.ActorRef[ReaderThread] = ReaderThread.start(store, runtime)

    def write(self, job: CommitJob, reply_to: Address) -> None:
        """Carry out a commit; answer with CommitDone or CommitFailed."""
        self._writer.tell(_Write(job, reply_to))

    def reload(self, request: ReloadPartition, reply_to: Address) -> None:
        """Read everything of one partition; answer with PartitionFound."""
        self._writer.tell(_Reload(request, reply_to))

    def read(self, request: ReadPage) -> None:
        """Read a page; answer the partition with PageRead."""
        self._reader.tell(request)

    def has_room(self) -> bool:
        """Return whether a store that was full takes messages again."""
        return store_has_room(self._store)

    def stop(self) -> None:
        """End the threads, after what they have been given."""
        self._writer.stop()
        self._reader.stop()


def read_page(store: Store, request: ReadPage) -> PageRead:
    """Return a page, or why it cannot be had: whatever that is, somebody waits for it, and the thread goes on."""
    first = request.first_sequence
    try:
        return PageRead(
            first, [(run.first_sequence, run.batch) for run in store.read_page(request.partition_id, first)], ""
        )
    except PageNotFound as error:
        return PageRead(first, [], str(error))
    except DamagedRecord as error:
        return PageRead(first, [], str(error))
    except StorageError as error:
        log.warning("a page of partition %d cannot be read now: %s", request.partition_id, error)
    except Exception:
        log.exception("reading a page of partition %d failed", request.partition_id)
    return PageRead(first, [], "", failed=True)


def store_has_room(store: Store) -> bool:
    """Return whether neither disk nor map is full."""
    try:
        usage = store.usage()
    except (StoreFull, OSError):
        return False
    free_in_map = usage.map_bytes_max - usage.used_bytes
    wanted_on_disk = max(DISK_FREE_BYTES_MIN, 2 * usage.reserve_bytes)
    return free_in_map > 2 * usage.reserve_bytes and usage.disk_room_bytes() > wanted_on_disk
