"""What a disk may hold after a power failure, for each moment of a run that was recorded.

`Recorder` notes each system call of the journal. Files are changed sector by sector: what was written since the last
sync of a file may be there in any part, and names that were changed since the last sync of the folder may have been
changed up to any of them. A transaction of LMDB is there as a whole or not at all: that is LMDB's own promise.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

SECTOR_BYTES = 512


class Event(NamedTuple):
    """A system call, or a word of the test, in the order of the run."""

    kind: str  # create, write, sync, rename, unlink, sync_names, database, note
    file: int = 0
    offset: int = 0
    data: bytes = b""
    name: str = ""
    new_name: str = ""
    note: object = None


class Recorder:
    """Records the calls on the files of a log folder, and the data file of LMDB beside it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.events: list[Event] = []
        self.sound_syncs = 0  # so many calls of fdatasync succeed
        self.failing_syncs = 0  # so many after these fail, and sync nothing
        self._data_file = folder / "data.mdb"
        self._log = folder / "log"
        self._database = b""
        self._names: dict[str, int] = {}
        self._descriptors: dict[int, int] = {}  # descriptor -> file; 0: the folder
        self._count = 0
        for name in ("open", "close", "pwrite", "fdatasync", "fsync", "rename", "unlink", "posix_fallocate"):
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def note(self, note: object) -> None:
        """Record what the test knows now."""
        self._add(Event("note", note=note))

    def _add(self, event: Event) -> None:
        if self._data_file.exists() and (database := self._data_file.read_bytes()) != self._database:
            self._database = database
            self.events.append(Event("database", data=database))
        self.events.append(event)

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        noted: Callable[..., None] = getattr(self, f"_{name}")

        def call(*arguments: Any, **named: Any) -> Any:
            if name == "fdatasync" and arguments[0] in self._descriptors and self._fails():
                raise OSError(5, "input/output error")
            result = real(*arguments, **named)
            noted(result, *arguments)
            return result

        return call

    def _fails(self) -> bool:
        if self.sound_syncs:
            self.sound_syncs -= 1
        elif self.failing_syncs:
            self.failing_syncs -= 1
            return True
        return False

    def _name_of(self, path: Any) -> str | None:
        return Path(path).name if Path(path).parent == self._log else None

    def _open(self, descriptor: int, path: Any, flags: int, *_: Any) -> None:
        if isinstance(path, (str, Path)) and Path(path) == self._log:
            self._descriptors[descriptor] = 0
        elif isinstance(path, (str, Path)) and (name := self._name_of(path)):
            if flags & os.O_CREAT:
                self._count += 1
                self._names[name] = self._count
                self._add(Event("create", self._count, name=name))
            self._descriptors[descriptor] = self._names[name]

    def _close(self, _: None, descriptor: int) -> None:
        self._descriptors.pop(descriptor, None)

    def _posix_fallocate(self, _: None, descriptor: int, offset: int, size: int) -> None:
        self._add(Event("write", self._descriptors[descriptor], offset, bytes(size)))

    def _pwrite(self, written: int, descriptor: int, data: bytes, offset: int) -> None:
        if descriptor in self._descriptors:
            self._add(Event("write", self._descriptors[descriptor], offset, data[:written]))

    def _fdatasync(self, _: None, descriptor: int) -> None:
        if descriptor in self._descriptors:
            self._add(Event("sync", self._descriptors[descriptor]))

    def _fsync(self, _: None, descriptor: int) -> None:
        if self._descriptors.get(descriptor) == 0:
            self._add(Event("sync_names"))

    def _rename(self, _: None, source: Any, target: Any, *__: Any) -> None:
        name, new_name = self._name_of(source), self._name_of(target)
        if name and new_name:
            self._names[new_name] = self._names.pop(name)
            self._add(Event("rename", name=name, new_name=new_name))

    def _unlink(self, _: None, path: Any, *__: Any) -> None:
        if name := self._name_of(path):
            del self._names[name]
            self._add(Event("unlink", name=name))


@dataclass
class Disk:
    """What is certainly on the disk, and what may be."""

    database: bytes = b""
    files: dict[int, bytearray] = field(default_factory=dict)
    writes: list[Event] = field(default_factory=list)  # not synced
    names: dict[str, int] = field(default_factory=dict)
    changes: list[Event] = field(default_factory=list)  # of names, not synced

    def apply(self, event: Event) -> None:
        """Take the next event of a run."""
        match event.kind:
            case "database":
                self.database = event.data
            case "create" | "rename" | "unlink":
                self.changes.append(event)
                if event.kind == "create":
                    self.files[event.file] = bytearray()
            case "write":
                self.writes.append(event)
            case "sync":
                for write in self.writes:
                    if write.file == event.file:
                        _write(self.files[write.file], write, range(1 << 20))
                self.writes = [write for write in self.writes if write.file != event.file]
            case "sync_names":
                for change in self.changes:
                    _change(self.names, change)
                self.changes = []

    def after_power_loss(self, folder: Path, choice: Random | None, *, everything: bool = False) -> None:
        """Make a folder as it may be found: by chance, or without (or with) everything that was not synced."""
        files = {file: bytearray(data) for file, data in self.files.items()}
        for write in self.writes:
            sectors = range(_sectors(write) if everything else 0)
            chosen: range | set[int] = sectors
            if choice is not None:
                share = choice.choice([0.0, 0.1, 0.5, 0.9, 1.0])
                chosen = {each for each in range(_sectors(write)) if choice.random() < share}
            _write(files[write.file], write, chosen)
        names = dict(self.names)
        count = len(self.changes) if everything else 0 if choice is None else choice.randint(0, len(self.changes))
        for change in self.changes[:count]:
            _change(names, change)
        (folder / "log").mkdir(parents=True)
        (folder / "data.mdb").write_bytes(self.database)
        for name, file in names.items():
            (folder / "log" / name).write_bytes(files[file])


def _sectors(write: Event) -> int:
    first = write.offset // SECTOR_BYTES
    return -(-(write.offset + len(write.data)) // SECTOR_BYTES) - first


def _pieces(write: Event) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a write in each sector, with their offsets."""
    end = write.offset + len(write.data)
    at = write.offset
    while at < end:
        behind = min(end, (at // SECTOR_BYTES + 1) * SECTOR_BYTES)
        yield at, write.data[at - write.offset : behind - write.offset]
        at = behind


def _write(content: bytearray, write: Event, sectors: "range | set[int]") -> None:
    """Write some sectors of a write. A file grows with the last of them."""
    for number, (offset, piece) in enumerate(_pieces(write)):
        if number in sectors:
            if len(content) < offset:
                content.extend(bytes(offset - len(content)))
            content[offset : offset + len(piece)] = piece


def _change(names: dict[str, int], change: Event) -> None:
    if change.kind == "create":
        names[change.name] = change.file
    elif change.kind == "unlink":
        names.pop(change.name, None)
    elif change.name in names:
        names[change.new_name] = names.pop(change.name)
