"""The job `compact`: merges the files of past days of an archive into few large files.

The module `days` exchanges a day of Parquet files. A Delta table does that in its own log, where no message ever
appears twice.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, final

from pydantic import Field
from pyspark.sql import SparkSession

from sluicegate.pipeline.archive.reader import check_format
from sluicegate.pipeline.configuration import DELTA, ArchiveTable, JobFile
from sluicegate.pipeline.directories import is_folder
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.jobs.compact.days import Compacted, DayLeft, alone_in, carry_on, closed_days, compact_day

MIB: Final = 1024 * 1024

_log: Final = logging.getLogger("pipeline")


@final
class CompactTable(ArchiveTable):
    """`[compact]`: the archive, and the definition of its past days."""

    path: Annotated[str, Field(pattern="^/")]  # a folder of this host
    file_mb: Annotated[int, Field(ge=1, le=4096)] = 256
    closed_after_h: Annotated[int, Field(ge=0)] = 24  # after the day's end in UTC: what is late is archived by then
    replaced_kept_h: Annotated[int, Field(ge=1)] = 168  # for those who read the files that were replaced


@final
class CompactJob(JobFile):
    """The file of `compact`."""

    compact: CompactTable


@final
@dataclass(frozen=True, kw_only=True)
class CompactResult:
    """The result of a compaction."""

    day_count: int
    files_before_count: int
    files_after_count: int
    repeats_count: int
    removed_count: int  # exchanged days whose old files are gone now; of a Delta table, files
    left: Mapping[str, str] = field(default_factory=dict)  # days that cannot be compacted, by folder, and why

    @property
    def is_clean(self) -> bool:
        """Whether no day was left unchanged because of a problem."""
        return not self.left

    def figures(self) -> Mapping[str, object]:
        """Return the counts, and the days that are unchanged."""
        return {
            "days": self.day_count,
            "files_before": self.files_before_count,
            "files_after": self.files_after_count,
            "repeats": self.repeats_count,
            "removed": self.removed_count,
            "left": self.left,
        }


def compact(spark: SparkSession, config: CompactJob) -> CompactResult:
    """Compact the past days. Raises JobFailed and Spark's errors."""
    table, now = config.compact, datetime.now(UTC)
    try:
        is_there = is_folder(Path(table.path))
    except OSError as error:
        raise JobFailed(f"compact.path: {table.path} cannot be read: {error.strerror}") from None
    if not is_there:
        raise JobFailed(f"compact.path: there is no folder {table.path}")
    check_format(table)
    return _compact_delta(table, now) if table.format == DELTA else _compact_directories(spark, table, now)


def _compact_directories(spark: SparkSession, table: CompactTable, now: datetime) -> CompactResult:
    root = Path(table.path)
    remove_before = now - timedelta(hours=table.replaced_kept_h)
    before = (now - timedelta(hours=table.closed_after_h)).date()
    done: list[Compacted] = []
    left: dict[str, str] = {}
    with alone_in(root):
        removed_count = carry_on(root, remove_before_s=remove_before.timestamp())
        for day in closed_days(root, before):
            try:
                found = compact_day(spark, root, day, file_bytes=table.file_mb * MIB)
            except DayLeft as reason:
                left[str(day.relative_to(root))] = str(reason)
                _log.warning("%s stays as it is: %s", day, reason)
            else:
                done += [] if found is None else [found]
    return CompactResult(
        day_count=len(done),
        files_before_count=sum(each.files_before_count for each in done),
        files_after_count=sum(each.files_after_count for each in done),
        repeats_count=sum(each.repeats_count for each in done),
        removed_count=removed_count,
        left=left,
    )


def _compact_delta(table: CompactTable, now: datetime) -> CompactResult:
    from sluicegate.pipeline.archive.delta import compact_table

    before = (now - timedelta(hours=table.closed_after_h)).date()
    found = compact_table(table.path, before, file_bytes=table.file_mb * MIB, replaced_kept_h=table.replaced_kept_h)
    return CompactResult(
        day_count=found.day_count,
        files_before_count=found.files_before_count,
        files_after_count=found.files_after_count,
        repeats_count=0,
        removed_count=found.removed_count,
    )
