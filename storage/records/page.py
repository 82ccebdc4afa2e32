"""A page: a range of one partition's unsettled messages, read back in one piece.

Two sealed parts (`seal`), integers little-endian:

    SGD, version 3      the directory row
        u64 first sequence, u64 end (behind the last sequence), u64 usage bytes, u32 messages, u32 runs,
        i64 arrived_ms, i64 expires_ms, i64 not_before_ms, u32 priorities: its messaging.partitions.state.segments.Marks
    SGP, version 2      the runs
        u64[] first sequences, then a batch for each, see `batches`

Each run is a batch of consecutive sequences. Runs ascend, with gaps where messages were settled before the page was
written. The directory row has its own seal, so the store can keep a separate copy of it, and list every page of a large
backlog without reading a payload.

Version 1 of the directory row ended before the marks. In version 1 of the runs each batch followed its first sequence,
without its own checksum. Both are still read.
"""

import struct
from typing import Final, NamedTuple

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.usage import STORED_MESSAGE_BYTES
from sluicegate.messaging.partitions.state.segments import UNKNOWN_MARKS, Marks, marks_of, marks_together
from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.records.batch import column_bytes, encode_batch, take_column
from sluicegate.storage.records.batches import (
    BatchRead,
    BatchSpan,
    Losses,
    put_batches,
    take_batch,
    take_batches,
    take_spans,
)
from sluicegate.storage.records.seal import SEAL_BYTES, is_sealed_as, seal, sealed_version, unseal

SUMMARY_KIND: Final = b"SGD"
PAGE_KIND: Final = b"SGP"
SUMMARY_FORMAT: Final = 3  # up to 2, payload bytes in place of usage bytes
SUMMARY_FORMAT_OLDEST: Final = 1
PAGE_FORMAT: Final = 2
PAGE_FORMAT_OLDEST: Final = 1

_SUMMARY: Final = struct.Struct("<QQQII")
_MARKS: Final = struct.Struct("<qqqI")
_SUMMARY_BYTES: Final = {
    1: _SUMMARY.size,
    2: _SUMMARY.size + _MARKS.size,
    3: _SUMMARY.size + _MARKS.size,
}
_U64: Final = struct.Struct("<Q")


class Run(NamedTuple):
    """Messages of one partition with consecutive sequences."""

    first_sequence: int
    batch: MessageBatch


class PageRuns(NamedTuple):
    """The readable part of a page: at least one run."""

    runs: list[Run]
    lost: str = ""  # describes the unreadable part; empty for a whole page


class PageSummary(NamedTuple):
    """The directory's summary of a page."""

    first_sequence: int
    end_sequence: int  # behind the last one
    usage_bytes: int  # the messages' share in quotas; approximate when an earlier release wrote the page
    message_count: int  # end - first when there are no gaps
    run_count: int
    marks: Marks


def encode_page(runs: list[Run]) -> bytes:
    """Return the page's bytes. Raises ValueError without runs, or unless their sequences ascend."""
    if not runs:
        raise ValueError("a page without runs")
    batches: list[bytes] = []
    end = 0
    messages = 0
    usage_bytes = 0
    marks = marks_of(runs[0].batch)
    for first_sequence, batch in runs:
        if first_sequence < end:
            raise ValueError(f"a run from sequence {first_sequence} behind one that ends at {end}")
        end = first_sequence + batch.count
        messages += batch.count
        usage_bytes += batch.usage_bytes(durable=True)
        marks = marks_together(marks, marks_of(batch))
        batches.append(encode_batch(batch))
    content = put_batches(column_bytes("Q", [first for first, _ in runs]), batches)
    summary = _SUMMARY.pack(runs[0].first_sequence, end, usage_bytes, messages, len(runs)) + _MARKS.pack(*marks)
    return seal(SUMMARY_KIND, SUMMARY_FORMAT, summary) + seal(PAGE_KIND, PAGE_FORMAT, b"".join(content))


def decode_page_summary(data: bytes, where: str = "page") -> PageSummary:
    """Return the summary in the directory row at the beginning of `data`, a page or a copy of its row."""
    _summary_end(data, where)
    fields: tuple[int, int, int, int, int] = _SUMMARY.unpack_from(data, SEAL_BYTES)
    marks = UNKNOWN_MARKS
    if sealed_version(data, 0) > 1:
        marks = Marks(*_MARKS.unpack_from(data, SEAL_BYTES + _SUMMARY.size))
    first_sequence, end_sequence, usage_bytes, message_count, run_count = fields
    if sealed_version(data, 0) < 3:
        usage_bytes += STORED_MESSAGE_BYTES * message_count  # topics and headers it does not say
    return PageSummary(first_sequence, end_sequence, usage_bytes, message_count, run_count, marks)


def directory_row(page: bytes, where: str = "page") -> bytes:
    """Return the directory row of a page, for a separate copy. Raises DamagedRecord and UnsupportedFormat."""
    return page[: _summary_end(page, where)]


def _summary_end(data: bytes, where: str) -> int:
    end = unseal(data, 0, SUMMARY_KIND, SUMMARY_FORMAT, where, oldest=SUMMARY_FORMAT_OLDEST)
    expected = SEAL_BYTES + _SUMMARY_BYTES[sealed_version(data, 0)]
    if end != expected:
        raise DamagedRecord(where, f"a directory row of {end} bytes instead of {expected}")
    return end


def decode_page(data: bytes, where: str = "page") -> PageRuns:
    """Return the readable part of the page. Raises DamagedRecord when there is none, and UnsupportedFormat."""
    summary = decode_page_summary(data, where)
    start = _summary_end(data, where)
    is_sealed = True
    try:
        end = unseal(data, start, PAGE_KIND, PAGE_FORMAT, where, oldest=PAGE_FORMAT_OLDEST)
        if end != len(data):
            raise DamagedRecord(where, f"{len(data) - end} bytes follow its end")
    except DamagedRecord:
        if not is_sealed_as(data[start:], PAGE_KIND, PAGE_FORMAT):
            raise
        is_sealed = False
    try:
        if sealed_version(data, start) == 1:
            return _decode_version_1(data, start + SEAL_BYTES, summary, where)
        return _decode_runs(data, start + SEAL_BYTES, summary, where, is_sealed=is_sealed)
    except (IndexError, ValueError, OverflowError, struct.error) as error:
        raise DamagedRecord(where, f"its runs cannot be read: {error}") from error


def run_spans(page: bytes) -> tuple[list[int], list[BatchSpan]]:
    """Return the first sequences of the runs of a sound page of this release, and the places of their batches."""
    count = decode_page_summary(page).run_count
    start = _summary_end(page, "page") + SEAL_BYTES
    return take_column("Q", page, start, count), take_spans(page, start, start + _U64.size * count, count, "page")


def _decode_runs(data: bytes, start: int, summary: PageSummary, where: str, *, is_sealed: bool) -> PageRuns:
    firsts = take_column("Q", data, start, summary.run_count)
    offset = start + _U64.size * summary.run_count
    losses = Losses()
    batches = take_batches(data, start, offset, summary.run_count, where, losses, is_sealed=is_sealed)
    return _readable(firsts, batches, summary, losses, where, is_sealed=is_sealed)


def _decode_version_1(data: bytes, offset: int, summary: PageSummary, where: str) -> PageRuns:
    losses = Losses()
    firsts: list[int] = []
    batches: list[BatchRead] = []
    for _ in range(summary.run_count):
        first_sequence: int = _U64.unpack_from(data, offset)[0]
        read, offset = take_batch(data, offset + 8, where, losses)
        firsts.append(first_sequence)
        batches.append(read)
    if offset != len(data):
        raise DamagedRecord(where, f"{len(data) - offset} bytes follow its last run")
    return _readable(firsts, batches, summary, losses, where, is_sealed=True)


def _readable(
    firsts: list[int], batches: list[BatchRead], summary: PageSummary, losses: Losses, where: str, *, is_sealed: bool
) -> PageRuns:
    """Return the readable runs. Raises DamagedRecord when there are none, or they are inconsistent."""
    runs = [Run(first, read.batch) for first, read in zip(firsts, batches, strict=True) if read.batch is not None]
    lost = losses.description(summary.run_count, is_sealed=is_sealed)
    if not runs:
        raise DamagedRecord(where, lost)
    _check_runs(runs, summary, where, lacks=len(runs) < summary.run_count or losses.half_count > 0)
    return PageRuns(runs, lost)


def _check_runs(runs: list[Run], summary: PageSummary, where: str, *, lacks: bool) -> None:
    """Compare the runs with the directory row; `lacks`: some of its messages are known to be missing."""
    end = summary.first_sequence
    messages = 0
    for first_sequence, batch in runs:
        if first_sequence < end:
            raise DamagedRecord(where, f"a run from sequence {first_sequence} behind one that ends at {end}")
        end = first_sequence + batch.count
        messages += batch.count
    is_right = end <= summary.end_sequence if lacks else end == summary.end_sequence
    if not is_right or (messages != summary.message_count and not lacks):
        raise DamagedRecord(where, f"{messages} messages up to {end}, its directory row says {summary}")
