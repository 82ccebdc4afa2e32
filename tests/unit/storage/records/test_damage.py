"""Whole records: read back as written, and no damage goes unnoticed."""

from collections.abc import Callable
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.partitions.state.segments import marks_of, marks_together
from sluicegate.storage.errors import DamagedRecord, StorageError, UnsupportedFormat
from sluicegate.storage.records.cursor import CursorRecord, decode_cursor, encode_cursor
from sluicegate.storage.records.journal import (
    JournalEntry,
    JournalRecord,
    Match,
    Settlement,
    decode_journal_record,
    decode_journal_summary,
    encode_journal_record,
    summary_of,
)
from sluicegate.storage.records.page import (
    PageRuns,
    PageSummary,
    Run,
    decode_page,
    decode_page_summary,
    directory_row,
    encode_page,
)
from sluicegate.storage.records.seal import SEAL_BYTES, seal
from sluicegate.storage.records.table import decode_row, encode_row, stored_key
from support.storage.sample_records import attributes_of, batch, cursors, entries, page_runs, rows_of, settlements

SAMPLES: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "journal": (
        encode_journal_record([JournalEntry(batch(), [Match(1, 5, None), Match(2, 9, [0, 2])])], [Settlement(1, 0, 5)]),
        decode_journal_record,
    ),
    "journal summary": (
        encode_journal_record([JournalEntry(batch(), [Match(1, 5, None), Match(2, 9, [0, 2])])], [Settlement(1, 0, 5)]),
        lambda data: decode_journal_summary(data, "record"),
    ),
    "page": (encode_page([Run(5, batch()), Run(10, batch(1))]), decode_page),
    "cursor": (encode_cursor(CursorRecord(1, 5, [(7, 9)], 20, [(5, 7, 2)], ((6, 9, -1),))), decode_cursor),
    "row": (encode_row(b"a/b", b"value"), decode_row),
}


@given(written=st.lists(entries(), max_size=3), settled=st.lists(settlements, max_size=4))
def test_a_journal_record_is_read_back_as_it_was(written: list[JournalEntry], settled: list[Settlement]) -> None:
    """Journal: every message of the commit once, its matches, and the settlements."""
    found = decode_journal_record(encode_journal_record(written, settled))

    assert found.settlements == settled
    assert [entry.matches for entry in found.entries] == [entry.matches for entry in written]
    assert [rows_of(entry.batch) for entry in found.entries] == [rows_of(entry.batch) for entry in written]
    assert [attributes_of(entry.batch) for entry in found.entries] == [attributes_of(entry.batch) for entry in written]


@given(written=st.lists(entries(), max_size=3), settled=st.lists(settlements, max_size=4))
def test_the_summary_of_a_journal_record_is_that_of_what_is_read_of_it(
    written: list[JournalEntry], settled: list[Settlement]
) -> None:
    data = encode_journal_record(written, settled)

    assert decode_journal_summary(data, "record") == summary_of(decode_journal_record(data))


@given(written=page_runs())
def test_a_page_is_read_back_as_it_was(written: list[Run]) -> None:
    """Pages."""
    found = decode_page(encode_page(written)).runs

    assert [run.first_sequence for run in found] == [run.first_sequence for run in written]
    assert [rows_of(run.batch) for run in found] == [rows_of(run.batch) for run in written]


@given(written=page_runs())
def test_the_front_of_a_page_tells_what_is_in_it(written: list[Run]) -> None:
    """Recovery time grows with pages, not messages, so the directory row stands on its own."""
    summary = decode_page_summary(directory_row(encode_page(written)))

    assert summary == PageSummary(
        first_sequence=written[0].first_sequence,
        end_sequence=written[-1].first_sequence + written[-1].batch.count,
        usage_bytes=sum(run.batch.usage_bytes(durable=True) for run in written),
        message_count=sum(run.batch.count for run in written),
        run_count=len(written),
        marks=reduce(marks_together, [marks_of(run.batch) for run in written]),
    )


@given(written=cursors())
def test_a_cursor_is_read_back_as_it_was(written: CursorRecord) -> None:
    """Cursors: settled floor plus exceptions."""
    assert decode_cursor(encode_cursor(written)) == written


@given(key=st.binary(min_size=1, max_size=2000), value=st.binary(max_size=50))
def test_a_table_row_is_read_back_and_its_stored_key_fits_lmdb(key: bytes, value: bytes) -> None:
    """A retained topic has up to 65535 bytes, an LMDB key 511."""
    assert decode_row(encode_row(key, value)) == (key, value)
    assert len(stored_key(key)) <= 511


def test_long_keys_with_the_same_beginning_are_stored_apart() -> None:
    """What does not fit into a key is in its digest."""
    assert stored_key(b"k" * 600 + b"1") != stored_key(b"k" * 600 + b"2")


@pytest.mark.parametrize("name", SAMPLES)
def test_every_flipped_byte_is_noticed(name: str) -> None:
    """A checksum guards every record. Damage is never mistaken for a newer release's format."""
    data, decode = SAMPLES[name]
    for position in range(len(data)):
        for pattern in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[position] ^= pattern
            try:
                found = decode(bytes(damaged))
            except DamagedRecord:
                continue
            assert isinstance(found, JournalRecord | PageRuns)
            assert found.lost, f"byte {position} of {name} was changed by {pattern:#x}"


@pytest.mark.parametrize("name", SAMPLES)
def test_every_truncation_and_every_excess_is_noticed(name: str) -> None:
    """A torn record is reported."""
    data, decode = SAMPLES[name]
    for length in range(len(data)):
        with pytest.raises(DamagedRecord):
            decode(data[:length])
    with pytest.raises(DamagedRecord):
        decode(data + b"\x00")


@pytest.mark.parametrize("name", SAMPLES)
@given(content=st.binary(max_size=60))
def test_a_sound_seal_around_nonsense_gives_a_storage_error_and_nothing_else(name: str, content: bytes) -> None:
    """Fuzz: a record that was written wrong is damaged too."""
    data, decode = SAMPLES[name]
    front = directory_row(data) if name == "page" else b""
    kind = data[len(front) : len(front) + 3]
    try:
        decode(front + seal(kind, 1, content))
    except StorageError:
        return
    assert name in {"cursor", "row", "journal"}  # short enough to be drawn by chance


@pytest.mark.parametrize("name", SAMPLES)
def test_an_intact_record_of_another_release_is_refused_with_both_versions(name: str) -> None:
    """An old spool opens in a new release or is refused with a clear message."""
    data, decode = SAMPLES[name]
    newest = data[3]
    newer = seal(data[:3], newest + 1, data[SEAL_BYTES:])

    with pytest.raises(UnsupportedFormat) as refusal:
        decode(newer)

    assert (refusal.value.found, refusal.value.supported) == (newest + 1, newest)


@pytest.mark.parametrize("rows", [[], [3], [0, 17]])
def test_a_match_must_select_rows_that_exist(rows: list[int]) -> None:
    """The row at position i has the sequence first + i: a row too many would be a message nobody published."""
    with pytest.raises(ValueError, match="a match of partition 1"):
        encode_journal_record([JournalEntry(batch(3), [Match(1, 0, rows)])], [])


def test_runs_of_a_page_must_ascend() -> None:
    """Sequences are never reused."""
    with pytest.raises(ValueError, match="behind one that ends at 8"):
        encode_page([Run(5, batch(3)), Run(7, batch(3))])


@pytest.mark.parametrize("settled", [[(4, 6)], [(6, 6)], [(6, 9), (8, 10)]])
def test_ranges_of_a_cursor_must_ascend_from_its_floor(settled: list[tuple[int, int]]) -> None:
    """The floor and the exceptions above it say everything once."""
    with pytest.raises(ValueError, match="must follow"):
        encode_cursor(CursorRecord(1, 5, settled, 20, []))
