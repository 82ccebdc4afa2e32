"""The referee of the flow protocol's bulk readers: ROWS of a range."""

import struct
from typing import Final

from support.referees.flow.consumer import Credit
from support.referees.flow.grammar import Fields, Frame, number_of
from support.referees.violations import expect

_ROWS: Final = struct.Struct(">QQQQIIIIB7s")
_GAP: Final = struct.Struct(">QQB7s")
_REASON_MAX: Final = 14
_LAST: Final = 1
_NUMBERS: Final = {0x1: 8, 0x8: 8, 0x40: 1, 0x80: 1, 0x100: 8, 0x200: 8}  # columns of one buffer; bytes of a row
_VALUES: Final = {0x2, 0x4, 0x10}
_OPTIONAL_VALUES: Final = {0x20, 0x400, 0x800, 0x1000, 0x2000}
_MAP: Final = 0x4000


class ReaderReferee:
    """Judges one flow from its READ on."""

    opened_by = "READ"
    ended_by = "UNBIND"

    def __init__(self, asked: Fields) -> None:
        self.is_over = False
        self._partition = number_of(asked, "partition")
        self._next, self._end = number_of(asked, "first"), number_of(asked, "end")
        self._columns = number_of(asked, "columns")
        self._credit = Credit(number_of(asked, "credit"))
        self._number = 0  # of the last chunk

    def answered(self, fields: Fields) -> None:
        """Judge the answer to READ."""
        expect(0 < number_of(fields, "chunk bytes") <= 8 << 20, "Reading in bulk", "READ is answered by {}", fields)

    def gateway_says(self, frame: Frame, fields: Fields) -> None:
        """Judge what comes on the flow. Raises WireViolation."""
        expect(frame.kind == "ROWS" and len(frame.body) >= _ROWS.size, "Reading in bulk", "{}", frame)
        body = frame.body
        number, first, following, readable, partition, rows, columns, gaps, flags, zeros = _ROWS.unpack_from(body)
        expect(number == self._number + 1, "Reading in bulk", "chunk {} behind {}", number, self._number)
        expect(number <= self._credit.limit, "Reading in bulk", "chunk {} of {}", number, self._credit.limit)
        expect(partition == self._partition and not any(zeros), "Reading in bulk", "{}", frame)
        expect(first == self._next, "Reading in bulk", "from {}, and {} was due", first, self._next)
        is_within = first <= following <= max(self._end, first)
        expect(is_within and flags <= _LAST, "Reading in bulk", "{} to {} of {}", first, following, self._end)
        at = _ROWS.size + _GAP.size * gaps
        covered, behind = rows, first
        for low, high, reason, _ in _GAP.iter_unpack(body[_ROWS.size : at]):
            is_gap = behind <= low < high <= following and reason <= _REASON_MAX
            expect(is_gap, "Reading in bulk", "a gap from {} to {} by {}, behind {}", low, high, reason, behind)
            covered, behind = covered + high - low, high
        expect(covered == following - first, "Reading in bulk", "{} of {} to {}", covered, first, following)
        expect(columns & ~self._columns == 0, "Columns", "{:#x} of {:#x}", columns, self._columns)
        expect(_judge_columns(body, at, rows, columns) == len(body), "Columns", "the end of {}", frame)
        self._number, self._next = number, following
        self.is_over = flags == _LAST
        is_through = following >= min(self._end, readable)
        expect(self.is_over == is_through, "Reading in bulk", "{} of {} and {}", following, self._end, readable)

    def client_says(self, frame: Frame) -> None:
        """Take the client's frame on the flow."""
        if frame.kind == "CREDIT":
            self._credit.client_says(frame.body[:8])


def _judge_columns(body: bytes, at: int, rows: int, columns: int) -> int:
    """Return where the columns end."""
    for bit in (1 << shift for shift in range(32)):
        if not columns & bit:
            continue
        if bit in _NUMBERS:
            _, at = _buffer(body, at, rows * _NUMBERS[bit])
        elif bit in _VALUES or bit in _OPTIONAL_VALUES:
            if bit in _OPTIONAL_VALUES:
                _, at = _buffer(body, at, (rows + 7) // 8)
            at = _values(body, at, rows)
        else:
            expect(bit == _MAP, "Columns", "column {:#x}", bit)
            offsets, at = _buffer(body, at, 4 * (rows + 1))
            entries = int.from_bytes(offsets[-4:], "little")
            at = _values(body, at, entries)
            _, at = _buffer(body, at, entries)
            at = _values(body, at, entries)
    return at


def _values(body: bytes, at: int, count: int) -> int:
    raw, at = _buffer(body, at, 4 * (count + 1))
    offsets = struct.unpack(f"<{count + 1}i", raw)
    expect(offsets[0] == 0 and list(offsets) == sorted(offsets), "Columns", "offsets {}", offsets)
    _, at = _buffer(body, at, offsets[-1])
    return at


def _buffer(body: bytes, at: int, size: int) -> tuple[bytes, int]:
    """Return a buffer, which has to have so many bytes, and where the next begins."""
    found = int.from_bytes(body[at : at + 8], "big")
    end = at + 8 + found
    expect(found == size and not any(body[end : end + -found % 8]), "Columns", "{} bytes, not {}", found, size)
    return body[at + 8 : end], end + -found % 8
