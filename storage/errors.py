"""The errors of storage. LMDB's own errors are translated to these and never leave the package."""

from pathlib import Path
from typing import Final, Literal, final

FullKind = Literal["disk", "map", "log"]
_NAMES: Final = {"disk": "disk", "map": "spool", "log": "log"}


class StorageError(Exception):
    """Base of all errors that storage raises."""


class UnsupportedFormat(StorageError):
    """Intact bytes, written by another release in a format this one does not know."""

    def __init__(self, found: int, supported: int, where: str) -> None:
        super().__init__(f"{where} has format {found}; this release reads format {supported}")
        self.found = found
        self.supported = supported
        self.where = where


@final
class UnknownRow(StorageError):
    """An intact row that this release cannot decode: another release wrote it."""

    def __init__(self, where: str, problem: Exception) -> None:
        super().__init__(f"{where} was written by another release: {problem or type(problem).__name__}")


class DamagedRecord(StorageError):
    """Bytes that differ from the written ones: torn, flipped, truncated or misplaced."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where} is damaged: {reason}")
        self.where = where
        self.reason = reason


@final
class PageNotFound(StorageError):
    """No page of this partition begins at this sequence; a concurrent commit deleted or purged it."""

    def __init__(self, partition_id: int, first_sequence: int) -> None:
        super().__init__(f"partition {partition_id} has no page that begins at sequence {first_sequence}")
        self.partition_id = partition_id
        self.first_sequence = first_sequence


@final
class StoreFull(StorageError):
    """The commit failed and left nothing on disk. The store stays usable: a later commit can succeed."""

    def __init__(self, kind: FullKind, detail: str) -> None:
        super().__init__(f"the {_NAMES[kind]} is full: {detail}")
        self.kind = kind
        self.detail = detail


class StoreFailed(StorageError):
    """The operating system or LMDB refused an operation for a reason other than space."""


class CommitInDoubt(StoreFailed):
    """The commit failed, and the next start may find it on the disk all the same: commit the same job again."""


@final
class CopyFailed(CommitInDoubt):
    """The log that replicas share has the commit, and this replica's own store does not."""


@final
class StoreDamaged(StoreFailed):
    """LMDB found its own pages damaged, or cannot continue: later operations of this process are not reliable."""


@final
class SpoolMissing(StoreFailed):
    """The folder had a spool, and its data file or its log is missing or empty: a start would lose messages."""

    def __init__(self, path: Path, problem: str, leftovers: list[str]) -> None:
        there = " ".join(str(path.parent / name) for name in leftovers)
        super().__init__(
            f"{path} {problem}, and the folder has had a spool: look for it, or restore a backup. If the gateway is "
            f"meant to begin with an empty one: rm -r {there}"
        )
        self.path = path


@final
class FolderInUse(StorageError):
    """Another process, or another store of this one, has the data folder open."""

    def __init__(self, folder: Path, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(f"the data folder {folder} is in use by {holder}")
        self.folder = folder
        self.pid = pid  # None: the holder had not written its number yet


@final
class BackupEnded(StorageError):
    """A backup was stopped before it was complete; nothing of it is left."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the backup was ended: {why}")
        self.why = why


@final
class BackupRefused(StorageError):
    """A backup cannot be made or restored there, or the folder is no backup; nothing was changed."""
