"""The report on aggregates: a plot for each measure, with lines for the groups with the most windows."""

import json
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as fn

from sluicegate.pipeline.jobs.aggregate.windows import END, START, WindowsTable
from sluicegate.pipeline.report.charts import LINES_MAX, Line, lines_over_time
from sluicegate.pipeline.report.page import Fact, Plot, Report, Table, count

WINDOWS_SHOWN: Final = 500  # of each group, the latest
ROWS_SHOWN: Final = 20

# Columns beside those that users name, who begin names with a letter.
_GROUP: Final = "_group"  # JSON of what a group is, so that two that read alike are two
_RANK: Final = "_rank"
_START_MS: Final = "_start_ms"


def page(kept: DataFrame, table: WindowsTable, path: str) -> Report:
    """Return the page on the stored windows. There is at least one."""
    named = kept.withColumn(_GROUP, fn.to_json(fn.struct(*table.by)) if table.by else fn.lit("{}"))
    totals: Any = named.agg(
        fn.count("*").alias("windows"),
        fn.count_distinct(_GROUP).alias("groups"),
        fn.unix_millis(fn.min(START)).alias("first_ms"),
        fn.unix_millis(fn.max(END)).alias("last_ms"),
    ).first()
    most = named.groupBy(_GROUP).count().orderBy(fn.desc("count"), _GROUP).limit(LINES_MAX)
    order = Window.partitionBy(_GROUP).orderBy(fn.desc(START))
    measures = [fn.col(each).cast("double").alias(each) for each in table.measures]
    shown = (
        named.join(most.select(_GROUP), _GROUP)
        .withColumn(_RANK, fn.row_number().over(order))
        .where(fn.col(_RANK) <= WINDOWS_SHOWN)
        .select(_GROUP, fn.unix_millis(START).alias(_START_MS), *measures)
        .orderBy(_START_MS)
        .collect()
    )
    return Report(
        title="Aggregates",
        verdict=f"{count(totals.windows)} windows of {count(totals.groups)} groups",
        is_good=True,
        about=(
            ("kept at", path),
            ("windows", table.window or f"until a group is quiet for {table.session_gap}"),
            ("from", f"{_time(totals.first_ms)} to {_time(totals.last_ms)}"),
        ),
        facts=(Fact("windows", count(totals.windows)), Fact("groups", count(totals.groups))),
        parts=(*(_plot(name, table, shown) for name in table.measures), _table(table, shown)),
    )


def _plot(name: str, table: WindowsTable, shown: list[Row]) -> Plot:
    by_group: defaultdict[str, list[Row]] = defaultdict(list)
    for row in shown:
        if row[name] is not None:
            by_group[row[_GROUP]].append(row)
    lines = [
        Line(_read(group, table), [_moment(row[_START_MS]) for row in rows], [row[name] for row in rows])
        for group, rows in sorted(by_group.items())
    ]
    return Plot(name, f"{table.measures[name]}, by the beginning of the window.", lines_over_time(lines, says=name))


def _table(table: WindowsTable, shown: list[Row]) -> Table:
    measures = list(table.measures)
    return Table(
        title="The latest windows",
        says="Of the groups above.",
        headings=("begins", "group", *measures),
        rows=[
            (
                _time(row[_START_MS]),
                _read(row[_GROUP], table),
                *("" if row[each] is None else f"{row[each]:,.6g}" for each in measures),
            )
            for row in shown[-ROWS_SHOWN:][::-1]
        ],
        numeric=frozenset(range(2, 2 + len(measures))),
    )


def _read(group: str, table: WindowsTable) -> str:
    """Return a group as text for people."""
    values = json.loads(group)
    return " / ".join(str(values.get(each, "none")) for each in table.by) or "all"


def _moment(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)


def _time(millis: int) -> str:
    return _moment(millis).strftime("%Y-%m-%d %H:%M:%S")
