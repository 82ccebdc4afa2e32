"""What the store has of one partition, read while the node runs: for a partition whose memory cannot be trusted.

The spool reads it between two commits, when everything taken before is written. It costs one pass over the journal,
during which nothing is committed; a partition has to fail again and again for that.
"""

from messaging.publication import Publication
from messaging.recovery import StoredBatch, StoredPage, StoredPartition
from storage.interface import Store


def read_partition(store: Store, partition_id: int) -> StoredPartition:
    """Return pages and journal of a partition; what is settled of it, its account in the spool knows better.

    For the thread that commits. Raises StorageError.
    """
    recovery = store.recover()
    stored = StoredPartition(partition_id)
    for page in recovery.pages:
        if page.partition_id == partition_id:
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
    for number, record in recovery.journal:
        for entry in record.entries:
            for match in entry.matches:
                if match.partition_id != partition_id:
                    continue
                batch = entry.batch if match.rows is None else entry.batch.select(match.rows)
                publication = Publication(entry.batch, publisher=None, token=0, partitions_count=0)
                publication.record_number = number
                publication.confirmed = True
                publication.note_match(partition_id, match.first_sequence, match.rows)
                stored.batches.append(StoredBatch(match.first_sequence, batch, publication))
    return stored
