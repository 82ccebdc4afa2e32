"""The form of log records and segments: golden bytes, encoding and decoding, and what is readable after damage."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.storage.catalog.copied_log import sealed_entry
from sluicegate.storage.environment.identity import POSITIONS_FORMAT, POSITIONS_KIND
from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.interface import CommitJob, LogEntry, PageWrite, Reservation, Table, TableWrite
from sluicegate.storage.log.record import LogRecord, RowWrite, decode_log_record, encode_log_record, record_of
from sluicegate.storage.log.segment import (
    Frame,
    SegmentHeader,
    decode_header,
    encode_header,
    frame_pieces,
    frames_of,
    salt_of,
)
from sluicegate.storage.records.journal import JournalEntry, Match, Settlement, encode_journal_record
from sluicegate.storage.records.page import encode_page
from sluicegate.storage.records.seal import seal
from sluicegate.storage.records.table import encode_row, stored_key
from support.storage.sample_records import (
    SEQUENCE_MAX,
    U32_MAX,
    batch,
    entries,
    page_bytes,
    page_runs,
    settlements,
)

GOLDEN = Path(__file__).parents[3] / "data" / "storage"
INCARNATION = 0x0123_4567_89AB_CDEF

FULL = CommitJob(
    number=17,
    record=encode_journal_record([JournalEntry(batch(2), [Match(1, 10, None)])], [Settlement(1, 3, 9)]),
    staged_pages=[PageWrite(9, page_bytes(500))],
    reservations=[Reservation(1, 10, 1 << 20), Reservation(300, 0, 1 << 40)],
    table_writes=[
        TableWrite(Table.CATALOG, b"queue/q", b"{}"),
        TableWrite(Table.OWNERS, b"partition/1", b"{}"),
        TableWrite(Table.RETAINED, b"plant/7/state", b"on"),
        TableWrite(Table.SESSIONS, b"device", b"1"),
        TableWrite(Table.READERS, b"q/spark", b"2"),
        TableWrite(Table.TRANSACTIONS, b"name/job", b"3"),
        TableWrite(Table.RETAINED, b"t" * 600, None),
    ],
    partition_purges=[2, 70_000],
)
SETTLES = CommitJob(number=18, record=encode_journal_record([], [Settlement(1, 9, 10)]))
POSITIONS = (17).to_bytes(8, "little") + (12).to_bytes(8, "little")

WRITTEN: dict[str, bytes] = {
    "log_record_v1": encode_log_record(record_of(FULL)),
    "log_record_v1_settlement": encode_log_record(record_of(SETTLES)),
    "log_record_v1_nothing": encode_log_record(LogRecord()),
    "log_segment_header_v1": encode_header(SegmentHeader(INCARNATION, 3, 16)),
    "log_frame_v1": b"".join(frame_pieces(18, [encode_log_record(record_of(SETTLES))], salt_of(INCARNATION, 3))),
    "log_positions_v1": seal(POSITIONS_KIND, POSITIONS_FORMAT, POSITIONS),
    "log_copied_record_v1": sealed_entry(LogEntry(18, encode_log_record(record_of(SETTLES)), is_sound=True)),
}


def golden(name: str) -> bytes:
    """Return the bytes of a case."""
    lines = (GOLDEN / f"{name}.hex").read_text(encoding="utf-8").splitlines()
    return bytes.fromhex("".join(line.partition("#")[0] for line in lines))


@pytest.mark.parametrize("name", WRITTEN)
def test_this_release_writes_the_golden_bytes(name: str) -> None:
    """What one release wrote, every later one must read. Other bytes need another version."""
    assert WRITTEN[name] == golden(name)


@pytest.mark.parametrize(
    ("name", "job"), [("log_record_v1", FULL), ("log_record_v1_settlement", SETTLES)], ids=["full", "settlement"]
)
def test_golden_log_records_are_read(name: str, job: CommitJob) -> None:
    """The deleted rows come first."""
    found = decode_log_record(golden(name), "log record 17", is_sound=True)

    expected = record_of(job)
    expected.rows.sort(key=lambda row: row.data is not None)
    assert found == expected


def test_golden_segments_are_read() -> None:
    header = decode_header(golden("log_segment_header_v1"), "segment")
    assert header == SegmentHeader(INCARNATION, 3, 16)
    frame = golden("log_frame_v1")
    data = golden("log_segment_header_v1") + frame
    (found,) = frames_of(data, salt_of(header.incarnation, header.segment), header.after)
    assert found == Frame(18, 96, len(golden("log_record_v1_settlement")), is_sound=True)
    assert data[found.start : found.start + found.size] == golden("log_record_v1_settlement")


rows = st.builds(
    lambda table, key, value: RowWrite(table, stored_key(key), None if value is None else encode_row(key, value)),
    st.sampled_from(list(Table)),
    st.binary(min_size=1, max_size=20) | st.just(b"k" * 700),
    st.none() | st.binary(max_size=30),
)
log_records = st.builds(
    LogRecord,
    st.none() | st.builds(encode_journal_record, st.lists(entries(), max_size=2), st.lists(settlements, max_size=3)),
    st.lists(st.builds(PageWrite, st.integers(0, U32_MAX), page_runs().map(encode_page)), max_size=2),
    st.lists(
        st.builds(Reservation, st.integers(0, U32_MAX), st.integers(0, SEQUENCE_MAX), st.integers(0, SEQUENCE_MAX)),
        max_size=3,
    ),
    st.lists(rows, max_size=4, unique_by=lambda row: (row.table, row.key)).map(
        lambda drawn: sorted(drawn, key=lambda row: row.data is not None)
    ),
    st.lists(st.integers(0, U32_MAX), max_size=3),
)


@given(log_records)
def test_a_log_record_that_is_encoded_and_decoded_is_the_same(record: LogRecord) -> None:
    assert decode_log_record(encode_log_record(record), "log record 1", is_sound=True) == record


@given(log_records, st.data())
def test_of_a_record_with_a_flipped_bit_only_sound_parts_are_read(record: LogRecord, data: st.DataObject) -> None:
    """Nothing is read that was not written. The checksum around the record says that it is damaged."""
    encoded = bytearray(encode_log_record(record))
    bit = data.draw(st.integers(0, 8 * len(encoded) - 1))
    encoded[bit // 8] ^= 1 << bit % 8
    try:
        found = decode_log_record(bytes(encoded), "log record 1", is_sound=False)
    except (DamagedRecord, UnsupportedFormat):
        return
    assert all(row in record.rows for row in found.rows)
    assert all(page.partition_id in [each.partition_id for each in record.staged_pages] for page in found.staged_pages)
    assert len(found.rows) >= len(record.rows) - 1
    assert len(found.staged_pages) >= len(record.staged_pages) - 1
    assert (found.reservations, found.partition_purges) == (record.reservations, record.partition_purges)


@given(log_records, st.data())
def test_a_record_that_is_cut_off_is_never_read_past_its_end(record: LogRecord, data: st.DataObject) -> None:
    encoded = encode_log_record(record)
    kept = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(DamagedRecord):
        decode_log_record(encoded[:kept], "log record 1", is_sound=False)


def test_a_sound_record_of_another_release_is_refused_and_a_damaged_version_is_not() -> None:
    other = b"\x02" + encode_log_record(LogRecord())[1:]
    with pytest.raises(UnsupportedFormat, match="log record 1 has format 2; this release reads format 1"):
        decode_log_record(other, "log record 1", is_sound=True)
    with pytest.raises(DamagedRecord):
        decode_log_record(other, "log record 1", is_sound=False)


def test_of_several_writes_of_a_row_a_record_has_the_last_one() -> None:
    """Deletions come first in the bytes: a row that was put and then deleted would come back."""
    key = TableWrite(Table.RETAINED, b"t", b"1")
    job = CommitJob(number=1, table_writes=[key, key._replace(value=None)])
    assert record_of(job).rows == [RowWrite(Table.RETAINED, b"t", None)]
    job = CommitJob(number=1, table_writes=[key._replace(value=None), key, key._replace(value=b"2")])
    assert record_of(job).rows == [RowWrite(Table.RETAINED, b"t", encode_row(b"t", b"2"))]
