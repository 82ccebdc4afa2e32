"""One run of a streaming job, from its checkpoint to its end.

A stopped query has not acknowledged its last batch. So the run sweeps the checkpoint before and after, and a listener
acknowledges in between (`pyspark_sluicegate.reading.acknowledging` explains both). `supervision` handles failed runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Final, TypeAlias, final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_sluicegate.options import SourceOptions
from pyspark_sluicegate.reading.acknowledging import Acknowledger, sweep
from sluicegate.pipeline.configuration import StreamJob
from sluicegate.pipeline.run.figures import BatchFigures
from sluicegate.pipeline.run.progress import ProgressLines
from sluicegate.pipeline.run.trigger import Trigger

LOOK_EVERY_S: Final = 1  # whether the job is to stop; also how long that takes to be seen

Start: TypeAlias = Callable[[SparkSession, Trigger], StreamingQuery]


@final
@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What a run needs."""

    spark: SparkSession
    name: str
    config: StreamJob
    start: Start
    trigger: Trigger
    write: Callable[[str], None]  # a line of progress
    stopping: Event

    def run(self) -> None:
        """Return when the query has ended. Raises the errors of Spark and the client library."""
        connect = SourceOptions.of(self.config.source_options).connect
        sweep(connect, self.config.checkpoint)
        lines = ProgressLines(self.name, self.write)
        # In this order: what is told of was acknowledged.
        listeners: list[StreamingQueryListener] = [Acknowledger(connect)]
        if self.config.admin_url is not None:
            user, ref = self.config.admin_user, self.config.admin_credential_ref
            told = BatchFigures(self.name, self.config.admin_url, vpn=connect.vpn, user=user, credential_ref=ref)
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
