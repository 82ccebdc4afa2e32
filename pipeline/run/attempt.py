"""Attempts of a job: one run of a streaming job from its checkpoint to its end, and the retries of failed runs.

A stopped query has not acknowledged its last batch. So a run sweeps the checkpoint before and after, and a listener
acknowledges in between (`pyspark_sluicegate.reading.acknowledging` explains both). `supervise` retries temporary
failures from the checkpoint, and gives up on permanent ones.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Final, TypeAlias, TypeVar, final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pyspark_sluicegate.options import OptionError, SourceOptions
from pyspark_sluicegate.reading.acknowledging import Acknowledger, sweep
from pyspark_sluicegate.reading.checkpoint import CheckpointError
from pyspark_sluicegate.reading.offsets import OffsetError
from sluicegate import FlowClientError
from sluicegate.pipeline.configuration import StreamJob
from sluicegate.pipeline.failures import JobFailed, failure_of
from sluicegate.pipeline.run.figures import BatchFigures
from sluicegate.pipeline.run.progress import ProgressLines

LOOK_EVERY_S: Final = 1  # between two checks whether the job has to stop
ATTEMPTS_MAX: Final = 10  # consecutive failures without a completed batch; with the delays below, about five minutes
DELAY_FIRST_S: Final = 1.0  # doubled with each further failure
DELAY_MAX_S: Final = 60.0

_log: Final = logging.getLogger("pipeline")

Done = TypeVar("Done")


@final
@dataclass(frozen=True)
class Trigger:
    """When a streaming job makes batches: at an interval until it ends, or once for the messages that are there now."""

    every_ms: int | None  # 0: one batch after the other; None: the messages that are there now

    def set_on(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Return the writer with this trigger."""
        if self.every_ms is None:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=f"{self.every_ms} milliseconds")


Start: TypeAlias = Callable[[SparkSession, Trigger], StreamingQuery]


@final
@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One run of a streaming job."""

    spark: SparkSession
    name: str
    config: StreamJob
    start: Start
    trigger: Trigger
    write: Callable[[str], None]  # a line of progress
    stopping: Event

    def run(self) -> None:
        """Run the query to its end. Raises the errors of Spark and the client library."""
        connect = SourceOptions.of(self.config.source_options).connect
        sweep(connect, self.config.checkpoint)
        lines = ProgressLines(self.name, self.write)
        # In this order: a batch is acknowledged before it is reported.
        listeners: list[StreamingQueryListener] = [Acknowledger(connect)]
        if self.config.admin_url is not None:
            username, ref = self.config.admin_username, self.config.admin_credential_ref
            told = BatchFigures(
                self.name, self.config.admin_url, vpn=connect.vpn, username=username, credential_ref=ref
            )
            listeners.append(told)
        listeners.append(lines)
        for each in listeners:
            self.spark.streams.addListener(each)
        try:
            query = self.start(self.spark, self.trigger)
            try:
                while not query.awaitTermination(LOOK_EVERY_S):
                    if self.stopping.is_set():
                        query.stop()
            finally:
                query.stop()
                lines.wait_for_the_last()
        finally:
            for each in listeners:
                self.spark.streams.removeListener(each)
        sweep(connect, self.config.checkpoint)


def supervise(attempt: Callable[[], Done], batch_count: Callable[[], int], stopping: Event) -> Done | None:
    """Run attempts until one succeeds, and return its result; None when the job has to stop. Raises JobFailed.

    `batch_count` returns the number of completed batches: a job that makes progress, even slowly, is never given up.
    """
    failed_count, seen = 0, batch_count()
    while not stopping.is_set():
        try:
            return attempt()
        except (PySparkException, Py4JError, FlowClientError, CheckpointError, OffsetError, OptionError) as error:
            failure = failure_of(error)
        if stopping.is_set():
            _log.warning("while the job was ending: %s", failure.text)
            return None
        through = batch_count()
        if through > seen:
            failed_count, seen = 0, through
        failed_count += 1
        if failure.passes is None or failed_count == ATTEMPTS_MAX:
            raise JobFailed(failure.text)
        delay_s = min(DELAY_MAX_S, DELAY_FIRST_S * 2 ** (failed_count - 1))
        _log.warning("the job restarts in %.0f s, because %s: %s", delay_s, failure.passes, failure.text)
        stopping.wait(delay_s)
    return None
