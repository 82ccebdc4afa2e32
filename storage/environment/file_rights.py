"""The permissions of data folders and backups: for the user of the broker, and for readers in its group.

These folders contain messages, argon2 hashes and SCRAM keys. New folders and files have at most the modes 0750 and
0640; the umask can only remove bits. Existing ones keep their permissions, and `open_to_others` reports wider ones.
"""

import os
import shlex
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sluicegate.storage.environment.file_kinds import is_there

FOLDER_MODE: Final = 0o750
FILE_MODE: Final = 0o640

_OTHERS: Final = stat.S_IRWXO
_WIDER: Final = _OTHERS | stat.S_IWGRP  # bits that exceed the modes above


@dataclass(frozen=True, slots=True)
class OpenPath:
    """A folder or a file with wider permissions than a new one has."""

    path: Path
    mode: int

    def __str__(self) -> str:
        return f"{self.path} ({self.mode:04o})"


def make_folder(folder: Path) -> None:
    """Create a folder, and its missing parents with the permissions that the umask leaves. Raises OSError."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def make_file(path: Path) -> int:
    """Create a new file, and return its descriptor for writing.

    Raises OSError; FileExistsError also for a symbolic link, whatever its target.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)


def open_to_others(folder: Path, names: Iterable[str]) -> list[OpenPath]:
    """Return the paths with wider permissions: the folder, and the named entries in it. Raises OSError.

    Another user may own the root of a volume and admit the broker by its group. There, only write permission counts: it
    allows replacing files, and the files' own permissions control reading.
    """
    files = [(path, path.stat()) for path in map(folder.joinpath, names) if is_there(path)]
    status = folder.stat()
    user = files[0][1].st_uid if files else os.geteuid()
    bits = _WIDER if status.st_uid == user else stat.S_IWOTH
    found = [OpenPath(folder, stat.S_IMODE(status.st_mode))] if status.st_mode & bits else []
    found += [OpenPath(path, stat.S_IMODE(each.st_mode)) for path, each in files if each.st_mode & _WIDER]
    return found


def describe_rights(paths: Sequence[OpenPath]) -> str:
    """Describe the wider permissions and the command that removes them. The command grants none."""
    shown = ", ".join(map(str, paths))
    command = f"chmod g-w,o-rwx {shlex.join([str(each.path) for each in paths])}"
    return f"other users of this machine may read or change {shown}; to end that: {command}"
