"""The jobs there are, by the names that operators give."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipeline.archive import archive
from pipeline.configuration import ArchiveJob
from pipeline.trigger import Trigger


@final
@dataclass(frozen=True)
class StreamingJob:
    """A job that reads a queue as a stream."""

    does: str  # a line for people
    config: type[ArchiveJob]
    start: Callable[[SparkSession, ArchiveJob, Trigger], StreamingQuery]


JOBS: Final = {"archive": StreamingJob("what comes into a queue, as Parquet files", ArchiveJob, archive)}
