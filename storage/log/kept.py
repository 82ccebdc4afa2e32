"""Kept segments: files of the log that pages link to, after the log itself needs them no more.

    log/000000000017.kept   a segment of the journal as it was

A large message is in the log once it is confirmed. So the page that it moves into does not have its bytes: it has links
to them (`storage.records.linked_page`), and the file stays as long as there are some. A file of which little is still
linked is emptied: its messages are written into pages of their own (`storage.store.links`).

`live` has the linked bytes of each file. One thread changes it; any thread reads files.
"""

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self, final

from sluicegate.storage.environment.file_kinds import is_folder

_KEPT_NAME: Final = re.compile(r"(\d{12})\.kept")


def segment_path(folder: Path, index: int) -> Path:
    """Return the name of a segment that the log needs."""
    return folder / f"{index:012d}.log"


def kept_path(folder: Path, index: int) -> Path:
    """Return the name of a kept segment."""
    return folder / f"{index:012d}.kept"


@final
class KeptSegments:
    """The linked bytes of segments, and the files of those that are kept."""

    def __init__(self, folder: Path) -> None:
        """List the files. Raises OSError."""
        self.live: dict[int, int] = {}  # segment -> linked bytes, above 0
        self._folder = folder
        self._sizes: dict[int, int] = {}  # of kept files
        self.file_bytes = 0  # of all of them
        self.last_index = 0
        for name in sorted(os.listdir(folder)) if is_folder(folder) else []:
            if found := _KEPT_NAME.fullmatch(name):
                self.last_index = int(found[1])
                self._add(self.last_index, (folder / name).stat().st_size)

    def change(self, changes: dict[int, int]) -> None:
        """Add changes of linked bytes, by segment."""
        for segment, change in changes.items():
            size = self.live.get(segment, 0) + change
            assert size >= 0, "a link is removed once"
            if size:
                self.live[segment] = size
            else:
                self.live.pop(segment, None)

    def keep(self, index: int) -> None:
        """Keep a segment that the log no longer needs. One that is missing is none. Raises OSError."""
        path = kept_path(self._folder, index)
        with contextlib.suppress(FileNotFoundError):
            os.rename(segment_path(self._folder, index), path)
            self._add(index, path.stat().st_size)

    def unlinked(self) -> list[Path]:
        """Return the kept files to which nothing links any more, and forget them: the caller uses or removes them."""
        gone = [index for index in self._sizes if index not in self.live]
        for index in gone:
            self.file_bytes -= self._sizes.pop(index)
        return [kept_path(self._folder, index) for index in gone]

    def garbage(self, *, but: set[int]) -> tuple[int, int]:
        """Return the bytes of linked kept files, without some, to which nothing links, and those that are linked."""
        sizes = self._linked(but)
        live = sum([self.live[index] for index in sizes])
        return sum(sizes.values()) - live, live

    def sparse(self, bytes_max: int, *, but: set[int]) -> set[int]:
        """Return kept segments to empty, those first of which least is linked, with about `bytes_max` linked bytes."""
        sizes = self._linked(but)
        chosen: set[int] = set()
        for index in sorted(sizes, key=lambda index: self.live[index] / max(1, sizes[index])):
            bytes_max -= self.live[index]
            if bytes_max < 0 and chosen:
                break
            chosen.add(index)
        return chosen

    def _linked(self, but: set[int]) -> dict[int, int]:
        """Return the bytes of the kept files that something links to. The others go when the log is trimmed."""
        return {index: size for index, size in self._sizes.items() if index in self.live and index not in but}

    def _add(self, index: int, size: int) -> None:
        self._sizes[index] = size
        self.file_bytes += size


@final
class LinkedFiles:
    """Segments, kept or not, that are opened once for several reads. A context manager, which closes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptors: dict[int, int | None] = {}  # by segment; None: there is no such file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._descriptors.values():
            if descriptor is not None:
                os.close(descriptor)

    def read(self, segment: int, offset: int, size: int) -> bytes | None:
        """Return bytes of a segment; None when there is no such file, fewer when it ends. Raises OSError."""
        if segment not in self._descriptors:
            self._descriptors[segment] = self._open(segment)
        descriptor = self._descriptors[segment]
        return None if descriptor is None else _read(descriptor, offset, size)

    def _open(self, segment: int) -> int | None:
        kept = kept_path(self._folder, segment)
        for path in (kept, segment_path(self._folder, segment), kept):
            with contextlib.suppress(FileNotFoundError):  # it may get its other name meanwhile
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return None


def read_linked(folder: Path, segment: int, offset: int, size: int) -> bytes | None:
    """Return bytes of a segment, kept or not; None when there is no such file, fewer when it ends. Raises OSError."""
    with LinkedFiles(folder) as files:
        return files.read(segment, offset, size)


def remove_kept(folder: Path) -> None:
    """Remove all kept files. Raises OSError."""
    for path in kept_files(os.listdir(folder)):
        (folder / path).unlink()


def kept_files(names: Iterable[str]) -> list[str]:
    """Return the names that are those of kept segments."""
    return [name for name in names if _KEPT_NAME.fullmatch(name)]


def _read(descriptor: int, offset: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0 and (piece := os.pread(descriptor, size, offset)):
        pieces.append(piece)
        offset += len(piece)
        size -= len(piece)
    return b"".join(pieces)
