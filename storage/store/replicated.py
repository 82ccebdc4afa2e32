"""The store of an owner, as its node uses it: commits go to the stream first, all else is that of its own store."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, final

from sluicegate.storage.errors import CopyFailed, StoreFull
from sluicegate.storage.interface import (
    CheckpointJob,
    CommitJob,
    LogEntry,
    Recovery,
    Store,
    StoreUsage,
    Table,
)
from sluicegate.storage.records.cursor import CursorRecord
from sluicegate.storage.records.linked_page import Link
from sluicegate.storage.records.page import PageRuns
from sluicegate.storage.replication.messages import encode_clean
from sluicegate.storage.replication.replica import OwnershipLost
from sluicegate.storage.store.owner import OwnedLog
from sluicegate.storage.store.store import SpoolStore

PUBLISHERS_PERCENT: Final = 80  # of the log's size that publishers may use
ALL_PERCENT: Final = 95  # that settlements and deletions may use: the rest is for owners that take over


@final
class LogRoom:
    """How full the stream is, with a part for settlements and another for the messages of owners that take over."""

    def __init__(self, bytes_max: int, byte_count: Callable[[], int]) -> None:
        """`byte_count` returns the size of the stream, for any thread."""
        self._bytes_max: Final = bytes_max
        self._byte_count: Final = byte_count

    def is_full(self) -> bool:
        """Return whether publishers are refused."""
        return self._byte_count() >= self._bytes_max * PUBLISHERS_PERCENT // 100

    def check(self, record_bytes: int, *, uses_reserve: bool) -> None:
        """Raise StoreFull if a record of so many bytes would use more of the stream than it may."""
        percent = ALL_PERCENT if uses_reserve else PUBLISHERS_PERCENT
        used, limit = self._byte_count(), self._bytes_max * percent // 100
        if used + record_bytes >= limit:
            what = "messages" if percent == PUBLISHERS_PERCENT else "settlements"
            raise StoreFull("log", f"{used} bytes of {self._bytes_max} are in use, of which {what} may use {percent} %")


@final
class ReplicatedStore(Store):
    """A store of which other replicas have copies. See `interface.Store`."""

    def __init__(
        self,
        store: SpoolStore,
        owned: OwnedLog,
        room: LogRoom,
        *,
        lost: Callable[[str], None],
        incarnation: int = 0,
    ) -> None:
        """`lost` is told, on the thread that commits, why this replica cannot be the owner any more.

        `incarnation` is what clients see, 0: that of the log. Another one follows a loss that an operator accepted.
        """
        self._incarnation: Final = incarnation
        self._store: Final = store
        self._owned: Final = owned
        self._room: Final = room
        self._lost: Final = lost
        self._last_cursors: list[CursorRecord] = []  # of the last checkpoint

    def commit(self, job: CommitJob) -> int:
        """Append the job to the stream, and then to the store. See `OwnedLog.commit`, and for StoreFull `LogRoom`."""
        try:
            return self._owned.commit(job, lambda each, size: self._room.check(size, uses_reserve=each.uses_reserve))
        except (OwnershipLost, CopyFailed) as error:  # another replica has the broker, or a disk that works
            self._lost(str(error))
            raise

    def is_at_hand(self, record_bytes: int) -> bool:
        """Return False: a commit waits for other machines."""
        return False

    def checkpoint(self, job: CheckpointJob) -> None:
        """Apply the log. See `interface.Store.checkpoint`.

        The number before the next one may be that of a message that is no record, as an epoch is.
        """
        self._store.checkpoint_keeping_last(replace(job, applied=min(job.applied, self._store.last_number)))
        self._last_cursors = job.cursor_puts

    def read_page(self, partition_id: int, first_sequence: int) -> PageRuns:
        """Return the readable part of a page. See `interface.Store.read_page`."""
        return self._store.read_page(partition_id, first_sequence)

    def row_keys(self, prefix: bytes) -> dict[Table, list[bytes]]:
        """Return the keys of rows. See `interface.Store.row_keys`."""
        return self._store.row_keys(prefix)

    def recover(self) -> Recovery:
        """Return the stored content.

        It is as after a clean stop if the owner before this one has stopped in order. The mark in the store here says
        nothing: another replica may have delivered meanwhile.
        """
        recovery = self._store.recover()
        cursors, clean = dict(recovery.cursors), self._owned.clean_cursors()
        if clean is not None:
            cursors.update((each, cursor) for each, cursor in clean.items() if each in cursors)
        return replace(
            recovery,
            incarnation=self._incarnation or recovery.incarnation,
            next_record_number=self._owned.next_number(),
            was_clean=clean is not None,
            cursors=cursors,
        )

    def log_held(self) -> AbstractContextManager[None]:
        """Keep the log as it is within the block. See `interface.Store.log_held`."""
        return self._store.log_held()

    def log_records(self, first: int) -> Iterator[LogEntry]:
        """Yield records of the log. See `interface.Store.log_records`."""
        return self._store.log_records(first)

    def read_linked(self, link: Link) -> bytes | None:
        """Return the bytes at a link. See `interface.Store.read_linked`."""
        return self._store.read_linked(link)

    def stream_copy(self, sink: Callable[[bytes], None]) -> None:
        """Pass a copy of the data file to `sink`. See `interface.Store.stream_copy`."""
        self._store.stream_copy(sink)

    def usage(self) -> StoreUsage:
        """Return the usage of the store here, and whether the log is full."""
        return replace(self._store.usage(), is_log_full=self._room.is_full())

    def mark_clean(self) -> None:
        """Tell the next owner what was delivered, with the cursors of the last checkpoint. See `OwnedLog.close`."""
        clean = encode_clean(self._last_cursors)
        self._room.check(len(clean), uses_reserve=True)
        self._owned.close(clean)
        self._store.mark_clean()

    def close(self) -> None:
        """Release the files. May be called twice."""
        self._store.close()
