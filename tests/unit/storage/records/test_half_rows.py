"""Records that lost something serve the rest: damaged batches, and half messages that earlier versions could write."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.errors import DamagedRecord
from sluicegate.storage.interface import CommitJob, PageDamage, PageKey, PageWrite
from sluicegate.storage.log.record import LogRecord, encode_log_record
from sluicegate.storage.records.batch import decode_batch, encode_batch
from sluicegate.storage.records.batches import put_batches
from sluicegate.storage.records.journal import (
    JournalEntry,
    JournalRecord,
    Match,
    decode_journal_record,
    encode_journal_record,
)
from sluicegate.storage.records.page import Run, decode_page, directory_row, encode_page
from sluicegate.storage.records.seal import SEAL_BYTES, seal
from sluicegate.storage.store.store import SpoolStore
from support.storage.half_records import half, page_of_version_1, record_of_version_1
from support.storage.sample_records import batch, rows_of
from support.storage.store_work import checkpoint

MAP_BYTES = 1 << 26


def test_a_batch_with_a_half_message_is_damaged_where_all_of_it_is_wanted() -> None:
    with pytest.raises(DamagedRecord, match="1 messages without headers"):
        decode_batch(encode_batch(half(3)), 0)


def test_a_half_message_in_a_journal_record_costs_no_other_message() -> None:
    """Its sequence is left out of every partition that it went to."""
    before, broken, after = batch(2), half(3), batch(4)
    matches = [Match(1, 10, None), Match(2, 20, [0, 2]), Match(3, 30, [2])]
    data = record_of_version_1(
        [
            JournalEntry(before, [Match(1, 8, None)]),
            JournalEntry(broken, matches),
            JournalEntry(after, [Match(1, 13, None)]),
        ]
    )
    found = decode_journal_record(data)

    assert [rows_of(entry.batch) for entry in found.entries] == [
        rows_of(before),
        rows_of(batch(2, headers=[Headers(partition_key="k0"), Headers(partition_key="k1")])),
        rows_of(after),
    ]
    assert found.entries[1].matches == [Match(1, 10, None), Match(2, 20, [0])]
    assert "half of 1 messages" in found.lost


def test_a_half_message_in_a_page_costs_no_other_message() -> None:
    found = decode_page(page_of_version_1(5, half(3), Run(9, batch(2))))

    assert [(run.first_sequence, run.batch.count) for run in found.runs] == [(5, 2), (9, 2)]
    assert "half of 1 messages" in found.lost


def undecodable(made: MessageBatch) -> bytes:
    """Return a batch with a flag that nobody knows, as only a mistake of ours would write it."""
    data = bytearray(encode_batch(made))
    data[1] |= 0x80
    return bytes(data)


def with_undecodable_headers(key: str) -> bytes:
    """Return three messages, of which the headers row of the second has a key that begins with a wrong length."""
    column: list[Headers | None] = [Headers(partition_key=each) for each in ("a", key, "c")]
    data = encode_batch(batch(3, headers=column))
    at = data.rindex(bytes([len(key)]) + key.encode())
    return data[:at] + b"\xff" * 11 + data[at + 11 :]


def version_1_of(pieces: list[bytes]) -> bytes:
    """Return a journal record of earlier versions with these batches, in partitions of 0, 1, 2."""
    content = [struct.pack("<II", len(pieces), 0)]
    for number, piece in enumerate(pieces):
        content += [struct.pack("<IIQI", 1, number, 7, 0xFFFF_FFFF), piece]
    return seal(b"SGJ", 1, b"".join(content))


def version_2_of(pieces: list[bytes]) -> bytes:
    head = [struct.pack("<II", len(pieces), 0)]
    head += [struct.pack("<IIQI", 1, number, 7, 0xFFFF_FFFF) for number in range(len(pieces))]
    return seal(b"SGJ", 2, b"".join(put_batches(b"".join(head), pieces)))


@pytest.mark.parametrize("record_of", [version_1_of, version_2_of])
def test_a_batch_that_cannot_be_decoded_is_lost_alone(record_of: Callable[[list[bytes]], bytes]) -> None:
    """Its record is as it was written."""
    whole = batch(2)
    found = decode_journal_record(record_of([encode_batch(whole), undecodable(batch(4)), encode_batch(whole)]))

    assert [(entry.matches[0].partition_id, entry.batch.count) for entry in found.entries] == [(0, 2), (2, 2)]
    assert found.lost == "1 of 3 batches cannot be decoded"


@pytest.mark.parametrize("record_of", [version_1_of, version_2_of])
def test_messages_before_one_that_cannot_be_decoded_are_served(record_of: Callable[[list[bytes]], bytes]) -> None:
    found = decode_journal_record(record_of([with_undecodable_headers("b" * 30), encode_batch(batch(2))]))

    assert [entry.batch.count for entry in found.entries] == [1, 2]
    assert found.entries[0].batch.headers() == [Headers(partition_key="a")]
    assert found.lost == "it holds half of 2 messages, whose headers cannot be read"


def test_a_run_that_cannot_be_decoded_is_lost_alone() -> None:
    row = directory_row(encode_page([Run(5, batch(3)), Run(9, batch(2))]))
    runs = struct.pack("<Q", 5) + undecodable(batch(3)) + struct.pack("<Q", 9) + encode_batch(batch(2))
    found = decode_page(row + seal(b"SGP", 1, runs))

    assert [(run.first_sequence, run.batch.count) for run in found.runs] == [(9, 2)]
    assert found.lost == "1 of 2 batches cannot be decoded"


@pytest.mark.parametrize("victim", range(3))
def test_a_damaged_batch_of_a_journal_record_is_lost_alone(victim: int) -> None:
    entries = [
        JournalEntry(batch(2, payload=bytes([65 + number]) * 50), [Match(number, 7, None)]) for number in range(3)
    ]
    data = bytearray(encode_journal_record(entries, []))
    data[data.index(bytes([65 + victim]) * 50) + 20] ^= 4

    found = decode_journal_record(bytes(data))

    assert [rows_of(entry.batch) for entry in found.entries] == [
        rows_of(entry.batch) for number, entry in enumerate(entries) if number != victim
    ]
    assert found.lost == "the checksums of 1 of 3 batches do not match"


def test_a_damaged_run_of_a_page_is_lost_alone() -> None:
    runs = [Run(10 * number, batch(2, payload=bytes([65 + number]) * 50)) for number in range(3)]
    data = bytearray(encode_page(runs))
    data[data.index(b"B" * 50) + 3] ^= 1

    found = decode_page(bytes(data))

    assert [run.first_sequence for run in found.runs] == [0, 20]
    assert found.lost == "the checksums of 1 of 3 batches do not match"


def test_a_record_whose_seal_alone_is_damaged_loses_nothing() -> None:
    data = bytearray(encode_journal_record([JournalEntry(batch(2), [Match(1, 7, None)])], []))
    data[SEAL_BYTES - 1] ^= 1

    found = decode_journal_record(bytes(data))

    assert (len(found.entries), found.lost) == (1, "its checksum does not match, and those of all its batches do")


def test_a_start_serves_the_rest_and_keeps_the_record_in_quarantine_once(tmp_path: Path) -> None:
    """Also what is read of the spool with no node, as by `sluicegate doctor`."""
    broken = record_of_version_1(
        [JournalEntry(half(3), [Match(1, 10, None)]), JournalEntry(batch(4), [Match(1, 13, None)])]
    )
    store = SpoolStore.open(tmp_path, map_bytes_max=MAP_BYTES)
    store.commit(CommitJob(number=1, record=broken))
    store.close()
    with SpoolReader.open_folder(tmp_path) as reader:
        assert [entry.where for entry in reader.damage] == ["log record 1"]

    for start in range(2):
        store = SpoolStore.open(tmp_path, map_bytes_max=MAP_BYTES)
        recovery = store.recover()
        [(number, record)] = list(recovery.journal)
        assert (number, counts_of(record)) == (1, [2, 4])
        assert len(recovery.quarantined) == (1 if start == 0 else 0)
        store.close()
    with SpoolReader.open_folder(tmp_path) as reader:
        [item] = reader.quarantine(10)
        assert (item.source, item.data, reader.damage) == ("log", encode_log_record(LogRecord(broken)), [])


def test_a_page_that_is_read_in_part_stays_and_is_kept_in_quarantine_once(tmp_path: Path) -> None:
    page = page_of_version_1(5, half(3), Run(9, batch(2)))
    store = SpoolStore.open(tmp_path, map_bytes_max=MAP_BYTES)
    checkpoint(store, pages=[PageWrite(1, page)])
    for _ in range(2):
        assert len(store.read_page(1, 5).runs) == 2
        checkpoint(store, quarantines=[PageDamage(1, 5, "by half", stays=True)])
    assert store.usage().quarantine_entries == 1
    checkpoint(store, deletes=[PageKey(1, 5)])
    assert store.usage().page_entries == 0
    store.close()


def counts_of(record: JournalRecord) -> list[int]:
    return [entry.batch.count for entry in record.entries]
