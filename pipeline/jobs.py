"""The jobs there are, by the names that operators give."""

from collections.abc import Mapping
from typing import Final, Protocol

from pipeline.archive import archive
from pipeline.audit.job import AuditJob, audit
from pipeline.batch_job import BatchJob
from pipeline.configuration import ArchiveJob
from pipeline.invocation import Invocation
from pipeline.streaming_job import StreamingJob


class Job(Protocol):
    """What the command line needs of a job, whatever its file says."""

    @property
    def does(self) -> str:
        """A line for people."""

    def run(self, name: str, asked: Invocation) -> int:
        """Run; return the exit code. Raises ConfigError, JobFailed, CheckpointError."""


JOBS: Final[Mapping[str, Job]] = {
    "archive": StreamingJob("what comes into a queue, as Parquet files or a Delta table", ArchiveJob, archive),
    "audit": BatchJob("what came in against what came out: lost, duplicated, out of order", AuditJob, audit),
}
