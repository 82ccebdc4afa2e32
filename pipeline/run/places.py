"""The position of a streaming job: in its checkpoint, which is Spark's, and of its cursor in the gateway.

The two differ briefly during a batch, and after a crash: then the gateway is behind until the job runs again or an
operator acknowledges for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from pydantic import ConfigDict

from pyspark_sluicegate.connection import bulk_for
from pyspark_sluicegate.options import SourceOptions
from pyspark_sluicegate.reading.checkpoint import last_progress
from pyspark_sluicegate.reading.offsets import FIRST_SEQUENCE
from sluicegate import RequestRefused
from sluicegate.pipeline.configuration import StreamJob
from sluicegate.protocols.flow.codec.codes import NOT_FOUND


@final
class StreamPlace(StreamJob):
    """Of any streaming job's file, what says where it reads and where it keeps its place."""

    model_config = ConfigDict(frozen=True, extra="ignore")


@final
@dataclass(frozen=True)
class PartitionPlace:
    """One partition: sequences up to which, exclusive, something is so."""

    read: int  # through, by the checkpoint
    acknowledged: int  # by the gateway
    end: int  # of what the queue has


@final
@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a job stands."""

    queue: str
    cursor: str
    batch: str | None  # the last that is through, by the checkpoint; None: none is
    acknowledged_batch: str | None  # by the gateway; None: there is no such cursor
    partitions: Mapping[int, PartitionPlace]

    def figures(self) -> Mapping[str, object]:
        """Return it as JSON has it, with what is to be read and to be acknowledged."""
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
    """Ask both. Raises CheckpointError, OffsetError when the checkpoint is of another spool, FlowClientError."""
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
