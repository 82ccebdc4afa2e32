"""The two kinds of jobs: those that read a queue as a stream, and those that process the present data and end.

A streaming job runs until a signal ends it, and keeps its position in a checkpoint. A batch job writes a line of JSON
with its results, and returns an exit code. It stores no position, and a signal ends it at any point: such a job writes
its output completely or not at all.
"""

import json
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Final, Generic, Protocol, TypeVar, final

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_sluicegate.reading.checkpoint import last_progress
from sluicegate.pipeline.configuration import JobFile, StreamJob, load
from sluicegate.pipeline.run.attempt import Attempt, Trigger, supervise
from sluicegate.pipeline.spark.session import spark_session

FOUND: Final = 1  # exit code: the job succeeded, and has findings
ISO_8601: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSX"  # the form of times in results, as Spark writes patterns

# A word of hexadecimal digits with a decimal one among them, and further such words after hyphens. The expression never
# backtracks (`++`, `*+`): publishers write these texts, and where Java's expressions backtrack they keep a stack frame
# for each repetition. A stack overflow ends the whole JVM.
_NUMBERS: Final = r"\b(?:0x)?(?=[a-fA-F]*[0-9])[0-9a-fA-F]++\b(?:-[0-9a-fA-F]++\b)*+"

Config = TypeVar("Config", bound=JobFile)
StreamConfig = TypeVar("StreamConfig", bound=StreamJob)


@final
@dataclass(frozen=True, kw_only=True)
class Invocation:
    """The options of `sluicegate pipeline run`, beside the job's file."""

    file: Path
    master: str | None  # where Spark runs; None: as the file says
    checkpoint: str | None  # None: as the file says
    trigger: Trigger


@final
@dataclass(frozen=True)
class StreamingJob(Generic[StreamConfig]):
    """A job that reads a queue as a stream."""

    does: str  # one line, for `list`
    config: type[StreamConfig]
    start: Callable[[SparkSession, StreamConfig, Trigger], StreamingQuery]

    def read(self, asked: Invocation) -> StreamConfig:
        """Return the checked configuration. Raises ConfigError."""
        return load(asked.file, self.config, master=asked.master, checkpoint=asked.checkpoint)

    def run(self, name: str, asked: Invocation) -> int:
        """Run until the job is ended; return its exit code. Raises ConfigError, JobFailed, CheckpointError."""
        config = self.read(asked)
        stopping = Event()

        def stop(number: int, frame: FrameType | None) -> None:
            stopping.set()

        signal.signal(signal.SIGTERM, stop)
        with spark_session(name, config.session) as spark:
            # After the session is created: it installs its own handler for Ctrl-C.
            signal.signal(signal.SIGINT, stop)
            write = partial(print, flush=True)  # a program may wait for the line
            run_stream(spark, name, config, self.start, trigger=asked.trigger, write=write, stopping=stopping)
        return 0


def run_stream(
    spark: SparkSession,
    name: str,
    config: StreamConfig,
    start: Callable[[SparkSession, StreamConfig, Trigger], StreamingQuery],
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
    """Return the number of completed batches of all runs. Raises CheckpointError."""
    progress = last_progress(checkpoint)
    return 0 if progress is None else progress.batch_id + 1


class Result(Protocol):
    """The result of a batch job."""

    @property
    def is_clean(self) -> bool:
        """Whether the job has no findings."""

    def figures(self) -> Mapping[str, object]:
        """Return the results, as JSON values."""


@final
@dataclass(frozen=True)
class BatchJob(Generic[Config]):
    """A job that processes the present data."""

    does: str  # one line, for `list`
    config: type[Config]
    work: Callable[[SparkSession, Config], Result]

    def read(self, asked: Invocation) -> Config:
        """Return the checked configuration. Raises ConfigError."""
        return load(asked.file, self.config, master=asked.master)

    def run(self, name: str, asked: Invocation) -> int:
        """Run the job and print its results; return the exit code. Raises ConfigError, JobFailed."""
        config = self.read(asked)
        with spark_session(name, config.session) as spark:
            result = supervise(lambda: self.work(spark, config), lambda: 0, Event())
        assert result is not None, "nobody asks it to stop"
        print(json.dumps({"job": name, **result.figures()}), flush=True)
        return 0 if result.is_clean else FOUND


def alike(text: Column) -> Column:
    """Return a text with # for each number, so that errors that differ in ids, addresses and times only are equal."""
    return fn.regexp_replace(text, _NUMBERS, "#")
