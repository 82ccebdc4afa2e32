"""The journal: the log on a local disk, in segments that are only appended to.

    log/000000000017.log    a segment, see `storage.log.segment`; the name is its index
    log/spare-1.log         a file for a later segment, with its room allocated
    log/000000000016.kept   a segment that only pages need, see `storage.log.kept`

An append is one write, several for a long record, and one fdatasync in a file whose blocks are allocated. So it costs
its own bytes and, on most file systems, no write of the file system's own. A segment that is no longer needed becomes a
spare file, and its blocks are used again. A file gets the name of a segment when its header is on the disk, and is used
again when the disk has its name as a spare file.

After an append that failed nobody knows what is on the disk. Its frames are overwritten, and the segment is closed. The
next append begins another segment, whose header voids what the failed one may have left. The same is done at each
start. When neither can be written, the record is in doubt: a start may find it. So the caller must not refuse it, and
appends it again.

Room: an append that would need a new file is refused when the disk is full, unless it may use the reserve. One spare
file is kept for those.

Size: the first files are small. While the log is longer than a few files, or a record longer than one, new files are
twice as large, up to a maximum; they stay so until the store is opened again, and then if one of that size is there.

Threads: one appends and reads, another one trims. `_lock` guards the lists of segments and spare files.
"""

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple, final

from sluicegate.storage.environment.file_kinds import is_folder, is_there, may_be_there
from sluicegate.storage.environment.file_rights import make_file, make_folder
from sluicegate.storage.errors import DamagedRecord, StoreDamaged, StoreFailed, UnsupportedFormat
from sluicegate.storage.interface import LogEntry, LogGap
from sluicegate.storage.log.kept import KeptSegments, remove_kept, segment_path
from sluicegate.storage.log.segment import (
    FRAME_HEAD_BYTES,
    HEADER_BYTES,
    Frame,
    SegmentHeader,
    decode_header,
    encode_header,
    frame_bytes,
    frame_pieces,
    frames_of,
    salt_of,
)

LOG_FOLDER: Final = "log"
SPARES_MAX: Final = 3  # the largest one is the reserve
SEGMENTS_FEW: Final = 4  # a log of more bytes than so many files gets larger ones

_SEGMENT_NAME: Final = re.compile(r"(\d{12})\.log")
_SPARE_NAME: Final = re.compile(r"spare-(\d+)\.log")
_EVERY: Final = 1 << 64  # above each record number
_WRITE_BYTES: Final = 1 << 20  # a longer frame takes several writes


@dataclass(slots=True)
class Segment:
    """A file of the journal and what it holds."""

    index: int
    path: Path
    after: int  # number of the last record before it
    last: int  # number of its last record; `after` when it has none
    records: int
    end: int  # where the next frame would begin
    void_above: int = _EVERY  # a later segment says that greater numbers are void
    has_header: bool = True  # else `after` is only a lower bound


class Spare(NamedTuple):
    """A file for a later segment."""

    path: Path
    size: int  # bytes that are allocated


class RecordEnd(NamedTuple):
    """Where a record ends."""

    segment: int
    offset: int


@final
class Journal:
    """The log of one store. Numbers of records ascend, and need not be consecutive."""

    def __init__(
        self, folder: Path, incarnation: int, *, segment_bytes: int, sync: bool, first_bytes: int | None = None
    ) -> None:
        """Read what is there; `open_for_appending` is needed before an append. Raises OSError, UnsupportedFormat.

        Files have `first_bytes` at first, and `segment_bytes` at most (None: always), unless a record is longer. A
        segment of another store, or one whose header is damaged, is described in `damages`.
        """
        self.folder = folder
        self.damages: list[tuple[str, str]] = []  # place and problem of what no record can be read of
        self.gaps: list[LogGap] = []
        self.torn = ""  # describes a record at the end that was never confirmed; empty: there was none
        self._incarnation = incarnation
        self._segment_bytes_max = segment_bytes
        self._segment_bytes = segment_bytes if first_bytes is None else min(first_bytes, segment_bytes)  # of new files
        self._sync: Callable[[int], None] = os.fdatasync if sync else _no_sync
        self._lock = threading.Lock()
        self._segments: list[Segment] = []
        self._spares: list[Spare] = []  # by size
        self.kept: Final = KeptSegments(folder)
        self._current: Segment | None = None  # appends go there
        self._salt = 0  # of its frames
        self._descriptor = -1
        self._room = 0  # end of the allocated blocks of the current segment
        self._next_index = self.kept.last_index + 1
        self._next_spare = 1
        self._last_number = 0
        self._is_lost = False  # what was appended without waiting may not be on the disk, and never will be
        self._doubtful: Segment | None = None  # it may end with records of an append that failed
        self._doubtful_heads: list[int] = []  # where the frames of these begin
        self._find_segments()

    # --- reading ---

    @property
    def place(self) -> str:
        """The name of the log in reports."""
        return str(self.folder)

    @property
    def last_number(self) -> int:
        """The number of the last record, or the number after which the next one comes; 0 when nothing is known."""
        return self._last_number

    @property
    def first_number(self) -> int:
        """The least number that a record may have: there is none below it."""
        return self._segments[0].after + 1 if self._segments else self.last_number + 1

    def read(self, first: int) -> Iterator[LogEntry]:
        """Yield the records from number `first` on. Raises OSError."""
        for segment in list(self._segments):
            if segment.last < first:
                continue
            data = segment.path.read_bytes()
            for frame in self._frames(segment, data):
                if frame.number >= first:
                    yield LogEntry(frame.number, data[frame.start : frame.start + frame.size], frame.is_sound)

    def log_bytes(self) -> int:
        """Return the bytes of all segments that were not trimmed."""
        return sum([segment.end for segment in self._segments])

    def held_bytes(self) -> int:
        """Return the same, with the segments that are kept."""
        return self.log_bytes() + self.kept.file_bytes

    def file_bytes(self) -> int:
        """Return the allocated bytes of all files. Raises OSError."""
        with self._lock:
            paths = [segment.path for segment in self._segments] + [spare.path for spare in self._spares]
        total = 0
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                total += path.stat().st_size
        return total + self.kept.file_bytes

    def records_count(self) -> int:
        """Return the number of records in all segments that were not trimmed."""
        return sum([segment.records for segment in self._segments])

    # --- appending ---

    def is_in_doubt(self) -> bool:
        """Return whether a start may find the record of the last append, which failed."""
        return self._doubtful is not None

    def has_room(self, record_bytes: int) -> bool:
        """Return whether the next append needs no other file, if its record has no more bytes than that."""
        segment = self._current
        return segment is not None and segment.end + frame_bytes(record_bytes) <= self._room

    def open_for_appending(self, after: int) -> None:
        """Begin a segment behind everything that is there; numbers up to `after` are in use. Raises OSError."""
        if self.last_number < after:
            self.gaps.append(LogGap(self.last_number + 1, after, self.place))
            self._last_number = after
        first_bytes = self._segment_bytes
        sizes = [spare.size for spare in self._spares] + [each.path.stat().st_size for each in self._segments]
        self._segment_bytes = max([first_bytes, *[size for size in sizes if size <= self._segment_bytes_max]])
        for spare in [each for each in self._spares if each.size < first_bytes]:  # its allocation was interrupted
            spare.path.unlink()
            self._spares.remove(spare)
        for _ in range(SPARES_MAX - 1):
            self.prepare()

    def append(self, number: int, record: list[bytes], *, uses_reserve: bool) -> RecordEnd:
        """Append a record, given in pieces, and return when it is on the disk.

        Raises OSError: then the record is not in the log, unless `is_in_doubt`. Raises ValueError for a number that is
        not above the last.
        """
        self._check_sound()
        self._check_next(number, self.last_number)
        record_bytes = sum([len(piece) for piece in record])
        size = frame_bytes(record_bytes)
        segment = self._segment_for(size, uses_reserve=uses_reserve)
        end = RecordEnd(segment.index, segment.end + FRAME_HEAD_BYTES + record_bytes)
        self._append_frames(segment, frame_pieces(number, record, self._salt), [size], number, waits=True)
        return end

    def append_copies(self, entries: Sequence[LogEntry]) -> list[RecordEnd]:
        """Append records of another log, of which only `sync` makes sure that they are on the disk; return their ends.

        It takes the first one, and those behind it that the file has room for; another call takes the rest. They are
        one write, and may use the reserve. One that came damaged is damaged here, too. Raises as `append`: then none of
        them is in the log, unless `is_in_doubt`.
        """
        self._check_sound()
        segment = self._segment_for(frame_bytes(len(entries[0].data)), uses_reserve=True)
        ends: list[RecordEnd] = []
        frames: list[bytes] = []
        sizes: list[int] = []
        at, last = segment.end, self.last_number
        for number, data, is_sound in entries:
            size = frame_bytes(len(data))
            if at + size > self._room:
                break
            self._check_next(number, last)
            frames += frame_pieces(number, [data], self._salt, is_sound=is_sound)
            sizes.append(size)
            ends.append(RecordEnd(segment.index, at + FRAME_HEAD_BYTES + len(data)))
            at += size
            last = number
        self._append_frames(segment, frames, sizes, last, waits=False)
        return ends

    def sync(self) -> None:
        """Return when all records are on the disk. Raises OSError for a file that cannot be opened.

        Raises StoreDamaged when the disk refuses: then nobody knows what it has, and another try would prove nothing,
        for the system forgets what it could not write. So nothing is appended any more, and the log has to be opened
        again, from what is on the disk.
        """
        self._check_sound()
        with self._lock:
            segments = list(self._segments)
        for segment in segments:
            try:
                descriptor = os.open(segment.path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                with self._lock:
                    if segment in self._segments:
                        raise
                continue  # it was trimmed meanwhile
            try:
                self._sync(descriptor)
            except OSError as error:
                self._is_lost = True
                raise StoreDamaged(f"records in {segment.path} may be lost: {error}") from error
            finally:
                os.close(descriptor)

    def trim(self, before: int) -> None:
        """Give up the records below a number, as far as they fill whole segments; keep the linked ones of these.

        Raises OSError; another call does the rest.
        """
        with self._lock:
            used = (self._current, self._doubtful)
            gone = [each for each in self._segments if each.last < before and each not in used]
            self._segments = [each for each in self._segments if each not in gone]
        try:
            self._free(gone)
        except OSError:
            with self._lock:
                self._segments = [each for each in gone if may_be_there(each.path)] + self._segments
            raise

    def _free(self, gone: list[Segment]) -> None:
        """Make spare files of segments that are not linked, or remove them."""
        free = self.kept.unlinked()
        for segment in gone:
            if segment.index in self.kept.live:
                self.kept.keep(segment.index)
            else:
                free.append(segment.path)
        spares: list[Spare] = []
        for path in free:
            with contextlib.suppress(FileNotFoundError):  # who removed it has reported what was lost
                size = path.stat().st_size
                if self._is_wanted(size, len(self._spares) + len(spares)):
                    spare = Spare(self._next_spare_path(), size)
                    os.rename(path, spare.path)
                    spares.append(spare)
                else:
                    path.unlink()
        if spares:
            self._sync_folder()  # else a power failure could bring back the name, over what is written next
            for spare in spares:
                self._keep_spare(spare)

    def prepare(self) -> None:
        """Allocate a spare file if there is only one, so that an append need not. A full disk is no error here."""
        if len(self._spares) < SPARES_MAX - 1:
            with contextlib.suppress(OSError):
                self._add_spare()

    def close(self) -> None:
        """Release the files. May be called twice."""
        self._end_segment()

    def cut_tail(self, durable: int) -> None:
        """Cut the log off before the first record above number `durable` that is missing or damaged.

        For a log whose appends did not wait: a power failure may have lost any of its last records, and others have
        them. Files before the last one were whole when that was begun.
        """
        if not self._segments:
            return
        segment = self._segments[-1]
        last, at, count = segment.after, HEADER_BYTES, 0
        for frame in self._frames(segment, segment.path.read_bytes()):
            is_next = frame.start - FRAME_HEAD_BYTES == at or last < durable
            if frame.number > durable and not (is_next and frame.is_sound):
                self.gaps = [gap for gap in self.gaps if gap.first <= last]
                self.torn = f"what follows log record {last} was not stored whole, and was cut off"
                segment.void_above = segment.last = self._last_number = last
                segment.end, segment.records = at, count
                return
            last, at, count = frame.number, frame.end(), count + 1

    # --- files ---

    def _check_sound(self) -> None:
        if self._is_lost:
            raise StoreDamaged(f"records in {self.folder} may be lost: the store has to be opened again")

    def _check_next(self, number: int, last: int) -> None:
        if number <= last:
            raise ValueError(f"log record {number} after {last}")

    def _segment_for(self, size: int, *, uses_reserve: bool) -> Segment:
        """Return the current segment, or another one if it has no room for a frame of so many bytes. Raises OSError."""
        segment = self._current
        if segment is None or segment.end + size > self._room:
            return self._begin_segment(HEADER_BYTES + size, uses_reserve=uses_reserve)
        return segment

    def _append_frames(
        self, segment: Segment, frames: list[bytes], sizes: list[int], last: int, *, waits: bool
    ) -> None:
        """Write frames, given in pieces and with the size of each, behind those of the current segment.

        `last` is the number of the last of their records. Raises OSError.
        """
        size = sum(sizes)
        is_whole = False
        try:
            if size <= _WRITE_BYTES:
                _write_all(self._descriptor, b"".join(frames), segment.end)
            else:
                _write(self._descriptor, frames, segment.end)
            is_whole = True
            if waits:
                self._sync(self._descriptor)
        except OSError:
            self._take_back(segment, sizes, is_whole=is_whole)
            raise
        if os.fstat(self._descriptor).st_nlink == 0:
            self._end_segment()
            raise StoreDamaged(f"{segment.path} was removed while the node runs: what it writes would be lost")
        segment.end += size
        segment.last = last
        segment.records += len(sizes)
        self._last_number = last

    def _find_segments(self) -> None:
        names = sorted(os.listdir(self.folder)) if is_folder(self.folder) else []
        for name in names:
            if found := _SPARE_NAME.fullmatch(name):
                self._keep_spare(Spare(self.folder / name, (self.folder / name).stat().st_size))
                self._next_spare = max(self._next_spare, int(found[1]) + 1)
            elif found := _SEGMENT_NAME.fullmatch(name):
                self._take_segment(int(found[1]), self.folder / name)
        bound = _EVERY
        for segment in reversed(self._segments):
            segment.void_above = bound
            bound = min(bound, segment.after if segment.has_header else self._before_first(segment))
        for segment in self._segments:
            self._measure(segment, is_last=segment is self._segments[-1])

    def _take_segment(self, index: int, path: Path) -> None:
        self._next_index = max(self._next_index, index + 1)
        with open(path, "rb") as file:
            data = file.read(HEADER_BYTES)
        after = self._segments[-1].after if self._segments else 0
        try:
            header = decode_header(data, str(path))
        except DamagedRecord as error:
            has_header = False
            self.damages.append((str(path), f"its header is damaged ({error.reason}); its records are read"))
        else:
            has_header = True
            if (header.incarnation, header.segment) != (self._incarnation, index):
                raise StoreFailed(f"{path} belongs to another spool, or has another name: move it away")
            after = header.after
        self._segments.append(Segment(index, path, after, after, 0, HEADER_BYTES, has_header=has_header))

    def _before_first(self, segment: Segment) -> int:
        """Return the number before the first record of a segment without a header: a greater one before is void."""
        data = segment.path.read_bytes()
        return next((frame.number - 1 for frame in self._frames(segment, data)), _EVERY)

    def _measure(self, segment: Segment, *, is_last: bool) -> None:
        """Find the end of a segment, a torn record there, and what is missing up to there."""
        if segment.has_header and segment.after > self.last_number:
            self.gaps.append(LogGap(self.last_number + 1, segment.after, self.place))
        data = segment.path.read_bytes()
        frames: list[Frame] = []
        at = HEADER_BYTES
        last = segment.after
        for frame in self._frames(segment, data):
            if frame.start - FRAME_HEAD_BYTES > at:
                self.gaps.append(LogGap(last + 1, frame.number - 1, str(segment.path)))
            at = frame.end()
            last = frame.number
            frames.append(frame)
        if is_last and frames and not frames[-1].is_sound:
            torn = frames.pop()
            self.torn = f"log record {torn.number} was being written when the broker ended, and was cut off"
            segment.void_above = torn.number - 1
        if frames:
            segment.last = frames[-1].number
            segment.end = frames[-1].end()
            segment.records = len(frames)
        self._last_number = max(self.last_number, segment.last)

    def _frames(self, segment: Segment, data: bytes) -> Iterator[Frame]:
        for frame in frames_of(data, salt_of(self._incarnation, segment.index), segment.after):
            if frame.number > segment.void_above:
                return
            yield frame

    def _begin_segment(self, needed_bytes: int, *, uses_reserve: bool) -> Segment:
        """Begin the next segment, with room for so many bytes, and make its header and its name durable."""
        self._end_segment()
        with contextlib.suppress(OSError):  # then the header has to void it
            self._void_doubtful()
        index = self._next_index
        self._next_index += 1
        path = segment_path(self.folder, index)
        self._choose_size(needed_bytes)
        spare = self._taken_spare(needed_bytes, uses_reserve=uses_reserve)
        try:
            self._descriptor = os.open(spare.path, os.O_WRONLY | os.O_CLOEXEC)
            self._room = spare.size
            # Where the cache has the file in large pieces, a small write would make all of a piece dirty.
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            _write(self._descriptor, [encode_header(SegmentHeader(self._incarnation, index, self.last_number))], 0)
            self._sync(self._descriptor)
            os.rename(spare.path, path)
            segment = Segment(index, path, self.last_number, self.last_number, 0, HEADER_BYTES)
            with self._lock:
                self._segments.append(segment)
                self._current = segment
                self._salt = salt_of(self._incarnation, index)
            self._sync_folder()
            self._doubtful = None
        except OSError:
            self._end_segment()
            if is_there(spare.path):
                self._keep_spare(spare)
            raise
        return segment

    def _choose_size(self, needed_bytes: int) -> None:
        """Have larger files from now on, if the log is long for its files, or if they do not take such a record."""
        held_bytes = self.held_bytes()
        while self._segment_bytes < self._segment_bytes_max:
            is_short = self._segment_bytes < needed_bytes <= self._segment_bytes_max
            if not is_short and held_bytes <= SEGMENTS_FEW * self._segment_bytes:
                return
            self._segment_bytes = min(2 * self._segment_bytes, self._segment_bytes_max)

    def _taken_spare(self, needed_bytes: int, *, uses_reserve: bool) -> Spare:
        """Return a file with allocated room, and no other use: the smallest spare one that suffices, or a new one."""
        with self._lock:
            fitting = [each for each in self._spares if each.size >= needed_bytes]
            if fitting and len(self._spares) > 1:
                self._spares.remove(fitting[0])
                return fitting[0]
        spare = Spare(self._next_spare_path(), max(needed_bytes, self._segment_bytes))
        try:
            _allocate(spare.path, spare.size)
        except OSError:
            with self._lock:
                if uses_reserve and fitting and fitting[0] in self._spares:
                    self._spares.remove(fitting[0])
                    return fitting[0]
            raise
        return spare

    def _is_wanted(self, size: int, spares_count: int) -> bool:
        """Return whether a file is worth to be kept beside so many spare ones. A small one is better than none."""
        if size > self._segment_bytes_max or spares_count >= SPARES_MAX:
            return False
        return size >= self._segment_bytes or spares_count == 0

    def _keep_spare(self, spare: Spare) -> None:
        with self._lock:
            self._spares.append(spare)
            self._spares.sort(key=_size_of)

    def _take_back(self, segment: Segment, sizes: list[int], *, is_whole: bool) -> None:
        """End a segment after a failed append of frames of these sizes, and overwrite the head of each."""
        segment.void_above = segment.last
        self._end_segment()
        self._doubtful = segment
        self._doubtful_heads = list(accumulate(sizes[:-1], initial=segment.end))
        try:
            self._void_doubtful()
        except OSError:
            if not is_whole and len(sizes) == 1:  # a record that was not written to its end is none
                self._doubtful = None

    def _void_doubtful(self) -> None:
        """Overwrite the heads of frames that may be on the disk, and must not. Raises OSError."""
        segment = self._doubtful
        if segment is None:
            return
        descriptor = os.open(segment.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            for head in self._doubtful_heads:
                _write_all(descriptor, bytes(FRAME_HEAD_BYTES), head)
            self._sync(descriptor)
        finally:
            os.close(descriptor)
        self._doubtful = None

    def _end_segment(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        self._current = None

    def _next_spare_path(self) -> Path:
        with self._lock:
            path = self.folder / f"spare-{self._next_spare}.log"
            self._next_spare += 1
        return path

    def _add_spare(self) -> None:
        spare = Spare(self._next_spare_path(), self._segment_bytes)
        _allocate(spare.path, spare.size)
        self._keep_spare(spare)

    def _sync_folder(self) -> None:
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def incarnation_in(log: Path) -> int | None:
    """Return the incarnation that the segments of a folder name; None when no header can be read. Raises OSError."""
    for name in sorted(os.listdir(log)) if is_folder(log) else []:
        if _SEGMENT_NAME.fullmatch(name):
            with open(log / name, "rb") as file, contextlib.suppress(DamagedRecord, UnsupportedFormat):
                return decode_header(file.read(HEADER_BYTES), name).incarnation
    return None


def forget_cached(log: Path) -> None:
    """Have the end of a log read from the disk, and not from the system's memory. Raises OSError.

    That may have what the disk refused to store: after an error the system takes it as stored.
    """
    names = [name for name in os.listdir(log) if _SEGMENT_NAME.fullmatch(name)] if is_folder(log) else []
    if not names:
        return
    descriptor = os.open(log / max(names), os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def make_log_folder(folder: Path) -> Path:
    """Create the folder of the log in a data folder, if it is missing, and return it. Raises OSError."""
    log = folder / LOG_FOLDER
    make_folder(log)
    return log


def remove_log(log: Path) -> None:
    """Remove all files of a log. Raises OSError."""
    for name in os.listdir(log):
        if _SEGMENT_NAME.fullmatch(name) or _SPARE_NAME.fullmatch(name):
            (log / name).unlink()
    remove_kept(log)


def _size_of(spare: Spare) -> int:
    return spare.size


def _allocate(path: Path, size: int) -> None:
    """Create a file with allocated blocks. Raises OSError; then there is no file."""
    descriptor = make_file(path)
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(descriptor)


def _write(descriptor: int, pieces: list[bytes], offset: int) -> None:
    """Write all pieces, one behind the other, at an offset. Raises OSError."""
    for data in _joined(pieces):
        _write_all(descriptor, data, offset)
        offset += len(data)


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Write all bytes at an offset. Raises OSError."""
    written = os.pwrite(descriptor, data, offset)
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], offset + written)


def _joined(pieces: list[bytes]) -> Iterator[bytes]:
    """Yield the pieces in larger ones, so that a long record is not copied as a whole."""
    first = size = 0
    for position, piece in enumerate(pieces):
        size += len(piece)
        if size >= _WRITE_BYTES:
            yield b"".join(pieces[first : position + 1])
            first, size = position + 1, 0
    if size:
        yield b"".join(pieces[first:])


def _no_sync(_: int) -> None:
    """Leave the data to the operating system, for tests that measure something else."""
