"""The position of a job, and what it would read next: for operators, without running it.

A streaming job has two positions: in its checkpoint, which is Spark's, and of its cursor in the gateway. They differ
briefly during a batch, and after a crash: then the gateway is behind until the job runs again or an operator
acknowledges for it. Nothing is run here: there is no session, and nothing is bound or read at the gateway.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from pydantic import ConfigDict

from pyspark_sluicegate.columns import chosen_columns, schema_of
from pyspark_sluicegate.connection import bulk_for
from pyspark_sluicegate.options import SourceOptions
from pyspark_sluicegate.reading.checkpoint import last_progress
from pyspark_sluicegate.reading.offsets import FIRST_SEQUENCE
from pyspark_sluicegate.reading.planning import ALL, RangeToRead, cut, group, next_ends
from sluicegate import RequestRefused
from sluicegate.pipeline.configuration import JobFile, QueueJob, StreamJob
from sluicegate.protocols.flow.codec.codes import NOT_FOUND


@final
class StreamPlace(StreamJob):
    """The part of any streaming job's file that names its source and its checkpoint."""

    model_config = ConfigDict(frozen=True, extra="ignore")


@final
@dataclass(frozen=True)
class PartitionPlace:
    """The positions in one partition: sequences, exclusive."""

    read: int  # by the checkpoint
    acknowledged: int  # by the gateway
    end: int  # of the queue


@final
@dataclass(frozen=True, kw_only=True)
class Place:
    """The position of a streaming job."""

    queue: str
    cursor: str
    batch: str | None  # the last completed one, by the checkpoint; None: none
    acknowledged_batch: str | None  # by the gateway; None: it has no such cursor
    partitions: Mapping[int, PartitionPlace]

    def figures(self) -> Mapping[str, object]:
        """Return the position as JSON values, with the numbers of sequences to be read and acknowledged."""
        return {
            "queue": self.queue,
            "cursor": self.cursor,
            "batch": self.batch,
            "acknowledged_batch": self.acknowledged_batch,
            "partitions": {
                str(number): {
                    "read": each.read,
                    "acknowledged": each.acknowledged,
                    "end": each.end,
                    "lag": max(0, each.end - each.read),
                    "unacknowledged": max(0, each.read - each.acknowledged),
                }
                for number, each in sorted(self.partitions.items())
            },
        }


def place_of(config: StreamJob) -> Place:
    """Read both positions. Raises CheckpointError, FlowClientError, and OffsetError for another spool's checkpoint."""
    options = SourceOptions.of(config.source_options)
    bulk = bulk_for(options.connect)
    status = bulk.queue_status(options.queue)
    ends = {each.partition: each.next_sequence for each in status.positions}
    progress = last_progress(config.checkpoint)
    read: dict[int, int] = {}
    for offset in () if progress is None else progress.offsets:
        offset.check_is_of(options.queue, status.vpn, status.incarnation)
        read.update(offset.places(status.positions))
    try:
        cursor = bulk.look_at_cursor(options.queue, options.cursor)
    except RequestRefused as refused:
        if refused.code != NOT_FOUND:
            raise
        cursor = None
    acknowledged = {} if cursor is None else {each.partition: each.acked for each in cursor.positions}
    return Place(
        queue=options.queue,
        cursor=options.cursor,
        batch=None if progress is None else progress.reference,
        acknowledged_batch=None if cursor is None else cursor.batch_ref,
        partitions={
            number: PartitionPlace(read.get(number, FIRST_SEQUENCE), acknowledged.get(number, FIRST_SEQUENCE), end)
            for number, end in ends.items()
        },
    )


def plan_of(config: JobFile) -> Mapping[str, object]:
    """Return what a job would do, as JSON values: its file with all defaults, its columns, the tasks of its next batch.

    Raises CheckpointError, OffsetError, FlowClientError.
    """
    plan: dict[str, object] = {"configuration": config.model_dump(mode="json")}
    if not isinstance(config, QueueJob):
        return plan
    options = SourceOptions.of(config.source_options)
    plan["schema"] = schema_of(chosen_columns(options.columns))
    tasks = group(cut(_next_ranges(config, options), options.split_rows), options.tasks)
    plan["tasks"] = [
        [{"partition": each.partition, "first": each.first, "end": each.end} for each in task] for task in tasks
    ]
    return plan


def _next_ranges(config: QueueJob, options: SourceOptions) -> list[RangeToRead]:
    """Return the ranges of a stream's next batch, or all that a batch job reads, without regard to limits."""
    bulk, rows_max, bytes_max = bulk_for(options.connect), ALL, ALL
    if isinstance(config, StreamJob):
        places = place_of(config).partitions
        firsts = {number: max(each.read, each.acknowledged) for number, each in places.items()}
        ends = {number: each.end for number, each in places.items()}
        rows_max, bytes_max = options.rows_max, options.bytes_max
    else:
        positions = bulk.queue_status(options.queue).positions
        firsts = {each.partition: each.low for each in positions}
        ends = {each.partition: each.next_sequence for each in positions}
    chosen = next_ends(bulk, options.queue, firsts, ends, rows_max=rows_max, bytes_max=bytes_max)
    return [RangeToRead(number, firsts[number], end) for number, end in sorted(chosen.items())]
