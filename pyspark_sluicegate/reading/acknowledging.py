"""Acknowledges completed batches to the gateway, as soon as Spark has recorded them.

The source itself acknowledges a batch when Spark requests the next one: that may be after a long pause, and never when
the query was stopped. So a listener acknowledges a batch when Spark posts its progress, which is after the commit log
has it; and a sweep of the checkpoint acknowledges the batches that a stop or a lost event left. Acknowledgements are
cumulative, so each may come late or twice.
"""

import logging
from collections.abc import Iterable
from typing import Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from pyspark_sluicegate.connection import bulk_for
from pyspark_sluicegate.options import ConnectOptions
from pyspark_sluicegate.reading.checkpoint import last_progress, ours_among
from pyspark_sluicegate.reading.offsets import Offset
from sluicegate import FlowClientError, RequestRefused
from sluicegate.protocols.flow.codec.codes import FENCED
from sluicegate.protocols.flow.codec.frames.cursor import Position

_log: Final = logging.getLogger("pyspark_sluicegate")


class Acknowledger(StreamingQueryListener):
    """Acknowledges each batch of the session's queries that read from this gateway.

    `spark.streams.addListener(Acknowledger(options))`; `options` are the source's. Runs in the user's own process.
    """

    def __init__(self, options: ConnectOptions) -> None:
        self._options = options
        self.failed_count = 0  # acknowledgements that the gateway refused, or that did not reach it

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802, Spark's name
        """Do nothing: no batch is complete yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802, Spark's name
        """Acknowledge the batch."""
        progress = event.progress
        reference = f"{progress.id}/{progress.batchId}"
        for offset in ours_among([source.endOffset or "" for source in progress.sources]):
            try:
                stands = bulk_for(self._options).look_at_cursor(offset.queue, offset.cursor)
                # Else it is another queue that has the same name, or a batch that a driver planned which crashed: the
                # source acknowledges that under the binding it has now, as Spark asks it for the next one.
                if offset.is_in(stands.vpn, stands.incarnation) and offset.epoch == stands.epoch:
                    acknowledge(self._options, offset, stands.positions, reference)
            except (FlowClientError, OSError, TimeoutError) as error:
                # The next batch or the sweep repairs it; the query itself is none the worse.
                self.failed_count += 1
                _log.warning("batch %s is not acknowledged to queue %s yet: %s", reference, offset.queue, error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802, Spark's name
        """Do nothing: no new batch is complete."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802, Spark's name
        """Do nothing: completed batches are acknowledged already."""


def acknowledge(options: ConnectOptions, offset: Offset, positions: Iterable[Position], reference: str) -> None:
    """Acknowledge a batch under the binding that read it, in the present partitions.

    Raises FlowClientError, for example when another binding replaced that one.
    """
    cursor = bulk_for(options).bound_cursor(offset.queue, offset.cursor, offset.epoch)
    cursor.acknowledge(offset.places(positions), batch_ref=reference)


def sweep(options: ConnectOptions, checkpoint: str) -> int:
    """Acknowledge the completed batches of a checkpoint; return the number of cursors.

    Call it while the query does not run: after its end, or before its start. It skips a cursor that another program has
    bound since. Raises CheckpointError, OffsetError, FlowClientError.
    """
    progress = last_progress(checkpoint)
    if progress is None:
        return 0
    told_count = 0
    bulk = bulk_for(options)
    for offset in progress.offsets:
        stands = bulk.look_at_cursor(offset.queue, offset.cursor)
        offset.check_is_of(offset.queue, stands.vpn, stands.incarnation)
        if offset.is_covered_by(stands.positions):
            continue
        if stands.epoch != offset.epoch:
            _log.warning(
                "queue %s: cursor %s was bound elsewhere since batch %s, which is not acknowledged therefore",
                offset.queue, offset.cursor, progress.reference,
            )  # fmt: skip
            continue
        _acknowledge_again(options, offset, stands.positions, progress.reference)
        told_count += 1
    return told_count


def _acknowledge_again(options: ConnectOptions, offset: Offset, positions: Iterable[Position], reference: str) -> None:
    """Acknowledge under the binding that read or, when it has timed out, under a new one."""
    try:
        acknowledge(options, offset, positions, reference)
    except RequestRefused as refused:
        if refused.code != FENCED:
            raise
        cursor = bulk_for(options).bind_cursor(offset.queue, offset.cursor, mode=offset.mode, instance="sweep")
        cursor.acknowledge(offset.places(positions), batch_ref=reference)
        cursor.unbind()
