"""A page: a stretch of one partition's unsettled messages, read back in one piece.

Two sealed parts (`record_seal`), integers little-endian:

    SGD, version 1      the directory row, PAGE_SUMMARY_BYTES long with its seal
        u64 first sequence, u64 end (behind the last sequence), u64 payload bytes, u32 messages, u32 runs
    SGP, version 1      the runs, each
        u64 first sequence, then a batch, see `record`

Each run is a batch of consecutive sequences; runs ascend and may leave gaps, where messages were settled before the
page was written. The directory row is sealed on its own, so the store can keep a copy of it apart and know every
page of a large backlog without touching a payload.
"""

import struct
from typing import Final, NamedTuple

from messaging.batch import MessageBatch
from storage.errors import DamagedRecord
from storage.record import decode_batch, encode_batch
from storage.record_seal import SEAL_BYTES, seal, unseal

SUMMARY_KIND: Final = b"SGD"
PAGE_KIND: Final = b"SGP"
PAGE_FORMAT: Final = 1
PAGE_SUMMARY_BYTES: Final = 48  # seal and content of the directory row

_SUMMARY: Final = struct.Struct("<QQQII")
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


def encode_page(runs: list[Run]) -> bytes:
    """Return the page's bytes. Raises ValueError without runs, or unless their sequences ascend."""
    if not runs:
        raise ValueError("a page without runs")
    parts: list[bytes] = []
    end = 0
    messages = 0
    payload_bytes = 0
    for first_sequence, batch in runs:
        if first_sequence < end:
            raise ValueError(f"a run from sequence {first_sequence} behind one that ends at {end}")
        end = first_sequence + batch.count
        messages += batch.count
        payload_bytes += batch.payload_bytes
        parts.append(_U64.pack(first_sequence))
        parts.append(encode_batch(batch))
    summary = _SUMMARY.pack(runs[0].first_sequence, end, payload_bytes, messages, len(runs))
    return seal(SUMMARY_KIND, PAGE_FORMAT, summary) + seal(PAGE_KIND, PAGE_FORMAT, b"".join(parts))


def decode_page_summary(data: bytes, where: str = "page") -> PageSummary:
    """Return the directory row at the beginning of `data`, a page or a copy of its row."""
    end = unseal(data, 0, SUMMARY_KIND, PAGE_FORMAT, where)
    if end != PAGE_SUMMARY_BYTES:
        raise DamagedRecord(where, f"a directory row of {end} bytes instead of {PAGE_SUMMARY_BYTES}")
    fields: tuple[int, int, int, int, int] = _SUMMARY.unpack_from(data, SEAL_BYTES)
    first_sequence, end_sequence, payload_bytes, message_count, run_count = fields
    return PageSummary(first_sequence, end_sequence, payload_bytes, message_count, run_count)


def decode_page(data: bytes, where: str = "page") -> list[Run]:
    """Return the page's runs in order. Raises DamagedRecord and UnsupportedFormat."""
    summary = decode_page_summary(data, where)
    end = unseal(data, PAGE_SUMMARY_BYTES, PAGE_KIND, PAGE_FORMAT, where)
    if end != len(data):
        raise DamagedRecord(where, f"{len(data) - end} bytes follow its end")
    try:
        runs = _decode_runs(data, summary.run_count, where)
    except struct.error as error:
        raise DamagedRecord(where, f"its runs cannot be read: {error}") from error
    _check_runs(runs, summary, where)
    return runs


def _decode_runs(data: bytes, run_count: int, where: str) -> list[Run]:
    runs: list[Run] = []
    offset = PAGE_SUMMARY_BYTES + SEAL_BYTES
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
