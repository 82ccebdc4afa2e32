"""Steps of a planner's life, with defaults, so that every argument a test shows matters."""

from sluicegate.messaging.message.publication import Publication
from sluicegate.storage.commit.planner import Commit, CommitPlanner
from sluicegate.storage.interface import CheckpointJob
from sluicegate.storage.records.journal import JournalRecord, decode_journal_record
from support.cores.messages import numbered, published

P, Q = 3, 8  # two partitions


def planner_with(*partition_ids: int) -> CommitPlanner:
    """Return a planner with these partitions; their first reservation is committed."""
    planner = CommitPlanner(next_record_number=1)
    for partition_id in partition_ids:
        planner.register(partition_id, floor=1, next_sequence_reserved=1)
    committed(planner)
    return planner


def publication_to(first_by_partition: dict[int, int], *, count: int = 2) -> Publication:
    """Return a publication that these partitions have numbered."""
    publication = published(numbered(count), partitions_count=len(first_by_partition))
    for partition_id, first in first_by_partition.items():
        publication.sequenced(partition_id, first, None)
    return publication


def committed(planner: CommitPlanner) -> Commit:
    commit = planner.next_commit(now_ms=0, patience_ms=0)
    return planner.committed(commit.job.number + 1)


def checkpointed(planner: CommitPlanner) -> CheckpointJob:
    """Return the job of a checkpoint that was made."""
    job = planner.next_checkpoint().job
    planner.checkpoints.succeeded(overhead_bytes=0).end(succeeded=True)
    return job


def stored(planner: CommitPlanner, first_by_partition: dict[int, int]) -> Publication:
    """Return a publication that was written."""
    publication = publication_to(first_by_partition)
    planner.store(publication, now_ms=0)
    committed(planner)
    return publication


def done_with(planner: CommitPlanner, publication: Publication) -> None:
    """Settle everything of a publication, as its partitions would."""
    for match in publication.matches:
        last = match.first_sequence + publication.batch.count
        planner.settle(match.partition_id, [(match.first_sequence, last)], written=True)
    publication.open_count = 0
    planner.released(publication)


def record_of(commit: Commit) -> JournalRecord:
    assert commit.job.record is not None
    return decode_journal_record(commit.job.record)
