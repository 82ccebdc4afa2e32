"""The job `dmq`: shows the messages of a dead message queue, the reasons, and the action to take.

It reads without removing messages. Dead messages contain the queue and reason of their dead-lettering
(`messaging.message.headers`). The gateway redrives, moves and deletes messages: the plan names the commands.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, final

from pydantic import Field
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as fn

from sluicegate.messaging.message import headers as dead
from sluicegate.messaging.message.headers import TIME_MS_MAX
from sluicegate.messaging.message.outcomes import DISCARD_EXPIRED, DISCARD_MAX_REDELIVERY
from sluicegate.pipeline.configuration import QueueJob, Section
from sluicegate.pipeline.run.job import ISO_8601, alike

GROUPS_MAX: Final = 200  # the largest groups are listed; the others are counted
SAMPLES_MAX: Final = 100
TOPICS_SHOWN: Final = 5  # of each group
CAUTIOUS_RATE: Final = 50  # messages per second of a re-drive whose consumer has failed before

GROUPED_BY: Final = ("died_in", "reason", "cause")

REDRIVE: Final = "redrive"
EXAMINE: Final = "examine"


@final
class DmqTable(Section):
    """`[dmq]`: the contents of the output."""

    samples: Annotated[int, Field(ge=0, le=SAMPLES_MAX)] = 3  # ids of messages, of each group


@final
class DmqJob(QueueJob):
    """The file of `dmq`; its `source` names the dead message queue."""

    dmq: DmqTable = DmqTable()


@final
@dataclass(frozen=True, kw_only=True)
class DeadGroup:
    """Messages dead-lettered from one queue for one reason, with similar causes."""

    queue: str | None  # None: they were published here directly
    reason: str | None
    cause: str | None  # with # for numbers; None: unknown
    count: int
    payload_bytes: int
    deliveries_max: int
    died_again_count: int  # that died in a dead message queue since
    oldest: str  # when it died, or came here: ISO 8601
    newest: str
    topics: Sequence[str]  # the most frequent ones
    samples: Sequence[str]  # ids, as `sluicegate queue browse` shows them


@final
@dataclass(frozen=True)
class Step:
    """The action for the messages dead-lettered from one queue for one reason."""

    do: str  # REDRIVE or EXAMINE
    count: int
    because: str
    command: str


@final
@dataclass(frozen=True, kw_only=True)
class DmqResult:
    """The contents of a dead message queue."""

    queue: str
    count: int
    groups: Sequence[DeadGroup]  # the largest first
    others_count: int  # messages of unlisted groups
    plan: Sequence[Step]

    @property
    def is_clean(self) -> bool:
        """Whether there are no dead messages."""
        return self.count == 0

    def figures(self) -> Mapping[str, object]:
        """Return the results, as JSON values."""
        return asdict(self)


def dmq(spark: SparkSession, config: DmqJob) -> DmqResult:
    """Read the queue's current messages. Raises the errors of Spark and the data source."""
    rows = spark.read.format("sluicegate").options(**config.source_options).load()
    return findings(rows, config.source_options["queue"], samples=config.dmq.samples)


def findings(rows: DataFrame, queue: str, *, samples: int) -> DmqResult:
    """Return the groups and plan for the rows of a dead message queue."""
    groups = _grouped(rows, samples).persist()
    try:
        shown = [_group_of(row) for row in groups.orderBy(fn.desc("count"), *GROUPED_BY).limit(GROUPS_MAX).collect()]
        deaths = groups.groupBy("died_in", "reason").agg(
            fn.sum("count").alias("count"), fn.sum("died_again_count").alias("died_again_count")
        )
        found: list[Any] = deaths.orderBy(fn.desc("count"), "died_in", "reason").collect()
    finally:
        groups.unpersist()
    count = sum(each["count"] for each in found)
    return DmqResult(
        queue=queue,
        count=count,
        groups=shown,
        others_count=count - sum(each.count for each in shown),
        plan=[
            step_for(queue, each.died_in, each.reason, count=each["count"], died_again_count=each.died_again_count)
            for each in found
            if each.reason is not None and each.died_in is not None
        ],
    )


def step_for(queue: str, died_in: str, reason: str, *, count: int, died_again_count: int) -> Step:
    """Return the action for the messages dead-lettered from one queue for one reason."""
    redrive = (
        f"sluicegate queue redrive {shlex.quote(queue)} --dead-queue {shlex.quote(died_in)} --dead-reason {reason}"
    )
    browse = f"sluicegate queue browse {shlex.quote(queue)}"
    if died_again_count:
        return Step(EXAMINE, count, f"{died_again_count} died again since: driving them back did not help", browse)
    if reason == DISCARD_EXPIRED:
        return Step(REDRIVE, count, "nobody took them in time; their time to live begins anew", redrive)
    if reason == DISCARD_MAX_REDELIVERY:
        because = "their consumer failed over and over; mend it first, and drive them back slowly"
        return Step(REDRIVE, count, because, f"{redrive} --rate {CAUTIOUS_RATE}")
    return Step(EXAMINE, count, "their consumer refused them, and will again unless it or they are changed", browse)


def _grouped(rows: DataFrame, samples: int) -> DataFrame:
    died_ms = _property(dead.TIME_MS).try_cast("bigint")
    died = fn.when(died_ms.between(0, TIME_MS_MAX), fn.timestamp_millis(died_ms))
    deaths = rows.select(
        _property(dead.QUEUE).alias("died_in"),
        _property(dead.REASON).alias("reason"),
        alike(_property(dead.CAUSE)).alias("cause"),
        fn.coalesce(_property(dead.DELIVERY_COUNT).try_cast("int"), fn.lit(0)).alias("deliveries"),
        _property(dead.VIA).isNotNull().alias("died_again"),
        fn.coalesce(died, "received").alias("died"),
        "partition",
        "sequence",
        "topic",
        fn.length("payload").alias("payload_bytes"),
    )
    oldest_first = Window.partitionBy(*GROUPED_BY).orderBy("died", "partition", "sequence")
    number = fn.row_number().over(oldest_first)
    place = fn.concat_ws(":", "partition", "sequence").alias("id")
    return (
        deaths.withColumn("sample", fn.when(number <= samples, fn.struct(number.alias("number"), place)))
        .groupBy(*GROUPED_BY)
        .agg(
            fn.count("*").alias("count"),
            fn.sum("payload_bytes").alias("payload_bytes"),
            fn.max("deliveries").alias("deliveries_max"),
            fn.count_if("died_again").alias("died_again_count"),
            fn.date_format(fn.min("died"), ISO_8601).alias("oldest"),
            fn.date_format(fn.max("died"), ISO_8601).alias("newest"),
            fn.expr(f"approx_top_k(topic, {TOPICS_SHOWN})").alias("topics"),
            fn.array_sort(fn.collect_list("sample")).alias("samples"),
        )
    )


def _property(name: str) -> Column:
    """Return the gateway's property, which follows any that a publisher wrote under the same name."""
    said = fn.filter(fn.map_entries("user_properties"), lambda each: each["key"] == name)
    return fn.try_element_at(said, fn.lit(-1))["value"]


def _group_of(row: Row) -> DeadGroup:
    found: Any = row
    return DeadGroup(
        queue=found.died_in,
        reason=found.reason,
        cause=found.cause,
        count=found["count"],
        payload_bytes=found.payload_bytes,
        deliveries_max=found.deliveries_max,
        died_again_count=found.died_again_count,
        oldest=found.oldest,
        newest=found.newest,
        topics=[each.item for each in found.topics if each.item is not None],
        samples=[each.id for each in found.samples],
    )
