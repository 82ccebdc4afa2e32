"""What a path leads to, with an error for a path that cannot be looked at.

From Python 3.14 on, the methods of `Path` answer "no" then, as if nothing were there: a spool that cannot be read must
not be taken for one that is missing.
"""

import errno
import stat
from pathlib import Path
from typing import Final

_NOTHING: Final = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)


def is_there(path: Path) -> bool:
    """Return whether anything is at a path. Raises OSError if that cannot be told."""
    return _mode(path) != 0


def may_be_there(path: Path) -> bool:
    """Return whether anything is at a path, and yes if that cannot be told: for those that are handling an error."""
    try:
        return is_there(path)
    except OSError:
        return True


def is_file(path: Path) -> bool:
    """Return whether a regular file is at a path. Raises OSError if that cannot be told."""
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """Return whether a folder is at a path. Raises OSError if that cannot be told."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    """Return the mode of what is at a path, 0 for nothing."""
    try:
        return path.stat().st_mode
    except ValueError:  # no name of a file can be so, as with a NUL in it
        return 0
    except OSError as error:
        if error.errno not in _NOTHING:
            raise
        return 0
