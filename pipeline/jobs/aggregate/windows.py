"""Windows of time over a stream: groups, measures, and the closing of windows.

A window closes, and is written once, when the watermark passes its end: the latest event time seen, less the allowed
delay of events. Spark counts later events as late; this module counts rows without an event time.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Self, final

from pydantic import Field, model_validator
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from sluicegate.pipeline.configuration import Section
from sluicegate.pipeline.directories import BATCH, DAY
from sluicegate.pipeline.run.progress import UNTIMED

START: Final = "window_start"
END: Final = "window_end"
EVENT_TIME: Final = "event_time"
OURS: Final = (START, END, EVENT_TIME, DAY, BATCH)  # columns of the rows, and of the files that they are written to

_WINDOW: Final = "_window"  # no name of a user's begins so

Sql = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


@final
class WindowsTable(Section):
    """`[aggregate]`, its part on windows. Times are intervals as Spark writes them, such as `10 minutes`."""

    event_time: Sql  # SQL over the columns of the source, and `value` of the decode stage
    watermark: Sql
    window: Sql | None = None
    slide: Sql | None = None  # None: windows do not overlap
    session_gap: Sql | None = None  # in place of window: a window ends when its group is quiet for so long
    by: Mapping[Name, Sql] = {}  # groups: a name and SQL for each
    measures: Annotated[Mapping[Name, Sql], Field(min_length=1)]  # a name and an aggregate of SQL for each

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if (self.window is None) == (self.session_gap is None):
            raise ValueError("window or session_gap has to be given, and one of them")
        if self.slide is not None and self.window is None:
            raise ValueError("slide is for window, and session_gap has none")
        names = [*self.by, *self.measures]
        if set(OURS) & set(names) or len(set(names)) < len(names):
            raise ValueError(f"each of by and measures needs a name of its own, other than {', '.join(OURS)}")
        return self


def aggregated(rows: DataFrame, table: WindowsTable) -> DataFrame:
    """Return a row for each window and group: start, end, the groups, the measures."""
    timed = rows.withColumn(EVENT_TIME, fn.expr(table.event_time).cast("timestamp"))
    counted = timed.observe(UNTIMED, fn.count_if(fn.col(EVENT_TIME).isNull()).alias(UNTIMED))
    groups = [fn.expr(sql).alias(name) for name, sql in table.by.items()]
    measures = [fn.expr(sql).alias(name) for name, sql in table.measures.items()]
    window = _window(table).alias(_WINDOW)
    found = counted.withWatermark(EVENT_TIME, table.watermark).groupBy(window, *groups).agg(*measures)
    times = (fn.col(f"{_WINDOW}.start").alias(START), fn.col(f"{_WINDOW}.end").alias(END))
    return found.select(*times, *table.by, *table.measures)


def _window(table: WindowsTable) -> Column:
    if table.session_gap is not None:
        return fn.session_window(EVENT_TIME, table.session_gap)
    assert table.window is not None, "the file was checked"
    return fn.window(EVENT_TIME, table.window, table.slide)
