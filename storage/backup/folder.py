"""A backup on disk: a folder with a sealed copy of the data file and a note that describes it.

    backup.json         the spool's incarnation, the time of the backup, the length and checksum of the data file
    data.mdb            the copy; its appearance under this name completes the backup, so it comes last
    data.mdb.partial    the unfinished copy, locked by its writer

    brokers/2/          the same of the second broker of a machine that has several, and so on

A folder whose partial file can be locked is left over from a process that died, and may be removed. A complete backup
is never changed.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson
import xxhash

from sluicegate.storage.environment.file_kinds import is_file, is_folder
from sluicegate.storage.environment.file_rights import FILE_MODE, make_folder
from sluicegate.storage.environment.folder_lock import DATA_FILE
from sluicegate.storage.errors import BackupRefused, UnsupportedFormat

NOTE_FILE: Final = "backup.json"
PARTIAL_FILE: Final = DATA_FILE + ".partial"
BROKERS_FOLDER: Final = "brokers"
NO_PLACE: Final = Path()  # of the first broker, or the only one
BACKUP_FORMAT: Final = 1

NAME_FORM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NAME_ALLOWED: Final = "1 to 100 letters, digits, dots, hyphens and underscores, the first a letter or digit"

_NOTE_BYTES_MAX: Final = 65_536
_PIECE_BYTES: Final = 1 << 20
_OURS: Final = os.O_CLOEXEC | os.O_NOFOLLOW  # a link under one of these names is refused, whatever its target


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupNote:
    """The description of a backup."""

    incarnation: int  # u64, of the spool it was copied from
    taken_ms: int  # wall clock: the backup has every earlier commit
    node: str
    release: str
    data_bytes: int
    data_xxh3: str  # xxh3-128 of the data file, 32 hex digits


def write_note(folder: Path, note: BackupNote) -> None:
    """Write the note, and return when it is on the disk. Raises OSError."""
    document = asdict(note) | {"format": BACKUP_FORMAT, "incarnation": f"{note.incarnation:016x}"}
    descriptor = os.open(folder / NOTE_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _OURS, FILE_MODE)
    with open(descriptor, "wb") as file:
        file.write(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_note(folder: Path) -> BackupNote:
    """Return the note of a complete backup.

    Raises BackupRefused for a folder without a complete backup, UnsupportedFormat for a backup of another release.
    """
    if not is_file(folder / DATA_FILE) or not is_file(folder / NOTE_FILE):
        missing = DATA_FILE if is_file(folder / NOTE_FILE) else NOTE_FILE
        raise BackupRefused(f"{folder} is no backup, or not a whole one: it has no {missing}")
    with open(folder / NOTE_FILE, "rb") as file:
        note = decode_note(file.read(_NOTE_BYTES_MAX), str(folder / NOTE_FILE))
    size = (folder / DATA_FILE).stat().st_size
    if size != note.data_bytes:
        raise BackupRefused(f"{folder / DATA_FILE} has {size} bytes; its note says {note.data_bytes}")
    return note


def decode_note(raw: bytes, where: str) -> BackupNote:
    """Return what a note says. Raises BackupRefused, and UnsupportedFormat for a backup of another release."""
    try:
        members = orjson.loads(raw)
        found = members.pop("format")
        if found != BACKUP_FORMAT:
            raise UnsupportedFormat(found, BACKUP_FORMAT, where)
        return BackupNote(**members | {"incarnation": int(members["incarnation"], 16)})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BackupRefused(f"{where} cannot be read: {error!r}") from None


def checked_pieces(folder: Path, note: BackupNote, piece_bytes: int = _PIECE_BYTES) -> Iterator[bytes]:
    """Yield the data file in pieces. Raises BackupRefused after the last piece if the checksum does not match."""
    digest = xxhash.xxh3_128()
    with open(folder / DATA_FILE, "rb") as file:
        while piece := file.read(piece_bytes):
            digest.update(piece)
            yield piece
    if digest.hexdigest() != note.data_xxh3:
        raise BackupRefused(f"{folder / DATA_FILE} is damaged: its checksum is not the one in its note")


@contextmanager
def locked_partial(folder: Path) -> Iterator[int]:
    """Create the folder and its empty partial file, lock the file within the block, and yield its descriptor.

    Raises BackupRefused when the folder is not empty, or another process is writing to it. An error in the block
    removes its files.
    """
    make_folder(folder.parent)
    make_folder(folder)
    if is_taken(folder):
        raise BackupRefused(f"{folder} is not empty")
    descriptor = os.open(folder / PARTIAL_FILE, os.O_RDWR | os.O_CREAT | _OURS, FILE_MODE)
    try:
        if not _lock(descriptor):
            raise BackupRefused(f"another process is writing a backup into {folder}")
        try:
            os.ftruncate(descriptor, 0)
            yield descriptor
        except BaseException:
            _remove(folder)
            raise
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path, place: Path = NO_PLACE) -> list[Path]:
    """Remove the unfinished backups of dead writers in a folder, each at a place of its own; return their paths.

    Raises OSError.
    """
    removed: list[Path] = []
    if not is_folder(folder):
        return removed
    for path in [each / place for each in sorted(folder.iterdir())]:
        if path.is_symlink() or not is_folder(path) or not _is_leftover({each.name for each in path.iterdir()}):
            continue
        descriptor = os.open(path / PARTIAL_FILE, os.O_RDWR | _OURS)
        try:
            if _lock(descriptor):
                _remove(path)
                removed.append(path)
        finally:
            os.close(descriptor)
    return removed


def is_taken(folder: Path) -> bool:
    """Return whether a folder has files other than the leftovers of a dead writer. Raises OSError."""
    names = {path.name for path in folder.iterdir()} if is_folder(folder) else set()
    return bool(names) and not _is_leftover(names)


def _is_leftover(names: set[str]) -> bool:
    return PARTIAL_FILE in names and names <= {PARTIAL_FILE, NOTE_FILE, BROKERS_FOLDER}


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(folder: Path) -> None:
    for name in (DATA_FILE, NOTE_FILE, PARTIAL_FILE):
        (folder / name).unlink(missing_ok=True)
    if not any(folder.iterdir()):  # else it has those of other brokers
        folder.rmdir()
