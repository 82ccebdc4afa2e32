"""Reading what the store held into the forms that the actors start from."""

import logging
from dataclasses import dataclass, field

import orjson

from messaging.batch import MessageBatch
from messaging.cursors import CursorBook, cursor_from_row
from messaging.publication import Publication
from messaging.recovery import StoredBatch, StoredPage, StoredPartition
from storage.interface import Recovery, Store, Table
from storage.spool_plan import SpoolPlanner

log = logging.getLogger("sluicegate.spool")


@dataclass(slots=True)
class Recovered:
    """What a node starts with."""

    planner: SpoolPlanner
    partitions: dict[int, StoredPartition]
    catalog: dict[bytes, bytes]
    retained: dict[bytes, bytes]
    sessions: dict[bytes, bytes]
    cursors: CursorBook
    transactions: dict[bytes, bytes]
    was_clean: bool
    incarnation: int
    records: list[tuple[int, list[Publication]]] = field(default_factory=list)
    damaged_count: int = 0


def read_store(store: Store) -> Recovered:
    """Read everything but the pages' contents. Raises StorageError."""
    recovery = store.recover()
    partitions: dict[int, StoredPartition] = {}
    records = _read_journal(recovery, partitions)
    for partition_id, cursor in recovery.cursors.items():
        stored = partitions.setdefault(partition_id, StoredPartition(partition_id))
        stored.floor = cursor.floor
        stored.next_sequence = cursor.next_sequence
        stored.redelivered = cursor.redelivered
        stored.delays = cursor.delays
        for first, end in cursor.settled:
            stored.settle(first, end)
    for page in recovery.pages:
        stored = partitions.setdefault(page.partition_id, StoredPartition(page.partition_id))
        summary = page.summary
        stored.pages.append(
            StoredPage(
                summary.first_sequence,
                summary.end_sequence,
                summary.payload_bytes,
                summary.message_count,
                summary.marks,
            )
        )
    tables = {table: dict(recovery.tables[table]) for table in Table}
    for entry in recovery.quarantined:
        log.error("%s was set aside: %s (%s)", entry.where, entry.reason, entry.detail)
    return Recovered(
        planner=SpoolPlanner(next_record_number=recovery.next_record_number),
        partitions=partitions,
        catalog=tables[Table.CATALOG],
        retained=tables[Table.RETAINED],
        sessions=tables[Table.SESSIONS],
        cursors=_read_cursors(tables[Table.READERS]),
        transactions=tables[Table.TRANSACTIONS],
        was_clean=recovery.was_clean,
        incarnation=recovery.incarnation,
        records=records,
        damaged_count=len(recovery.quarantined),
    )


def register_partitions(recovered: Recovered, partition_ids: list[int]) -> None:
    """Open the accounts of the partitions that exist, and of the journal's records."""
    planner = recovered.planner
    for partition_id in partition_ids:
        stored = recovered.partitions.get(partition_id)
        if stored is None:
            planner.register(partition_id, floor=1, next_sequence_reserved=1)
            planner.reserve(partition_id, 1)
            continue
        cursor = planner.register(partition_id, floor=stored.floor, next_sequence_reserved=stored.next_sequence)
        for first, end in stored.settled.ranges():
            cursor.settle(first, end)
    for number, publications in recovered.records:
        planner.recovered(number, [each for each in publications if each.open_count > 0])


def _read_cursors(rows: dict[bytes, bytes]) -> CursorBook:
    book = CursorBook()
    for value in rows.values():
        book.add(cursor_from_row(orjson.loads(value)))
    return book


def _read_journal(recovery: Recovery, partitions: dict[int, StoredPartition]) -> list[tuple[int, list[Publication]]]:
    """Read all records, oldest first; settlements count whatever the order, for no sequence is used twice."""
    records: list[tuple[int, list[Publication]]] = []
    for number, record in recovery.journal:
        publications: list[Publication] = []
        for entry in record.entries:
            publication = Publication(entry.batch, publisher=None, token=0, partitions_count=0)
            publication.record_number = number
            publication.confirmed = True
            for match in entry.matches:
                batch: MessageBatch = entry.batch if match.rows is None else entry.batch.select(match.rows)
                stored = partitions.setdefault(match.partition_id, StoredPartition(match.partition_id))
                stored.batches.append(StoredBatch(match.first_sequence, batch, publication))
                publication.note_match(match.partition_id, match.first_sequence, match.rows)
            publications.append(publication)
        for partition_id, first, end in record.settlements:
            partitions.setdefault(partition_id, StoredPartition(partition_id)).settle(first, end)
        records.append((number, publications))
    return records
