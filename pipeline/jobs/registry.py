"""All jobs, by their names on the command line."""

from collections.abc import Mapping
from typing import Final, Protocol

from sluicegate.pipeline.configuration import ArchiveJob, JobFile
from sluicegate.pipeline.jobs.aggregate.job import AggregateJob, aggregate
from sluicegate.pipeline.jobs.archive import archive
from sluicegate.pipeline.jobs.audit.job import AuditJob, audit
from sluicegate.pipeline.jobs.compact.job import CompactJob, compact
from sluicegate.pipeline.jobs.dmq.job import DmqJob, dmq
from sluicegate.pipeline.jobs.presence.job import PresenceJob, presence
from sluicegate.pipeline.jobs.profile.job import ProfileJob, profile
from sluicegate.pipeline.jobs.replay import ReplayJob, replay
from sluicegate.pipeline.jobs.skew.job import SkewJob, skew
from sluicegate.pipeline.run.batch_job import BatchJob
from sluicegate.pipeline.run.invocation import Invocation
from sluicegate.pipeline.run.streaming_job import StreamingJob


class Job(Protocol):
    """The interface of a job for the command line."""

    @property
    def does(self) -> str:
        """A line for people."""

    def read(self, asked: Invocation) -> JobFile:
        """Return what its file says. Raises ConfigError."""

    def run(self, name: str, asked: Invocation) -> int:
        """Run; return the exit code. Raises ConfigError, JobFailed, CheckpointError."""


JOBS: Final[Mapping[str, Job]] = {
    "aggregate": StreamingJob[AggregateJob]("what comes into a queue, by windows of time", AggregateJob, aggregate),
    "archive": StreamingJob[ArchiveJob](
        "what comes into a queue, as Parquet files or a Delta table", ArchiveJob, archive
    ),
    "audit": BatchJob[AuditJob]("what came in against what came out: lost, duplicated, out of order", AuditJob, audit),
    "compact": BatchJob[CompactJob]("days of an archive that are over, as few large files", CompactJob, compact),
    "dmq": BatchJob[DmqJob]("what lies in a dead message queue and why, and what to do about it", DmqJob, dmq),
    "presence": BatchJob[PresenceJob]("who was connected when, by the gateway's events", PresenceJob, presence),
    "profile": BatchJob[ProfileJob]("what payloads are like, topic by topic", ProfileJob, profile),
    "replay": BatchJob[ReplayJob]("a part of an archive into a queue, or to topics, again", ReplayJob, replay),
    "skew": BatchJob[SkewJob]("which keys make a partition hot, and what more or fewer would do", SkewJob, skew),
}
