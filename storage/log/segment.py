"""A segment: one file of the journal. It has a header, and then one frame for each record of the log.

Integers are little-endian.

    header      64 bytes: kind SGL, version 1, sealed (`storage.records.seal`); the rest are zeros
        u64     incarnation of the store
        u64     index of the segment, as in its name
        u64     number of the last record before this segment; a greater one in an earlier segment is void

    frame       at a multiple of 8 bytes
        4 B     "SGLR"
        u32     bytes of the record
        u64     number of the record
        u64     xxh3_64 of the record
        u64     xxh3_64 of the 24 bytes before; both are seeded with the salt
        record  see `storage.log.record`; up to 7 zeros follow

Files of segments that are no longer needed are used again, so old bytes follow the last frame. The salt tells them
apart: it is the xxh3_64 of incarnation and index, and a frame belongs to the segment only if its checksums match.

A commit writes one frame, and the next one begins when the file system has confirmed it. So whatever a power failure
did to sectors, only the last frame can be torn. A frame that is damaged and not the last one was confirmed.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import xxhash

from sluicegate.storage.records.seal import SEAL_BYTES, seal, unseal

SEGMENT_KIND: Final = b"SGL"
SEGMENT_FORMAT: Final = 1
HEADER_BYTES: Final = 64
FRAME_HEAD_BYTES: Final = 32

_HEADER: Final = struct.Struct("<QQQ")
_SALTED: Final = struct.Struct("<QQ")
_HEAD: Final = struct.Struct("<4sIQQ")
_CHECKSUM: Final = struct.Struct("<Q")
_MAGIC: Final = b"SGLR"
_ALIGNMENT: Final = 8


class SegmentHeader(NamedTuple):
    """What a segment says of itself."""

    incarnation: int
    segment: int  # its index
    after: int  # number of the last record before it


class Frame(NamedTuple):
    """A frame of a segment: a record, or the place of one that is damaged."""

    number: int
    start: int  # of the record, in the file
    size: int
    is_sound: bool  # its checksum matches

    def end(self) -> int:
        """Return the offset behind the frame."""
        return aligned(self.start + self.size)


def aligned(offset: int) -> int:
    """Return the first place for a frame at or behind an offset."""
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def frame_bytes(record_bytes: int) -> int:
    """Return the size of the frame of a record."""
    return aligned(FRAME_HEAD_BYTES + record_bytes)


def salt_of(incarnation: int, index: int) -> int:
    """Return the seed of the checksums of a segment: it is known even when the header is damaged."""
    return xxhash.xxh3_64_intdigest(_SALTED.pack(incarnation, index))


def encode_header(header: SegmentHeader) -> bytes:
    """Return the header's bytes."""
    return seal(SEGMENT_KIND, SEGMENT_FORMAT, _HEADER.pack(*header)).ljust(HEADER_BYTES, b"\0")


def decode_header(data: bytes, where: str) -> SegmentHeader:
    """Return the header at the beginning of `data`. Raises DamagedRecord and UnsupportedFormat."""
    unseal(data[:HEADER_BYTES], 0, SEGMENT_KIND, SEGMENT_FORMAT, where)
    return SegmentHeader(*_HEADER.unpack_from(data, SEAL_BYTES))


def frame_pieces(number: int, record: list[bytes], salt: int, *, is_sound: bool = True) -> list[bytes]:
    """Return the frame of a record, both in pieces; the checksum of a record that came damaged does not match."""
    digest = xxhash.xxh3_64(seed=salt)
    size = 0
    for piece in record:
        digest.update(piece)
        size += len(piece)
    checksum = digest.intdigest()
    head = _HEAD.pack(_MAGIC, size, number, checksum if is_sound else checksum ^ 1)
    padding = bytes(-(FRAME_HEAD_BYTES + size) % _ALIGNMENT)
    return [head, _CHECKSUM.pack(xxhash.xxh3_64_intdigest(head, salt)), *record, padding]


def frames_of(data: bytes, salt: int, after: int) -> Iterator[Frame]:
    """Yield the frames of a segment, whose bytes are `data`; their numbers ascend from above `after`.

    A frame whose head cannot be read is passed over: the next one is searched for. The last frame may be one that was
    never confirmed.
    """
    at = HEADER_BYTES
    while (found := data.find(_MAGIC, at)) >= 0:
        frame = _frame_at(data, found, salt) if found % _ALIGNMENT == 0 else None
        if frame is None or frame.number <= after:
            at = found + 1
            continue
        yield frame
        after = frame.number
        at = frame.end()


def _frame_at(data: bytes, offset: int, salt: int) -> Frame | None:
    """Return the frame whose head is at an offset; None when there is none."""
    start = offset + FRAME_HEAD_BYTES
    if start > len(data):
        return None
    head = data[offset : offset + _HEAD.size]
    (checksum,) = _CHECKSUM.unpack_from(data, offset + _HEAD.size)
    if xxhash.xxh3_64_intdigest(head, salt) != checksum:
        return None
    fields: tuple[bytes, int, int, int] = _HEAD.unpack(head)
    _, size, number, record_checksum = fields
    if start + size > len(data):
        return Frame(number, start, len(data) - start, is_sound=False)
    is_sound = xxhash.xxh3_64_intdigest(data[start : start + size], salt) == record_checksum
    return Frame(number, start, size, is_sound)
