"""The job `audit`: its file and its steps. See also: the comparison itself (`comparison`)."""

from typing import Annotated, Final, final

from pydantic import Field
from pyspark.sql import SparkSession

from sluicegate.pipeline.archive.reader import Archived
from sluicegate.pipeline.configuration import JobFile, Section
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.jobs.audit.comparison import findings, paired
from sluicegate.pipeline.jobs.audit.findings import AuditResult
from sluicegate.pipeline.report.page import write_report

SAMPLES_MAX: Final = 1_000
JUDGES_ALL: Final = "true"


@final
class AuditTable(Section):
    """`[audit]`: the archives to compare, and the file of the page."""

    report: Annotated[str, Field(min_length=1)]
    ingress: Archived
    egress: Archived
    identity: Annotated[str, Field(min_length=1)]  # SQL over the columns of either side: the same for the same message
    key: Annotated[str, Field(min_length=1)] = "partition_key"  # SQL as well
    judge: Annotated[str, Field(min_length=1)] = JUDGES_ALL  # SQL over `received`: the youngest may be on their way yet
    samples: Annotated[int, Field(ge=0, le=SAMPLES_MAX)] = 20  # of each thing that is wrong


@final
class AuditJob(JobFile):
    """The file of `audit`."""

    audit: AuditTable


def audit(spark: SparkSession, config: AuditJob) -> AuditResult:
    """Compare the archives, and write the page. Raises JobFailed when the input is empty, and Spark's errors."""
    table = config.audit
    pairs = paired(table.ingress.rows(spark), table.egress.rows(spark), identity=table.identity, key=table.key)
    judged = pairs.where(table.judge).persist()
    try:
        found = findings(judged, samples=table.samples)
    finally:
        judged.unpersist()
    if not found.sent_count:
        # An empty input would look like success, and is more likely a mistake in the file.
        judged_so = "" if table.judge == JUDGES_ALL else f", of those that audit.judge takes: {table.judge}"
        raise JobFailed(f"audit.ingress: no message in {table.ingress.path} where {table.ingress.where}{judged_so}")
    from sluicegate.pipeline.jobs.audit.page import page  # late: jobs begin without Matplotlib

    write_report(page(found, ingress=table.ingress, egress=table.egress, identity=table.identity), table.report)
    return found
