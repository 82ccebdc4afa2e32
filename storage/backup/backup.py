"""Backs up a store in use, on a separate thread: room, copy, checksum, names.

The copy is flushed to the disk every few MiB, because a flush of gigabytes at once would delay the commits of the
spool. See also: the copy of the store (storage.store.copy), the layout of a backup (storage.backup.folder), restore
(storage.backup.restore).
"""

import os
from pathlib import Path
from typing import Final, final

import xxhash

from sluicegate.storage.backup.folder import (
    NO_PLACE,
    PARTIAL_FILE,
    BackupNote,
    locked_partial,
    remove_leftovers,
    write_note,
)
from sluicegate.storage.backup.linked_pages import fill_linked_pages
from sluicegate.storage.catalog.copied_log import copy_records, first_needed
from sluicegate.storage.environment.environment import disk_free_bytes, sync_folders, translated
from sluicegate.storage.environment.folder_lock import DATA_FILE
from sluicegate.storage.errors import BackupEnded, BackupRefused
from sluicegate.storage.interface import Store
from sluicegate.storage.records.linked_page import Link

# Space to leave on the disk of the backup: it may be the disk of the spool.
SPARE_BYTES: Final = 64 << 20
_PIECE_BYTES: Final = 1 << 20
_FLUSH_EVERY_BYTES: Final = 32 << 20  # 0.1 s of an ordinary disk


@final
class Backup:
    """One backup. `run` makes it; other threads may use the other members meanwhile."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        *,
        incarnation: int,
        taken_ms: int,
        node: str,
        release: str,
        place: Path = NO_PLACE,
    ) -> None:
        """`place` is where in the folder the backup goes, which those of several brokers share."""
        self.folder = folder / place
        self._folders = folder.parent  # of backups
        self._place = place
        self.written_bytes = 0
        self.expected_bytes = store.usage().used_bytes  # approximate: the spool changes until the copy begins
        self._store = store
        self._incarnation = incarnation
        self._taken_ms = taken_ms
        self._node = node
        self._release = release
        self._ended = ""  # the reason to end
        self._unflushed_bytes = 0

    def end(self, why: str) -> None:
        """End the backup before its next piece; nothing of it remains."""
        self._ended = why

    def run(self) -> BackupNote:
        """Make the backup, and return when it is on the disk. First remove the leftovers of dead writers beside it.

        Raises BackupRefused (no room, the folder is in use), BackupEnded, and other StorageErrors; then no files
        remain.
        """
        try:
            remove_leftovers(self._folders, self._place)
            with locked_partial(self.folder) as descriptor:
                self._check_room()
                note = self._copy_into(descriptor)
                write_note(self.folder, note)
                os.rename(self.folder / PARTIAL_FILE, self.folder / DATA_FILE)
                sync_folders(self.folder)
        except OSError as error:
            raise BackupRefused(f"the backup cannot be written: {error}") from error
        return note

    def _check_room(self) -> None:
        free = disk_free_bytes(self.folder)
        if free < self.expected_bytes + SPARE_BYTES:
            text = f"{free} bytes are free for {self.expected_bytes}; {SPARE_BYTES} have to be left"
            raise BackupRefused(f"there is no room for the backup in {self.folder}: {text}")

    def _copy_into(self, descriptor: int) -> BackupNote:
        """Copy the data file as of the last checkpoint, and into the copy what it needs of the log."""

        def write(piece: bytes) -> None:
            if self._ended:
                raise BackupEnded(self._ended)
            self._write(descriptor, piece)

        partial = self.folder / PARTIAL_FILE
        with self._store.log_held():
            self._store.stream_copy(write)
            with translated(self.folder, needed_bytes=0):
                records = self._store.log_records(first_needed(partial))
                copy_records(partial, records, log_bytes=self._store.usage().log_bytes)
                fill_linked_pages(partial, self._follow)
        os.fsync(descriptor)
        size, digest = self._digest(descriptor)
        return BackupNote(
            incarnation=self._incarnation,
            taken_ms=self._taken_ms,
            node=self._node,
            release=self._release,
            data_bytes=size,
            data_xxh3=digest,
        )

    def _follow(self, link: Link) -> bytes | None:
        if self._ended:
            raise BackupEnded(self._ended)
        return self._store.read_linked(link)

    def _digest(self, descriptor: int) -> tuple[int, str]:
        digest = xxhash.xxh3_128()
        size = 0
        while piece := os.pread(descriptor, _PIECE_BYTES, size):
            if self._ended:
                raise BackupEnded(self._ended)
            digest.update(piece)
            size += len(piece)
        return size, digest.hexdigest()

    def _write(self, descriptor: int, piece: bytes) -> None:
        try:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            self.written_bytes += len(piece)
            self._unflushed_bytes += len(piece)
            if self._unflushed_bytes >= _FLUSH_EVERY_BYTES:
                os.fdatasync(descriptor)
                self._unflushed_bytes = 0
        except OSError as error:  # distinct from an error of the store during the copy
            raise BackupRefused(f"the backup cannot be written: {error}") from error
