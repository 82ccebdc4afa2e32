"""Columns: many messages side by side, as ROWS and STAGE carry them.

Flow: columns. Numbers within a column are little-endian, and its buffers have the memory layout of Apache Arrow arrays:
a reader wraps them, and a writer hands over what it has, without touching a row. A bit set says which columns are
present; they follow in the order of the bits, each as one or more buffers:

    u64 bytes (big-endian) | bytes | zeros up to a multiple of 8

This module knows no message: `datapath.bulk_rows` converts between columns and batches.
"""

import sys
from array import array
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Final, final

from sluicegate.protocols.flow.codec.codes import MALFORMED, PeerViolation

SEQUENCE: Final = 0x0001
TOPIC: Final = 0x0002
PAYLOAD: Final = 0x0004
RECEIVED_MS: Final = 0x0008
PUBLISHER: Final = 0x0010
PARTITION_KEY: Final = 0x0020
PRIORITY: Final = 0x0040
FLAGS: Final = 0x0080
EXPIRY_MS: Final = 0x0100  # ROWS: when it expires; STAGE: its time to live
TIMESTAMP_MS: Final = 0x0200
MESSAGE_ID: Final = 0x0400
CORRELATION: Final = 0x0800
REPLY_TO: Final = 0x1000
CONTENT_TYPE: Final = 0x2000
PROPERTIES: Final = 0x4000

# Kinds of columns, and the buffers of each.
NUMBERS: Final = 1  # i64
SMALL_NUMBERS: Final = 2  # u8
VALUES: Final = 3  # i32 offsets, one more than rows; bytes
OPTIONAL: Final = 4  # a bit for each row that has a value, lowest first; then as VALUES
MAP: Final = 5  # i32 offsets into the entries; names (two buffers), u8 types, values (two buffers)

KINDS: Final[dict[int, int]] = {
    SEQUENCE: NUMBERS,
    TOPIC: VALUES,
    PAYLOAD: VALUES,
    RECEIVED_MS: NUMBERS,
    PUBLISHER: VALUES,
    PARTITION_KEY: OPTIONAL,
    PRIORITY: SMALL_NUMBERS,
    FLAGS: SMALL_NUMBERS,
    EXPIRY_MS: NUMBERS,
    TIMESTAMP_MS: NUMBERS,
    MESSAGE_ID: OPTIONAL,
    CORRELATION: OPTIONAL,
    REPLY_TO: OPTIONAL,
    CONTENT_TYPE: OPTIONAL,
    PROPERTIES: MAP,
}
ALL: Final = 0x7FFF
BUFFERS: Final[dict[int, int]] = {NUMBERS: 1, SMALL_NUMBERS: 1, VALUES: 2, OPTIONAL: 3, MAP: 6}

_LENGTH_BYTES: Final = 8
_PADDING: Final = (b"", bytes(7), bytes(6), bytes(5), bytes(4), bytes(3), bytes(2), bytes(1))

assert sum(KINDS) == ALL


@final
class ColumnWriter:
    """Columns of one frame on their way out. They are put in the order of their bits."""

    def __init__(self) -> None:
        self.columns = 0  # those that were put
        self._out: list[bytes] = []

    def put(self, column: int, buffers: list[bytes]) -> None:
        """Put a column, whose buffers are laid out already."""
        assert column > self.columns, "columns stand in the order of their bits"
        assert len(buffers) == BUFFERS[KINDS[column]]
        self.columns |= column
        out = self._out
        for data in buffers:
            out.append(len(data).to_bytes(_LENGTH_BYTES, "big"))
            out.append(data)
            out.append(_PADDING[len(data) & 7])

    def put_numbers(self, column: int, values: Iterable[int]) -> None:
        """Put a column of 64-bit numbers."""
        self.put(column, [_little(array("q", values))])

    def put_values(self, column: int, values: list[bytes]) -> None:
        """Put a column in which every row has a value."""
        self.put(column, values_buffers(values))

    def put_optional(self, column: int, values: list[bytes | None]) -> None:
        """Put a column in which rows may have none."""
        bits = bytearray((len(values) + 7) // 8)
        present: list[bytes] = []
        for row, value in enumerate(values):
            if value is None:
                present.append(b"")
            else:
                bits[row >> 3] |= 1 << (row & 7)
                present.append(value)
        self.put(column, [bytes(bits), *values_buffers(present)])

    def put_map(self, column: int, counts: list[int], names: list[bytes], types: bytes, values: list[bytes]) -> None:
        """Put a column of named values: how many each row has, and all of them one behind the other."""
        self.put(column, [_offsets(counts), *values_buffers(names), types, *values_buffers(values)])

    def encoded(self) -> bytes:
        """Return the bytes of all columns."""
        return b"".join(self._out)


def values_buffers(values: list[bytes]) -> list[bytes]:
    """Return offsets and bytes of a column of values."""
    return [_offsets(map(len, values)), b"".join(values)]


def _offsets(lengths: Iterable[int]) -> bytes:
    return _little(array("i", accumulate(lengths, initial=0)))


def _little(values: "array[int]") -> bytes:
    if sys.byteorder != "little":
        values.byteswap()
    return values.tobytes()


@final
class Columns:
    """Columns of one frame as they came: buffers that lie in it, and are not copied."""

    __slots__ = ("_buffers", "columns", "count")

    def __init__(self, count: int, columns: int) -> None:
        self.count = count  # rows
        self.columns = columns  # bits of those that are there
        self._buffers: dict[int, list[memoryview]] = {}

    def buffers(self, column: int) -> list[memoryview]:
        """Return the buffers of a column, as its kind has them; none when it is not there."""
        return self._buffers.get(column, [])

    def add(self, column: int, buffers: list[memoryview]) -> None:
        """Take a column. Raises PeerViolation when the sizes of its buffers do not fit each other."""
        kind = KINDS[column]
        count = self.count
        if kind == NUMBERS:
            sizes_fit = len(buffers[0]) == 8 * count
        elif kind == SMALL_NUMBERS:
            sizes_fit = len(buffers[0]) == count
        elif kind == VALUES:
            sizes_fit = _values_fit(buffers[0], buffers[1], count)
        elif kind == OPTIONAL:
            sizes_fit = len(buffers[0]) == (count + 7) // 8 and _values_fit(buffers[1], buffers[2], count)
        else:
            entries = len(buffers[3])
            sizes_fit = (
                _offsets_fit(buffers[0], count, entries)
                and _values_fit(buffers[1], buffers[2], entries)
                and _values_fit(buffers[4], buffers[5], entries)
            )
        if not sizes_fit:
            raise PeerViolation(MALFORMED, f"column {column:#06x}: its buffers are not those of {count} rows")
        self._buffers[column] = buffers

    def numbers(self, column: int) -> list[int]:
        """Return the numbers of a column that is there, of either size."""
        (data,) = self._buffers[column]
        return list(data) if KINDS[column] == SMALL_NUMBERS else _read_numbers("q", data)

    def values(self, column: int) -> list[bytes]:
        """Return the values of a column that is there; empty ones where a row has none. Raises PeerViolation."""
        buffers = self._buffers[column]
        return cut_values(buffers[-2], buffers[-1])

    def optional_values(self, column: int) -> list[bytes | None]:
        """Return the values of a column that is there, None where a row has none. Raises PeerViolation."""
        bits = self._buffers[column][0]
        return [value if bits[row >> 3] >> (row & 7) & 1 else None for row, value in enumerate(self.values(column))]

    def __repr__(self) -> str:
        return f"Columns({self.columns:#06x} of {self.count} rows)"


def read_columns(data: bytes, pos: int, end: int, *, count: int, columns: int) -> Columns:
    """Return the columns in `data[pos:end]`, all of it. Raises PeerViolation."""
    if columns & ~ALL:
        raise PeerViolation(MALFORMED, f"columns {columns:#x}; known are {ALL:#x}")
    found = Columns(count, columns)
    view = memoryview(data)
    for column, kind in KINDS.items():
        if not columns & column:
            continue
        buffers: list[memoryview] = []
        for _ in range(BUFFERS[kind]):
            start = pos + _LENGTH_BYTES
            size = int.from_bytes(data[pos:start], "big")
            if start + size > end:
                raise PeerViolation(MALFORMED, f"column {column:#06x} reaches beyond its frame")
            buffers.append(view[start : start + size])
            pos = start + size + (-size & 7)
        found.add(column, buffers)
    if pos != end:
        raise PeerViolation(MALFORMED, f"columns that end {end - pos} bytes before their frame does")
    return found


def cut_values(offsets: memoryview, data: memoryview) -> list[bytes]:
    """Return values one by one. Raises PeerViolation unless the offsets ascend."""
    bounds = _read_numbers("i", offsets)
    whole = bytes(data)
    values: list[bytes] = []
    for start, stop in pairwise(bounds):
        if start > stop:
            raise PeerViolation(MALFORMED, f"a value from {start} to {stop}; offsets ascend")
        values.append(whole[start:stop])
    return values


def counts_of(offsets: memoryview) -> list[int]:
    """Return how many entries each row has. Raises PeerViolation unless the offsets ascend."""
    counts = [stop - start for start, stop in pairwise(_read_numbers("i", offsets))]
    if counts and min(counts) < 0:
        raise PeerViolation(MALFORMED, "a row with less than no properties; offsets ascend")
    return counts


def _values_fit(offsets: memoryview, data: memoryview, count: int) -> bool:
    return _offsets_fit(offsets, count, len(data))


def _offsets_fit(offsets: memoryview, count: int, size: int) -> bool:
    """Return whether there is one offset more than rows, ascending from 0 to the size of the data."""
    if len(offsets) != 4 * (count + 1):
        return False
    return int.from_bytes(offsets[:4], "little") == 0 and int.from_bytes(offsets[-4:], "little") == size


def _read_numbers(code: str, data: memoryview) -> list[int]:
    values: array[int] = array(code)
    values.frombytes(data)
    if sys.byteorder != "little":
        values.byteswap()
    return values.tolist()
