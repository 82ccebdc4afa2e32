"""The job `presence`: writes the table of client connections, and summarizes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, final

from pydantic import Field
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as fn

from sluicegate.pipeline.configuration import QueueJob, Section
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.jobs.presence.connections import connections, events_in, presence_of, silent_in
from sluicegate.pipeline.run.job import ISO_8601

SHOWN_MAX: Final = 1_000


@final
class PresenceTable(Section):
    """`[presence]`: the folder of the table, and the number of listed clients."""

    path: Annotated[str, Field(min_length=1)]
    restless: Annotated[int, Field(ge=0, le=SHOWN_MAX)] = 10  # clients that came and went most often
    alert_after_s: Annotated[int, Field(ge=1)] | None = None  # a client that has been away for so long is silent
    silent: Annotated[int, Field(ge=0, le=SHOWN_MAX)] = 10  # of them, those that have been so for longest


@final
class PresenceJob(QueueJob):
    """The file of `presence`; its `source` names a queue that collects the events of clients."""

    presence: PresenceTable


@final
@dataclass(frozen=True, kw_only=True)
class PresenceResult:
    """The result from the events."""

    clients_count: int
    present_count: int  # by the last event of each
    connections_count: int
    untold_count: int  # connections whose end no event tells
    restless: Mapping[str, int]  # by client: how often it came
    silent_count: int
    silent: Mapping[str, str]  # by client: since when, in UTC

    @property
    def is_clean(self) -> bool:
        """Whether no client is silent."""
        return self.silent_count == 0

    def figures(self) -> Mapping[str, object]:
        """Return the counts."""
        return {
            "clients": self.clients_count,
            "present": self.present_count,
            "connections": self.connections_count,
            "untold_ends": self.untold_count,
            "restless": dict(self.restless),
            "silent": self.silent_count,
            "silent_since": dict(self.silent),
        }


def presence(spark: SparkSession, config: PresenceJob) -> PresenceResult:
    """Write `PATH/*.parquet`: `client, began, ended`. Raises JobFailed, and the errors of Spark and the data source."""
    table, now = config.presence, datetime.now(UTC)
    _check_is_its_own(Path(table.path))
    rows = spark.read.format("sluicegate").options(**config.source_options).load()
    found = connections(events_in(rows)).persist()
    stays = presence_of(found).orderBy("client", "began").persist()
    try:
        stays.write.mode("overwrite").parquet(table.path)
        totals: Any = found.agg(
            fn.count("*").alias("connections"),
            fn.count_if(fn.col("ended").isNotNull() & ~fn.col("is_told")).alias("untold"),
        ).first()
        clients: Any = stays.agg(
            fn.count_distinct("client").alias("clients"), fn.count_if(fn.col("ended").isNull()).alias("present")
        ).first()
        often = stays.groupBy("client").count().orderBy(fn.desc("count"), "client").limit(table.restless).collect()
        silent_count = 0
        longest: list[Row] = []
        if table.alert_after_s is not None:
            away = silent_in(stays, now - timedelta(seconds=table.alert_after_s)).orderBy("since", "client")
            told = away.select("client", fn.date_format("since", ISO_8601).alias("since"))
            silent_count, longest = away.count(), told.limit(table.silent).collect()
    finally:
        stays.unpersist()
        found.unpersist()
    return PresenceResult(
        clients_count=clients.clients,
        present_count=clients.present,
        connections_count=totals.connections,
        untold_count=totals.untold,
        restless={row["client"]: row["count"] for row in often if row["count"] > 1},
        silent_count=silent_count,
        silent={row["client"]: row["since"] for row in longest},
    )


def _check_is_its_own(folder: Path) -> None:
    """Raise JobFailed if a folder of this host has other files than the table: Spark would remove them."""
    names = [each.name for each in folder.glob("*")]
    others = sorted(each for each in names if not each.startswith((".", "_")) and not each.endswith(".parquet"))
    if others:
        raise JobFailed(f"presence.path: {folder} has {others[0]}, and is written anew; the table needs its own folder")
