"""The job `audit`: its file, its steps, and the comparison of input and output messages by Spark.

- Lost: more often in the input than in the output. Duplicated: the reverse. Foreign: in the output, never in the input.
- Out of order: a later input message of the same key came out before it. Of a repeated message, the first counts.
- Sequences are compared within a partition, where they mean order. The messages of a key are in one partition, except
  while the number of partitions changes.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, final

from pydantic import Field
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as fn

from sluicegate.pipeline.archive.reader import Archived
from sluicegate.pipeline.configuration import JobFile, Section
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.jobs.audit.findings import (
    DUPLICATED,
    FOREIGN,
    LOST,
    OUT_OF_ORDER,
    UNIDENTIFIED,
    WRONGS,
    AuditResult,
    Moment,
    Sample,
)
from sluicegate.pipeline.report.page import write_report

SAMPLES_MAX: Final = 1_000
JUDGES_ALL: Final = "true"
BUCKETS: Final = 120  # points of a line over time
LATENCIES_PER_DECADE: Final = 5  # columns of the histogram of latencies
FRACTIONS: Final = (0.5, 0.9, 0.99, 0.999, 1.0)

# Conditions on a row of `paired`, and how many messages such a row counts for.
_CONDITIONS: Final = {
    LOST: ("identity is not null and sent > arrived", "sent - arrived"),
    DUPLICATED: ("identity is not null and sent > 0 and arrived > sent", "arrived - sent"),
    FOREIGN: ("identity is not null and sent = 0", "arrived"),
    OUT_OF_ORDER: ("identity is not null and overtaken", "1"),
    UNIDENTIFIED: ("identity is null", "sent + arrived"),
}


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


def paired(ingress: DataFrame, egress: DataFrame, *, identity: str, key: str) -> DataFrame:
    """Return a row for each identity: how often it came in and out, where first, and whether it was overtaken.

    `identity` and `key` are SQL over the columns of either side.
    """
    came_in, came_out = _by_identity(ingress, identity, key, "sent"), _by_identity(egress, identity, key, "arrived")
    pairs = came_in.join(came_out, "identity", "full_outer").select(
        "identity",
        fn.coalesce("sent", fn.lit(0)).alias("sent"),
        fn.coalesce("arrived", fn.lit(0)).alias("arrived"),
        fn.coalesce("sent_at.key", "arrived_at.key").alias("key"),
        fn.coalesce("sent_at.received", "arrived_at.received").alias("received"),
        "sent_at",
        "arrived_at",
    )
    return pairs.withColumns(
        {
            "received_ms": fn.unix_millis("received"),
            "latency_ms": fn.unix_millis("arrived_at.received") - fn.unix_millis("sent_at.received"),
            "overtaken": _overtaken(),
        }
    )


def findings(pairs: DataFrame, *, samples: int) -> AuditResult:
    """Return the findings of the pairs, with at most `samples` examples of each kind. Reads the pairs several times."""
    totals = _totals(pairs)
    return AuditResult(
        sent_count=totals.sent,
        arrived_count=totals.arrived,
        key_count=totals.key_count,
        wrong_counts={name: totals[name] for name in WRONGS},
        latency_ms=dict(zip(FRACTIONS, totals.latency or (), strict=False)),
        latency_counts=_latency_counts(pairs),
        moments=_moments(pairs, totals.first_ms, totals.last_ms) if totals.sent or totals.arrived else (),
        samples=tuple(each for name in WRONGS if totals[name] for each in _samples(pairs, name, samples)),
    )


def _by_identity(rows: DataFrame, identity: str, key: str, word: str) -> DataFrame:
    places = ("received", "queue", "partition", "sequence")
    chosen = rows.select(fn.expr(identity).alias("identity"), fn.expr(key).alias("key"), *places)
    first = fn.min(fn.struct(*places, "key"))
    return chosen.groupBy("identity").agg(fn.count("*").alias(word), first.alias(f"{word}_at"))


def _overtaken() -> Column:
    earlier = (
        Window.partitionBy("key", "sent_at.queue", "sent_at.partition", "arrived_at.queue", "arrived_at.partition")
        .orderBy("arrived_at.sequence")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    is_ordered = fn.col("key").isNotNull() & (fn.col("sent") > 0) & (fn.col("arrived") > 0)
    later_was_before = fn.max("sent_at.sequence").over(earlier) > fn.col("sent_at.sequence")
    return is_ordered & fn.coalesce(later_was_before, fn.lit(False))


def _totals(pairs: DataFrame) -> Row:
    wrongs = [
        fn.coalesce(fn.sum(fn.expr(f"if({condition}, {surplus}, 0)")), fn.lit(0)).alias(name)
        for name, (condition, surplus) in _CONDITIONS.items()
    ]
    row: Any = pairs.agg(
        fn.coalesce(fn.sum("sent"), fn.lit(0)).alias("sent"),
        fn.coalesce(fn.sum("arrived"), fn.lit(0)).alias("arrived"),
        fn.count_distinct("key").alias("key_count"),
        fn.min("received_ms").alias("first_ms"),
        fn.max("received_ms").alias("last_ms"),
        fn.percentile_approx("latency_ms", list(FRACTIONS)).alias("latency"),
        *wrongs,
    ).first()
    return row  # type: ignore[no-any-return]  # an aggregate of everything has one row


def _latency_counts(pairs: DataFrame) -> Mapping[float, int]:
    step = fn.ceil(fn.log10(fn.col("latency_ms") + 1) * LATENCIES_PER_DECADE).alias("step")
    counted = {
        int(row["step"]): int(row["count"])
        for row in pairs.where("latency_ms >= 0").groupBy(step).count().collect()
    }  # fmt: skip
    steps = range(min(counted), max(counted) + 1) if counted else range(0)
    return {10 ** (each / LATENCIES_PER_DECADE): counted.get(each, 0) for each in steps}


def _moments(pairs: DataFrame, first_ms: int, last_ms: int) -> tuple[Moment, ...]:
    piece_ms = (last_ms - first_ms) // BUCKETS + 1
    piece = fn.floor((fn.col("received_ms") - first_ms) / piece_ms).alias("piece")
    wrong = " or ".join(f"({condition})" for condition, _surplus in _CONDITIONS.values())
    rows = pairs.groupBy(piece).agg(
        fn.sum("sent").alias("sent"),
        fn.sum("arrived").alias("arrived"),
        fn.count_if(fn.expr(wrong)).alias("wrong"),
    )
    found = {row.piece: row for row in rows.collect()}
    return tuple(
        Moment(_moment(first_ms + each * piece_ms), row.sent, row.arrived, row.wrong)
        if (row := found.get(each)) is not None
        else Moment(_moment(first_ms + each * piece_ms), 0, 0, 0)
        for each in range((last_ms - first_ms) // piece_ms + 1)
    )


def _samples(pairs: DataFrame, name: str, most: int) -> list[Sample]:
    condition, _surplus = _CONDITIONS[name]
    return [
        Sample(
            wrong=name,
            identity=_text(row.identity),
            key=row.key,
            sent_count=row.sent,
            arrived_count=row.arrived,
            sent_at=_place(row.sent_at),
            arrived_at=_place(row.arrived_at),
            received=_moment(row.received_ms),
        )
        for row in pairs.where(condition).orderBy("received_ms", "identity").limit(most).collect()
    ]


def _moment(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)


def _text(identity: Any) -> str:
    """Return an identity as text; empty when there is none."""
    if identity is None:
        return ""
    is_binary = isinstance(identity, bytes | bytearray)  # which of the two is a setting of Spark's
    return bytes(identity).decode("utf-8", "replace") if is_binary else str(identity)


def _place(at: Row | None) -> str:
    return "" if at is None else f"{at.queue}/{at.partition}/{at.sequence}"
