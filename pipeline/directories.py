"""Batches of a stream as directories of Parquet files: `PATH/queue=Q/dt=DAY/batch=NAME/*.parquet`.

Each batch has its own directories, and writing it again replaces them; so any reader of the files finds each message
once, after any crash. Spark's own file sink guarantees that to Spark only, through a log beside the files.
"""

import logging
import re
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

PLACING_COLUMNS: Final = ("queue", "received")  # directories are made of them
DAY: Final = "dt"
BATCH: Final = "batch"
PARTITIONED_BY: Final = ("queue", DAY)
STAGING: Final = ".spark-staging-"  # prefix of the folders in which Spark writes before it moves files in place
STAGING_LEFT_AFTER_S: Final = 86_400  # no batch takes so long between two of its files
LINEAGE_CHARACTERS: Final = 8  # of the query's id: 32 bits, for the few queries that ever write to one place
_OF_PATTERNS: Final = re.compile(r"[\\[\]{}*?]")

_log: Final = logging.getLogger("pipeline")


def is_folder(path: Path) -> bool:
    """Return whether a folder is at a path. Raises OSError if that cannot be told.

    `Path.is_dir` says no to each error, from Python 3.14 on.
    """
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def batch_name(query_id: str, batch: int) -> str:
    """Return the name of a batch, which includes its query: after a lost checkpoint the count restarts at 0.

    An underscore separates the two, so that no name parses as a number, as `1234567e-5` would.
    """
    return f"{query_id[:LINEAGE_CHARACTERS]}_{batch}"


def with_day(rows: DataFrame, of: str = "received") -> DataFrame:
    """Return the rows with the day of a time column, in UTC."""
    return rows.withColumn(DAY, fn.to_date(of))


def write_batch(rows: DataFrame, path: str, name: str, by: Sequence[str] = PARTITIONED_BY) -> None:
    """Write rows with their day, and replace the batch's earlier files; `by` names the enclosing directories."""
    _remove_staging_left(path)
    (
        rows.withColumn(BATCH, fn.lit(name))
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .partitionBy(*by, BATCH)
        .parquet(path)
    )


def _remove_staging_left(path: str) -> None:
    """Remove the unfinished files of killed jobs from a folder of this host.

    Spark gives each a random name, so only their age shows that no job will continue.
    """
    before_s = time.time() - STAGING_LEFT_AFTER_S
    for each in Path(path).glob(f"{STAGING}*"):
        try:
            youngest_s = max(inside.stat().st_mtime for inside in (each, *each.rglob("*")))
        except FileNotFoundError:
            continue  # another process moves files out of it, so it is in use
        if youngest_s < before_s:
            shutil.rmtree(each, ignore_errors=True)
            _log.info("removed %s, a leftover of a killed job", each)


def as_it_is(path: str | Path) -> str:
    """Return a path escaped for Spark's readers, which interpret patterns in names; its writers do not."""
    return _OF_PATTERNS.sub(r"\\\g<0>", str(path))


@final
@dataclass(frozen=True)
class BatchFile:
    """A file of a batch."""

    path: Path
    queue: str
    day: str


def has_batches(path: str) -> bool:
    """Return whether batches were written to a folder of this host, by queue and day."""
    return any(Path(path).glob(f"queue=*/{DAY}=*"))


def files_of(path: Path, name: str) -> Iterator[BatchFile]:
    """Yield the files of a batch, in a folder of this host."""
    for file in sorted(path.glob(f"queue=*/{DAY}=*/{BATCH}={name}/*.parquet")):
        queue, day = (unquote(part.partition("=")[2]) for part in file.relative_to(path).parts[:2])
        yield BatchFile(file, queue, day)
