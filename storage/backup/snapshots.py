"""Snapshots of a replica: a backup of its store, which the servers of the replicated log keep for other replicas.

A replica that begins with one has the spool as it was, with its incarnation, and goes on behind the last record of it.
So a snapshot has that record: its next start compares it with the stream's (`storage.store.standby`).

Both calls block, for minutes if the store is large: for a thread of their own. The connection to the servers belongs to
an event loop on another thread, on which `run` runs a coroutine.
"""

import shutil
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from sluicegate.storage.backup.backup import Backup
from sluicegate.storage.backup.folder import NOTE_FILE, BackupNote, checked_pieces, decode_note
from sluicegate.storage.backup.restore import restore_pieces
from sluicegate.storage.catalog.copied_log import last_copied
from sluicegate.storage.environment.environment import translated
from sluicegate.storage.environment.folder_lock import DATA_FILE
from sluicegate.storage.errors import BackupRefused
from sluicegate.storage.interface import Store
from sluicegate.storage.replication.trimming.objects import CHUNK_BYTES
from sluicegate.storage.replication.trimming.plan import Snapshot
from sluicegate.storage.replication.trimming.snapshots import SnapshotName, Snapshots

SCRATCH: Final = "snapshot"

_Result = TypeVar("_Result")


class Run(Protocol):
    """Runs a coroutine on the event loop of the connection, and returns what it returns."""

    def __call__(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run it."""


def make_snapshot(
    store: Store,
    snapshots: Snapshots,
    run: Run,
    *,
    incarnation: int,
    epoch: int,
    replica: str,
    taken_ms: int,
    broker: str,
    release: str,
    folder: Path,
) -> Snapshot:
    """Make a snapshot of a store in use, read it back, and return it: from then on it counts.

    `folder` is for files that are gone when this returns, as large as the store. Raises BackupRefused (no room, or the
    store has no record yet), BackupEnded, StreamUnavailable, StreamRefused, DamagedRecord when it is not what it was
    when it is read back, ObjectChanged, StoreFailed. Then nothing counts that did not count before.
    """
    scratch = folder / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
    try:
        backup = Backup(store, scratch, incarnation=incarnation, taken_ms=taken_ms, node=broker, release=release)
        note = backup.run()
        with translated(scratch, needed_bytes=0):
            position = last_copied(scratch / DATA_FILE)
            text = (scratch / NOTE_FILE).read_text()
        if position == 0:
            raise BackupRefused("there is no record yet of which a snapshot could be made")
        name = SnapshotName(incarnation, epoch, position, replica, taken_ms)
        run(snapshots.put(name, text, checked_pieces(scratch, note, CHUNK_BYTES)))
        run(snapshots.verify(str(name)))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Snapshot(str(name), position, is_verified=True)


def install_snapshot(
    snapshots: Snapshots, name: str, folder: Path, run: Run, *, copied: Callable[[int], None]
) -> BackupNote:
    """Install a snapshot into an empty data folder; its spool keeps its incarnation. Return the note.

    Raises DamagedRecord, StreamUnavailable, StreamRefused, and what `restore_backup` raises; then there is no spool.
    """
    note = decode_note(run(snapshots.note(name)).encode(), f"the note of snapshot {name}")
    restore_pieces(note, _chunks(snapshots, name, run), folder, incarnation=note.incarnation, copied=copied)
    return note


def _chunks(snapshots: Snapshots, name: str, run: Run) -> Iterator[bytes]:
    chunks = snapshots.chunks(name)

    async def following() -> bytes | None:
        return await anext(chunks, None)

    while (chunk := run(following())) is not None:
        yield chunk
