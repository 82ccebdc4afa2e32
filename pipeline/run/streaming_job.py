"""Jobs that read a queue as a stream: begun from their file, supervised, ended by a signal."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Event
from types import FrameType
from typing import Generic, TypeVar, final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_sluicegate.reading.checkpoint import last_progress
from sluicegate.pipeline.configuration import StreamJob, load
from sluicegate.pipeline.run.attempt import Attempt
from sluicegate.pipeline.run.invocation import Invocation
from sluicegate.pipeline.run.supervision import supervise
from sluicegate.pipeline.run.trigger import Trigger
from sluicegate.pipeline.spark.session import spark_session

Config = TypeVar("Config", bound=StreamJob)


@final
@dataclass(frozen=True)
class StreamingJob(Generic[Config]):
    """A job that reads a queue as a stream."""

    does: str  # a line for people
    config: type[Config]
    start: Callable[[SparkSession, Config, Trigger], StreamingQuery]

    def read(self, asked: Invocation) -> Config:
        """Return what the file says. Raises ConfigError."""
        return load(asked.file, self.config, master=asked.master, checkpoint=asked.checkpoint)

    def run(self, name: str, asked: Invocation) -> int:
        """Run until the job is ended; return its exit code. Raises ConfigError, JobFailed, CheckpointError."""
        config = self.read(asked)
        stopping = Event()

        def stop(number: int, frame: FrameType | None) -> None:
            stopping.set()

        signal.signal(signal.SIGTERM, stop)
        with spark_session(name, config.session) as spark:
            # After the session, which puts a handler of its own for Ctrl-C.
            signal.signal(signal.SIGINT, stop)
            write = partial(print, flush=True)  # a program may be waiting for the line
            run_stream(spark, name, config, self.start, trigger=asked.trigger, write=write, stopping=stopping)
        return 0


def run_stream(
    spark: SparkSession,
    name: str,
    config: Config,
    start: Callable[[SparkSession, Config, Trigger], StreamingQuery],
    *,
    trigger: Trigger,
    write: Callable[[str], None],
    stopping: Event,
) -> None:
    """Run a job on a session until it is ended, with a line for each batch. Raises JobFailed, CheckpointError."""
    attempt = Attempt(
        spark=spark,
        name=name,
        config=config,
        start=lambda session, when: start(session, config, when),
        trigger=trigger,
        write=write,
        stopping=stopping,
    )
    supervise(attempt.run, lambda: _batch_count(config.checkpoint), stopping)


def _batch_count(checkpoint: str) -> int:
    """Return how many batches are through, of all runs. Raises CheckpointError."""
    progress = last_progress(checkpoint)
    return 0 if progress is None else progress.batch_id + 1
