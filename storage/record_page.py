"""A page: a stretch of one partition's unsettled messages, read back in one piece.

Two sealed parts (`record_seal`), integers little-endian:

    SGD, version 2      the directory row
        u64 first sequence, u64 end (behind the last sequence), u64 payload bytes, u32 messages, u32 runs,
        i64 arrived_ms, i64 expires_ms, i64 not_before_ms, u32 priorities: its messaging.marks.Marks
    SGP, version 1      the runs, each
        u64 first sequence, then a batch, see `record`

Each run is a batch of consecutive sequences; runs ascend and may leave gaps, where messages were settled before the
page was written. The directory row is sealed on its own, so the store can keep a copy of it apart and know every
page of a large backlog without touching a payload. Version 1 of it ended before the marks, and is still read.
"""

import struct
from typing import Final, NamedTuple

from messaging.batch import MessageBatch
from messaging.marks import UNKNOWN_MARKS, Marks, marks_of, marks_together
from storage.errors import DamagedRecord
from storage.record import decode_batch, encode_batch
from storage.record_seal import SEAL_BYTES, seal, sealed_version, unseal

SUMMARY_KIND: Final = b"SGD"
PAGE_KIND: Final = b"SGP"
SUMMARY_FORMAT: Final = 2
SUMMARY_FORMAT_OLDEST: Final = 1
PAGE_FORMAT: Final = 1

_SUMMARY: Final = struct.Struct("<QQQII")
_MARKS: Final = struct.Struct("<qqqI")
_SUMMARY_BYTES: Final = {1: _SUMMARY.size, 2: _SUMMARY.size + _MARKS.size}
_U64: Final = struct.Struct("<Q")


class Run(NamedTuple):
    """Messages of one partition with consecutive sequences."""

    first_sequence: int
    batch: MessageBatch


class PageSummary(NamedTuple):
    """What the directory knows of a page."""

    first_sequence: int
    end_sequence: int  # behind the last one
    payload_bytes: int
    message_count: int  # end - first when there are no gaps
    run_count: int
    marks: Marks


def encode_page(runs: list[Run]) -> bytes:
    """Return the page's bytes. Raises ValueError without runs, or unless their sequences ascend."""
    if not runs:
        raise ValueError("a page without runs")
    parts: list[bytes] = []
    end = 0
    messages = 0
    payload_bytes = 0
    marks = marks_of(runs[0].batch)
    for first_sequence, batch in runs:
        if first_sequence < end:
            raise ValueError(f"a run from sequence {first_sequence} behind one that ends at {end}")
        end = first_sequence + batch.count
        messages += batch.count
        payload_bytes += batch.payload_bytes
        marks = marks_together(marks, marks_of(batch))
        parts.append(_U64.pack(first_sequence))
        parts.append(encode_batch(batch))
    summary = _SUMMARY.pack(runs[0].first_sequence, end, payload_bytes, messages, len(runs)) + _MARKS.pack(*marks)
    return seal(SUMMARY_KIND, SUMMARY_FORMAT, summary) + seal(PAGE_KIND, PAGE_FORMAT, b"".join(parts))


def decode_page_summary(data: bytes, where: str = "page") -> PageSummary:
    """Return what the directory row at the beginning of `data`, a page or a copy of its row, says."""
    _summary_end(data, where)
    fields: tuple[int, int, int, int, int] = _SUMMARY.unpack_from(data, SEAL_BYTES)
    marks = UNKNOWN_MARKS
    if sealed_version(data, 0) > 1:
        marks = Marks(*_MARKS.unpack_from(data, SEAL_BYTES + _SUMMARY.size))
    first_sequence, end_sequence, payload_bytes, message_count, run_count = fields
    return PageSummary(first_sequence, end_sequence, payload_bytes, message_count, run_count, marks)


def directory_row(page: bytes, where: str = "page") -> bytes:
    """Return the directory row of a page, to be kept apart. Raises DamagedRecord and UnsupportedFormat."""
    return page[: _summary_end(page, where)]


def _summary_end(data: bytes, where: str) -> int:
    end = unseal(data, 0, SUMMARY_KIND, SUMMARY_FORMAT, where, oldest=SUMMARY_FORMAT_OLDEST)
    expected = SEAL_BYTES + _SUMMARY_BYTES[sealed_version(data, 0)]
    if end != expected:
        raise DamagedRecord(where, f"a directory row of {end} bytes instead of {expected}")
    return end


def decode_page(data: bytes, where: str = "page") -> list[Run]:
    """Return the page's runs in order. Raises DamagedRecord and UnsupportedFormat."""
    summary = decode_page_summary(data, where)
    start = _summary_end(data, where)
    end = unseal(data, start, PAGE_KIND, PAGE_FORMAT, where)
    if end != len(data):
        raise DamagedRecord(where, f"{len(data) - end} bytes follow its end")
    try:
        runs = _decode_runs(data, start + SEAL_BYTES, summary.run_count, where)
    except struct.error as error:
        raise DamagedRecord(where, f"its runs cannot be read: {error}") from error
    _check_runs(runs, summary, where)
    return runs


def _decode_runs(data: bytes, offset: int, run_count: int, where: str) -> list[Run]:
    runs: list[Run] = []
    for _ in range(run_count):
        first_sequence: int = _U64.unpack_from(data, offset)[0]
        batch, offset = decode_batch(data, offset + 8, where)
        runs.append(Run(first_sequence, batch))
    if offset != len(data):
        raise DamagedRecord(where, f"{len(data) - offset} bytes follow its last run")
    return runs


def _check_runs(runs: list[Run], summary: PageSummary, where: str) -> None:
    end = summary.first_sequence
    messages = 0
    for first_sequence, batch in runs:
        if first_sequence < end:
            raise DamagedRecord(where, f"a run from sequence {first_sequence} behind one that ends at {end}")
        end = first_sequence + batch.count
        messages += batch.count
    if end != summary.end_sequence or messages != summary.message_count:
        raise DamagedRecord(where, f"{messages} messages up to {end}, its directory row says {summary}")
