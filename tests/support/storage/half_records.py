"""Records with half a message, as earlier versions could write them, in their layout."""

import struct

from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.storage.records.batch import encode_batch
from sluicegate.storage.records.journal import JournalEntry
from sluicegate.storage.records.page import Run, directory_row, encode_page
from sluicegate.storage.records.seal import seal
from support.storage.sample_records import batch


def half(count: int) -> MessageBatch:
    """Return a batch whose last message has no row of headers, as it came from a broken PUBLISH."""
    headers: list[Headers | None] = [Headers(partition_key=f"k{row}") for row in range(count)]
    made = batch(count, headers=headers)
    column = made.headers()
    assert column is not None
    column.pop()
    return made


def record_of_version_1(entries: list[JournalEntry]) -> bytes:
    """Return a journal record as earlier versions wrote it."""
    parts = [struct.pack("<II", len(entries), 0)]
    for made, matches in entries:
        parts.append(struct.pack("<I", len(matches)))
        for match in matches:
            rows = match.rows
            count = 0xFFFF_FFFF if rows is None else len(rows)
            parts.append(struct.pack("<IQI", match.partition_id, match.first_sequence, count))
            parts.append(struct.pack(f"<{len(rows or [])}I", *(rows or [])))
        parts.append(encode_batch(made))
    return seal(b"SGJ", 1, b"".join(parts))


def page_of_version_1(first: int, made: MessageBatch, after: Run) -> bytes:
    """Return a page as earlier versions wrote it, of two runs, the first of which is half there."""
    row = directory_row(encode_page([Run(first, batch(made.count)), after]))
    runs = [struct.pack("<Q", run) + encode_batch(each) for run, each in ((first, made), after)]
    return row + seal(b"SGP", 1, b"".join(runs))
