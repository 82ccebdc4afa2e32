"""Jobs that work on what is there and end: a line of JSON with what they found, and an exit code.

They keep no place of their own. A signal ends them wherever they are: what such a job writes is whole or not there.
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
FOUND: Final = 1  # exit code: the job ran well, and something is wrong with what it looked at


class Result(Protocol):
    """What such a job returns."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong with what it looked at."""

    def figures(self) -> Mapping[str, object]:
        """Return what it found, as JSON has it."""


Config = TypeVar("Config", bound=JobFile)


@final
@dataclass(frozen=True)
class BatchJob(Generic[Config]):
    """A job that works on what is there."""

    does: str  # a line for people
    config: type[Config]
    work: Callable[[SparkSession, Config], Result]

    def read(self, asked: Invocation) -> Config:
        """Return what the file says. Raises ConfigError."""
        return load(asked.file, self.config, master=asked.master)

    def run(self, name: str, asked: Invocation) -> int:
        """Do the work and tell of it; return the exit code. Raises ConfigError, JobFailed."""
        config = self.read(asked)
        with spark_session(name, config.session) as spark:
            result = supervise(lambda: self.work(spark, config), lambda: 0, Event())
        assert result is not None, "nobody asks it to stop"
        print(json.dumps({"job": name, **result.figures()}), flush=True)
        return 0 if result.is_clean else FOUND
