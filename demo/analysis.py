"""The demo's second half: jobs of Spark, from files that `sluicegate pipeline run` takes as well."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final, final

from pyspark.sql import SparkSession

from demo.traffic import CURSOR, SOURCE, TARGET
from sluicegate.pipeline.configuration import ArchiveJob, load
from sluicegate.pipeline.jobs.aggregate.job import AggregateJob, aggregate
from sluicegate.pipeline.jobs.archive import archive
from sluicegate.pipeline.jobs.audit.findings import AuditResult
from sluicegate.pipeline.jobs.audit.job import AuditJob, audit
from sluicegate.pipeline.run.attempt import Trigger, supervise
from sluicegate.pipeline.run.job import run_stream

ARCHIVE_IN: Final = """\
# What came in, read beside the workers.
checkpoint = "{folder}/checkpoints/in"
[source]
url = "{url}"
queue = "{source}"
cursor = "{cursor}"
mode = "tap"
[archive]
path = "{folder}/archive"
"""

ARCHIVE_OUT: Final = """\
# What the workers made of it, taken out of its queue.
checkpoint = "{folder}/checkpoints/out"
[source]
url = "{url}"
queue = "{target}"
cursor = "{cursor}"
mode = "consume"
[archive]
path = "{folder}/archive"
"""

AGGREGATE: Final = """\
# What the weather was, week by week, from what the workers made of it.
checkpoint = "{folder}/checkpoints/weekly"
[source]
url = "{url}"
queue = "{target}"
cursor = "weekly"
mode = "tap"
[decode]
format = "json"
columns = "at timestamp, value double, unit string"
[aggregate]
path = "{folder}/weekly"
report = "{folder}/weekly.html"
report_days = 2200
state_partitions = 2
[aggregate.windows]
event_time = "value.at"
watermark = "1 day"
window = "7 days"
by = {{ sensor = "partition_key", unit = "value.unit" }}
measures = {{ mean = "avg(value.value)", least = "min(value.value)", most = "max(value.value)" }}
"""

AUDIT: Final = """\
[audit]
report = "{folder}/audit.html"
identity = "correlation_id"
[audit.ingress]
path = "{folder}/archive"
where = "queue = '{source}'"
[audit.egress]
path = "{folder}/archive"
where = "queue = '{target}'"
"""

FILES: Final = {"weekly": AGGREGATE, "archive-in": ARCHIVE_IN, "archive-out": ARCHIVE_OUT, "audit": AUDIT}


@final
@dataclass(frozen=True)
class Analysis:
    """The jobs, on one session: each alone would start a JVM of its own."""

    spark: SparkSession
    folder: Path

    def write_files(self, url: str) -> None:
        """Write the jobs' files."""
        for name, text in FILES.items():
            filled = text.format(folder=self.folder, url=url, source=SOURCE, target=TARGET, cursor=CURSOR)
            self._file(name).write_text(filled)

    def archive(self, name: str, told: Callable[[str], None]) -> None:
        """Archive what is there; `told` gets the line of each batch. Raises JobFailed."""
        config = load(self._file(name), ArchiveJob)
        run_stream(self.spark, name, config, archive, trigger=Trigger(None), write=told, stopping=Event())

    def aggregate(self, name: str, told: Callable[[str], None]) -> None:
        """Aggregate what is there; `told` gets the line of each batch. Raises JobFailed."""
        config = load(self._file(name), AggregateJob)
        run_stream(self.spark, name, config, aggregate, trigger=Trigger(None), write=told, stopping=Event())

    def audit(self) -> AuditResult:
        """Compare what came in with what came out. Raises JobFailed."""
        found = supervise(lambda: audit(self.spark, load(self._file("audit"), AuditJob)), lambda: 0, Event())
        assert found is not None, "nobody asks it to stop"
        return found

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.toml"
