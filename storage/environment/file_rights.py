"""The rights of what lies in a data folder or a backup: the user of the broker, and readers of its group.

Messages, argon2 hashes and SCRAM keys lie there. What is made here is never wider than 0750 and 0640: the umask can
only take from that. What is there already keeps its rights, which `open_to_others` reports.
"""

import os
import shlex
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER_MODE: Final = 0o750
FILE_MODE: Final = 0o640

_OTHERS: Final = stat.S_IRWXO
_WIDER: Final = _OTHERS | stat.S_IWGRP  # what a folder or a file of ours has beyond the modes above


@dataclass(frozen=True, slots=True)
class OpenPath:
    """A folder or a file with more rights than it would be made with."""

    path: Path
    mode: int

    def __str__(self) -> str:
        return f"{self.path} ({self.mode:04o})"


def make_folder(folder: Path) -> None:
    """Make a folder, and the folders above it with the rights that the umask leaves. Raises OSError."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def make_file(path: Path) -> int:
    """Make a file that is not there, and return its descriptor for writing.

    Raises OSError; FileExistsError also for a symbolic link, wherever that leads.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)


def open_to_others(folder: Path, names: Iterable[str]) -> list[OpenPath]:
    """Return what has wider rights: the folder, and those of the names that are in it. Raises OSError.

    The root of a volume may belong to somebody else, who lets the broker in by its group. There, only the right to
    write counts: it can replace files, and what may read them is said by their own rights.
    """
    files = [(path, path.stat()) for path in map(folder.joinpath, names) if path.exists()]
    status = folder.stat()
    user = files[0][1].st_uid if files else os.geteuid()
    bits = _WIDER if status.st_uid == user else stat.S_IWOTH
    found = [OpenPath(folder, stat.S_IMODE(status.st_mode))] if status.st_mode & bits else []
    found += [OpenPath(path, stat.S_IMODE(each.st_mode)) for path, each in files if each.st_mode & _WIDER]
    return found


def describe_rights(paths: Sequence[OpenPath]) -> str:
    """Say what has wider rights, and with which command they are taken away. That gives nobody any."""
    shown = ", ".join(map(str, paths))
    command = f"chmod g-w,o-rwx {shlex.join([str(each.path) for each in paths])}"
    return f"other users of this machine may read or change {shown}; to end that: {command}"
