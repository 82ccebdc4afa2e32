"""Jobs that process the present data and end: they write a line of JSON with their results, and return an exit code.

They store no position. A signal ends them at any point: such a job writes its output completely or not at all.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Final, Generic, Protocol, TypeVar, final

from pyspark.sql import SparkSession

from sluicegate.pipeline.configuration import JobFile, load
from sluicegate.pipeline.run.invocation import Invocation
from sluicegate.pipeline.run.supervision import supervise
from sluicegate.pipeline.spark.session import spark_session

ISO_8601: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSX"  # how figures tell times, which Spark formats
FOUND: Final = 1  # exit code: the job succeeded, and has findings


class Result(Protocol):
    """The result of such a job."""

    @property
    def is_clean(self) -> bool:
        """Whether the job has no findings."""

    def figures(self) -> Mapping[str, object]:
        """Return the results, as JSON values."""


Config = TypeVar("Config", bound=JobFile)


@final
@dataclass(frozen=True)
class BatchJob(Generic[Config]):
    """A job that processes the present data."""

    does: str  # a line for people
    config: type[Config]
    work: Callable[[SparkSession, Config], Result]

    def read(self, asked: Invocation) -> Config:
        """Return what the file says. Raises ConfigError."""
        return load(asked.file, self.config, master=asked.master)

    def run(self, name: str, asked: Invocation) -> int:
        """Run the job and print its results; return the exit code. Raises ConfigError, JobFailed."""
        config = self.read(asked)
        with spark_session(name, config.session) as spark:
            result = supervise(lambda: self.work(spark, config), lambda: 0, Event())
        assert result is not None, "nobody asks it to stop"
        print(json.dumps({"job": name, **result.figures()}), flush=True)
        return 0 if result.is_clean else FOUND
