"""The progress of a job: one line of JSON for each batch."""

import json
from collections.abc import Callable
from threading import Event
from typing import Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from pyspark_sluicegate.reading.checkpoint import ours_among
from pyspark_sluicegate.reading.offsets import UNKNOWN

UNDECODABLE: Final = "undecodable"  # what the decode stage observes: how many rows of a batch had no value
UNTIMED: Final = "untimed"  # what windows observe: how many rows of a batch had no event time
EVENTS_WITHIN_S: Final = 30.0  # Spark tells listeners from a thread of its own, after the query has ended


class ProgressLines(StreamingQueryListener):
    """Writes the lines, and records when the last one is written."""

    def __init__(self, job: str, write: Callable[[str], None]) -> None:
        self._job = job
        self._write = write
        self._ended = Event()

    def wait_for_the_last(self) -> None:
        """Wait until Spark has reported the end of the query, or until a timeout."""
        self._ended.wait(EVENTS_WITHIN_S)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802, Spark's name
        """Do nothing: nothing is read yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802, Spark's name
        """Write the batch's line."""
        progress = event.progress
        line = {
            "job": self._job,
            "query": str(progress.id),
            "batch": progress.batchId,
            "at": progress.timestamp,
            "rows": progress.numInputRows,
            "rows_per_s": round(progress.processedRowsPerSecond, 1),
            "lag": lag_by_partition(
                [source.endOffset or "" for source in progress.sources],
                [source.latestOffset or "" for source in progress.sources],
            ),
            "duration_ms": progress.durationMs,
        }
        for name in (UNDECODABLE, UNTIMED):
            if name in progress.observedMetrics:
                line[name] = observed_count(progress, name)
        if progress.stateOperators:
            line["late"] = sum(each.numRowsDroppedByWatermark for each in progress.stateOperators)
        self._write(json.dumps(line))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802, Spark's name
        """Do nothing: there was nothing to read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802, Spark's name
        """Record the end: Spark calls listeners in order, so this was the last line."""
        self._ended.set()


def observed_count(progress: StreamingQueryProgress, name: str) -> int:
    """Return an observed count of a batch, by one of the names above; 0 where the job does not observe it."""
    observed = progress.observedMetrics.get(name)
    return 0 if observed is None else int(observed[name])


def lag_by_partition(ends: list[str], latest: list[str]) -> dict[str, int]:
    """Return the number of sequences after the batch's end, by partition; both lists have a text for each source."""
    return {
        str(partition): max(0, behind - end.next_in(partition, newest.ids.get(partition, UNKNOWN)))
        for texts in zip(ends, latest, strict=True)
        for end in ours_among([texts[0]])
        for newest in ours_among([texts[1]])
        for partition, behind in sorted(newest.next.items())
    }
