"""The files of a log: what is in them, and damage."""

from pathlib import Path
from typing import NamedTuple

from sluicegate.storage.log.segment import FRAME_HEAD_BYTES, HEADER_BYTES, decode_header, frames_of, salt_of


class Framed(NamedTuple):
    """A frame in a file."""

    path: Path
    number: int
    head: int  # offset of its head
    start: int  # offset of the record
    end: int  # offset behind the record


def segments_in(folder: Path) -> list[Path]:
    """Return the segments of a data folder, oldest first."""
    return sorted((folder / "log").glob("0*.log"))


def frames_in(folder: Path) -> list[Framed]:
    """Return the frames of all segments."""
    found: list[Framed] = []
    for path in segments_in(folder):
        data = path.read_bytes()
        header = decode_header(data[:HEADER_BYTES], str(path))
        for frame in frames_of(data, salt_of(header.incarnation, header.segment), header.after):
            end = frame.start + frame.size
            found.append(Framed(path, frame.number, frame.start - FRAME_HEAD_BYTES, frame.start, end))
    return found


def flip(path: Path, offset: int, bits: int = 0x40) -> None:
    """Change bits of one byte of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ bits]))


def flip_record(folder: Path, number: int, position: int) -> bytes:
    """Change one byte of a record; return the record as it is then."""
    (frame,) = [each for each in frames_in(folder) if each.number == number]
    flip(frame.path, frame.start + position)
    return frame.path.read_bytes()[frame.start : frame.end]
