"""Files with a secret in their first line: a password, its hash, a token, or the value of a header."""

from pathlib import Path
from typing import BinaryIO, Final

SECRET_BYTES_MAX: Final = 64 * 1024


def first_line(file: Path) -> str:
    """Return the first line without its end; empty if there is none.

    Raises OSError, and ValueError with a readable text if it is not UTF-8 or longer than SECRET_BYTES_MAX.
    """
    with file.open("rb") as opened:
        return read_line(opened, str(file))


def read_line(opened: BinaryIO, name: str) -> str:
    """Return the next line of an open file; `name` is for errors. Else as `first_line`."""
    line = opened.readline(SECRET_BYTES_MAX + 1)
    if len(line) > SECRET_BYTES_MAX:
        raise ValueError(f"the first line of {name} has more than {SECRET_BYTES_MAX} bytes")
    try:
        return line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"the first line of {name} is not UTF-8 text") from None
