"""Files that hold a password, or a token, in their first line. Whoever reads one says himself what is wrong with it."""

from pathlib import Path
from typing import Final

PASSWORD_FILE_BYTES_MAX: Final = 4096


def first_line(file: Path) -> str:
    """Return the first line without its end; empty: there is none. Raises OSError, and ValueError for no UTF-8."""
    with file.open(encoding="utf-8") as opened:
        return opened.readline(PASSWORD_FILE_BYTES_MAX).rstrip("\n")
