"""The recovered content of a store, in the forms the cores start from.

A starting node uses them, a partition that reloads its state from the store, and the reader of a backup.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from sluicegate.messaging.bulk.durable_cursors import CursorBook, cursor_from_row
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.message.vpn import DEFAULT_VPN, rows_by_vpn
from sluicegate.messaging.partitions.recovery import StoredBatch, StoredPage, StoredPartition
from sluicegate.storage.catalog.queues import StoredQueue
from sluicegate.storage.interface import Recovery, Table
from sluicegate.storage.records.journal import JournalEntry, Match
from sluicegate.storage.records.page import PageSummary

# Sequences skipped in a partition whose cursor is lost: the number already assigned is unknown, and none may be reused.
# This is more than nine years of a million messages a second, and one part in 65,536 of all sequences.
SEQUENCES_SKIPPED: Final = 1 << 48

JournalPublications = list[tuple[int, list[Publication]]]  # (record number, its publications), oldest first


@dataclass(frozen=True, slots=True)
class StoredVpn:
    """The rows of one message VPN, under their own keys."""

    catalog: dict[bytes, bytes]
    retained: dict[bytes, bytes]
    sessions: dict[bytes, bytes]
    readers: dict[bytes, bytes]
    transactions: dict[bytes, bytes]
    owners: dict[bytes, bytes] = field(default_factory=dict)
    lost: list[StoredQueue] = field(default_factory=list)  # queues without a definition: `partition_owners.find_lost`


NOTHING_STORED: Final = StoredVpn({}, {}, {}, {}, {})  # of a message VPN that is new


def read_vpns(tables: Mapping[Table, Iterable[tuple[bytes, bytes]]]) -> dict[str, StoredVpn]:
    """Return the table rows of each message VPN; the VPN `default` is always included."""
    rows = {table: rows_by_vpn(tables[table]) for table in Table}
    names = dict.fromkeys([DEFAULT_VPN, *[name for by_vpn in rows.values() for name in by_vpn]])
    return {
        name: StoredVpn(
            catalog=rows[Table.CATALOG].get(name, {}),
            retained=rows[Table.RETAINED].get(name, {}),
            sessions=rows[Table.SESSIONS].get(name, {}),
            readers=rows[Table.READERS].get(name, {}),
            transactions=rows[Table.TRANSACTIONS].get(name, {}),
            owners=rows[Table.OWNERS].get(name, {}),
        )
        for name in names
    }


def read_partitions(recovery: Recovery) -> tuple[dict[int, StoredPartition], JournalPublications]:
    """Return every partition in the store, and the publications of the journal. Pages are not read."""
    partitions: dict[int, StoredPartition] = {}
    records = _read_journal(recovery, partitions)
    for partition_id, cursor in recovery.cursors.items():
        stored = partitions.setdefault(partition_id, StoredPartition(partition_id))
        stored.is_registered = True
        stored.floor = cursor.floor
        stored.next_sequence = cursor.next_sequence
        stored.redelivered = cursor.redelivered
        stored.delays = cursor.delays
        for first, end in cursor.settled:
            stored.settle(first, end)
    for page in recovery.pages:
        stored = partitions.setdefault(page.partition_id, StoredPartition(page.partition_id))
        stored.is_registered = True
        stored.pages.append(_stored_page(page.summary))
    for partition_id in recovery.lost_cursors:
        stored = partitions.setdefault(partition_id, StoredPartition(partition_id))
        stored.next_sequence = stored.known_end() + SEQUENCES_SKIPPED
        stored.lacks_cursor = True
        stored.is_registered = True
    return partitions, records


def read_partition(recovery: Recovery, partition_id: int) -> StoredPartition:
    """Return pages and journal of one partition. The spool's account of the partition has its newer settlements."""
    stored = StoredPartition(partition_id)
    stored.pages += [_stored_page(page.summary) for page in recovery.pages if page.partition_id == partition_id]
    for number, record in recovery.journal:
        for entry in record.entries:
            for match in entry.matches:
                if match.partition_id == partition_id:
                    _take_match(stored, _publication_of(number, entry), match)
    return stored


def read_cursor_book(rows: Mapping[bytes, bytes]) -> CursorBook:
    """Return the durable cursors of the table of readers."""
    book = CursorBook()
    for value in rows.values():
        book.add(cursor_from_row(orjson.loads(value)))
    return book


def _stored_page(summary: PageSummary) -> StoredPage:
    return StoredPage(
        summary.first_sequence, summary.end_sequence, summary.usage_bytes, summary.message_count, summary.marks
    )


def _publication_of(number: int, entry: JournalEntry) -> Publication:
    """Rebuild the publication of a journal entry."""
    publication = Publication(entry.batch, publisher=None, token=0, partitions_count=0)
    publication.record_number = number
    publication.confirmed = True
    return publication


def _take_match(stored: StoredPartition, publication: Publication, match: Match) -> None:
    """Add a publication's rows to their partition."""
    whole: MessageBatch = publication.batch
    batch = whole if match.rows is None else whole.select(match.rows)
    stored.batches.append(StoredBatch(match.first_sequence, batch, publication))
    publication.note_match(match.partition_id, match.first_sequence, match.rows)


def _read_journal(recovery: Recovery, partitions: dict[int, StoredPartition]) -> JournalPublications:
    """Read all records, oldest first; settlements count whatever the order, for no sequence is used twice."""
    records: JournalPublications = []
    for number, record in recovery.journal:
        publications: list[Publication] = []
        for entry in record.entries:
            publication = _publication_of(number, entry)
            for match in entry.matches:
                stored = partitions.setdefault(match.partition_id, StoredPartition(match.partition_id))
                _take_match(stored, publication, match)
            publications.append(publication)
        for partition_id, first, end in record.settlements:
            partitions.setdefault(partition_id, StoredPartition(partition_id)).settle(first, end)
        records.append((number, publications))
    return records
