"""The bytes of each record format, kept as files: what one release wrote, every later one must read.

A file of `tests/data/storage/` is one case: lines of hex, and comments behind `#`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import NATIVE_MQTT5, DeadLetter, Headers
from sluicegate.messaging.message.usage import STORED_MESSAGE_BYTES
from sluicegate.messaging.partitions.state.segments import UNKNOWN_MARKS, Marks
from sluicegate.storage.records.batch import decode_batch, encode_batch
from sluicegate.storage.records.cursor import CursorRecord, decode_cursor, encode_cursor
from sluicegate.storage.records.journal import (
    JournalEntry,
    Match,
    Settlement,
    decode_journal_record,
    encode_journal_record,
)
from sluicegate.storage.records.linked_page import Link, encode_linked_page, is_linked, links_of, page_from_links
from sluicegate.storage.records.page import (
    Run,
    decode_page,
    decode_page_summary,
    directory_row,
    encode_page,
    run_spans,
)
from sluicegate.storage.records.table import decode_row, encode_row
from support.storage.sample_records import batch, rows_of

GOLDEN = Path(__file__).parents[3] / "data" / "storage"


def every_header(*, not_before_ms: int) -> Headers:
    """Return headers with every field set; version 1 of the batch format had no time to deliver from."""
    return Headers(
        partition_key="pump-é",
        key_hash=0xBEEF,
        expires_at_ms=1_700_000_060_000,
        not_before_ms=not_before_ms,
        priority=9,
        payload_is_text=True,
        content_type="text/plain",
        correlation=b"\x00\xff",
        reply_to="#q/answers",
        message_id="m-1",
        timestamp_ms=1_699_999_999_999,
        dmq_eligible=True,
        deliver_to_one=True,
        eliding_eligible=True,
        user_properties=[("n", None), ("f", False), ("t", True), ("i", -300), ("d", 1.5), ("s", "ü"), ("b", b"\x01")],
        native_format=NATIVE_MQTT5,
        native=b"\x26\x00\x01a\x00\x01b",
    )


def mixed_with(headers: Headers) -> MessageBatch:
    """Return a batch in which every column is used."""
    return MessageBatch(
        topic="",
        topics=["a/1", "a/2", "a/1"],
        payloads=[b"one", b"", b"three"],
        headers=[None, headers, Headers()],
        qos=2,
        retain=True,
        publisher="meter-17",
        received_ms=1_700_000_000_000,
        payload_bytes=8,
    )


PLAIN = batch(2)
MIXED = mixed_with(every_header(not_before_ms=1_700_000_030_000))
MIXED_V1 = mixed_with(every_header(not_before_ms=0))
DEAD = batch(
    1,
    headers=[
        Headers(
            partition_key="pump-7",
            dead=DeadLetter(
                reason="max_redelivery_exceeded",
                queue="orders/eu",
                partition=3,
                delivery_count=300,
                died_ms=1_700_000_090_000,
                client="worker-é",
                was_eligible=True,
                via=("orders.dead", "#DEAD_MSG_QUEUE"),
            ),
        )
    ],
)
DEAD_CAUSE = batch(
    1,
    headers=[
        Headers(
            dead=DeadLetter(
                reason="rejected",
                queue="orders/eu",
                partition=0,
                delivery_count=1,
                died_ms=1_700_000_090_000,
                client="worker",
                cause="amqp:decode-error: é",
                was_eligible=True,
                via=("orders.dead",),
            )
        )
    ],
)
CURSOR = CursorRecord(7, 1000, [(1002, 1005), (1200, 5000)], 9000, [(1000, 1002, 3), (5000, 5001, 200)])
DELAYED_CURSOR = CURSOR._replace(delays=((1000, 1_700_000_000_000, 0xBEEF), (5000, 1_700_000_000_001, -2)))

DOUBTFUL = MessageBatch(
    topic="a/1",
    topics=None,
    payloads=[b"one", b"two"],
    headers=None,
    qos=2,
    retain=False,
    publisher="meter-17",
    received_ms=1_700_000_000_000,
    payload_bytes=6,
    possible_duplicate=True,
)

WRITTEN: dict[str, bytes] = {
    "batch_v3_possible_duplicate": encode_batch(DOUBTFUL),
    "batch_v2_plain": encode_batch(PLAIN),
    "batch_v2_mixed": encode_batch(MIXED),
    "batch_v2_dead": encode_batch(DEAD),
    "batch_v2_dead_cause": encode_batch(DEAD_CAUSE),
    "journal_v2": encode_journal_record(
        [JournalEntry(PLAIN, [Match(1, 10, None)]), JournalEntry(MIXED, [Match(1, 12, [0, 2]), Match(2, 5, [1])])],
        [Settlement(1, 3, 9), Settlement(2, 0, 1 << 40)],
    ),
    "page_v4": encode_page([Run(10, PLAIN), Run(20, MIXED)]),
    "cursor_v1": encode_cursor(CURSOR),
    "cursor_v2": encode_cursor(DELAYED_CURSOR),
    "table_row_v1": encode_row(b"plant/7/state", b"on"),
}


def golden(name: str) -> bytes:
    """Return the bytes of a case."""
    lines = (GOLDEN / f"{name}.hex").read_text(encoding="utf-8").splitlines()
    return bytes.fromhex("".join(line.partition("#")[0] for line in lines))


@pytest.mark.parametrize("name", WRITTEN)
def test_this_release_writes_the_golden_bytes(name: str) -> None:
    """The record format has a version byte and golden bytes. Other bytes need another version."""
    assert WRITTEN[name] == golden(name)


@pytest.mark.parametrize(
    ("name", "original"),
    [
        ("batch_v1_plain", PLAIN),
        ("batch_v1_mixed", MIXED_V1),
        ("batch_v2_plain", PLAIN),
        ("batch_v2_mixed", MIXED),
        ("batch_v2_dead", DEAD),
        ("batch_v2_dead_cause", DEAD_CAUSE),
        ("batch_v3_possible_duplicate", DOUBTFUL),
    ],
)
def test_golden_batches_are_read(name: str, original: MessageBatch) -> None:
    """Every column, every header, every type of user property."""
    found, _ = decode_batch(golden(name), 0)

    assert rows_of(found) == rows_of(original)
    assert found.possible_duplicate == original.possible_duplicate


@pytest.mark.parametrize(
    ("name", "mixed"), [("journal_v1", MIXED_V1), ("journal_v1_batch_v2", MIXED), ("journal_v2", MIXED)]
)
def test_golden_journal_records_are_read(name: str, mixed: MessageBatch) -> None:
    """Entries with their matches, and settlements."""
    record = decode_journal_record(golden(name))

    assert record.lost == ""
    assert [rows_of(entry.batch) for entry in record.entries] == [rows_of(PLAIN), rows_of(mixed)]
    assert record.entries[1].matches == [Match(1, 12, [0, 2]), Match(2, 5, [1])]
    assert record.settlements == [Settlement(1, 3, 9), Settlement(2, 0, 1 << 40)]


def test_a_page_of_an_earlier_release_is_estimated_by_its_payloads() -> None:
    """It does not say what topics and headers take; its messages count their share, and none is free."""
    count, payload_bytes = PLAIN.count + MIXED.count, PLAIN.payload_bytes + MIXED.payload_bytes

    estimated = decode_page_summary(directory_row(golden("page_v3"))).usage_bytes
    told = decode_page_summary(directory_row(golden("page_v4"))).usage_bytes

    assert estimated == payload_bytes + STORED_MESSAGE_BYTES * count
    assert told == PLAIN.usage_bytes(durable=True) + MIXED.usage_bytes(durable=True)


@pytest.mark.parametrize(
    ("name", "mixed", "marks"),
    [
        ("page_v1", MIXED_V1, UNKNOWN_MARKS),
        ("page_v2", MIXED, Marks(1_700_000_000_000, 1_700_000_060_000, 0, 1 << 4 | 1 << 9)),
        ("page_v3", MIXED, Marks(1_700_000_000_000, 1_700_000_060_000, 0, 1 << 4 | 1 << 9)),
        ("page_v4", MIXED, Marks(1_700_000_000_000, 1_700_000_060_000, 0, 1 << 4 | 1 << 9)),
    ],
)
def test_golden_pages_are_read(name: str, mixed: MessageBatch, marks: Marks) -> None:
    """Runs with a gap between them. A page that says nothing of its messages may hold anything."""
    page = golden(name)
    runs, lost = decode_page(page)

    assert lost == ""

    assert [(run.first_sequence, rows_of(run.batch)) for run in runs] == [(10, rows_of(PLAIN)), (20, rows_of(mixed))]
    assert decode_page_summary(directory_row(page)).marks == marks


@pytest.mark.parametrize(
    ("name", "decode", "expected"),
    [
        ("cursor_v1", decode_cursor, CURSOR),
        ("cursor_v2", decode_cursor, DELAYED_CURSOR),
        ("table_row_v1", decode_row, (b"plant/7/state", b"on")),
    ],
)
def test_golden_cursors_and_rows_are_read(name: str, decode: Callable[[bytes], object], expected: object) -> None:
    """Ranges as distances; the key inside the row."""
    assert decode(golden(name)) == expected


def test_a_golden_linked_page_is_written_and_read() -> None:
    """It stands for the page of the same batches."""
    page = golden("page_v4")
    firsts, spans = run_spans(page)
    links = [Link(17, 4096 + span.start, span.size, span.checksum) for span in spans]
    data = encode_linked_page(directory_row(page), firsts, links)

    assert data == golden("linked_page_v1")
    assert is_linked(data)
    assert not is_linked(page)
    assert not is_linked(directory_row(page))
    assert links_of(data) == links
    assert page_from_links(data, lambda link: page[link.offset - 4096 :][: link.size]) == page
