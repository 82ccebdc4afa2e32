"""Rewrites days of an archive of Parquet files: few large files, in order, and each message once.

A day is exchanged in steps that can resume after a crash, in a folder `_compact/NAME` of the archive. Readers of
Parquet ignore it, as all names with an underscore:

- `new/` is written. Without a manifest it has no effect, and the next run starts over;
- `manifest.json` lists the batches that it replaces. From here on the exchange is always completed;
- `new/` becomes a batch of the day, and then the replaced batches move to `old/`: in between, and after a crash until
  the next run, a reader finds messages twice, but never misses one;
- `done` has the time of the exchange. `old/` is kept for its current readers, and then removed.

A day that cannot be read as a whole, because of a damaged file or a column with several types, stays unchanged.

Messages that arrive for the day meanwhile are a separate batch, and wait for the next run. So does a batch that the job
`archive` wrote again after a crash; its messages are dropped as repeats. The same message has the same sequence and
time of receipt: sequences alone restart with another incarnation of the spool.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final, final

import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyarrow import ArrowInvalid
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sluicegate.pipeline.directories import BATCH, DAY, as_it_is, is_folder
from sluicegate.pipeline.failures import JobFailed, unreadable_by

WORK: Final = "_compact"
MANIFEST: Final = "manifest.json"
NEW: Final = "new"
OLD: Final = "old"
DONE: Final = "done"
COMPACTED: Final = "compact"  # how batches are called that this job made
NAME_CHARACTERS: Final = 12  # of the hash that names an exchange
SAME_MESSAGE: Final = ["partition", "sequence", "received"]  # of one queue
ORDER: Final = ("partition", "sequence")


class DayLeft(Exception):
    """A day cannot be compacted, and is unchanged; the text gives the reason."""


@final
@dataclass(frozen=True, kw_only=True)
class Compacted:
    """The result for a day."""

    files_before_count: int
    files_after_count: int
    repeats_count: int  # messages that were there more than once


@contextmanager
def alone_in(root: Path) -> Iterator[None]:
    """Lock the archive against other compactions. Raises JobFailed when one is running."""
    (root / WORK).mkdir(exist_ok=True)
    with (root / WORK / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JobFailed(f"another compaction of {root} is running") from None
        yield


def carry_on(root: Path, *, remove_before_s: float) -> int:
    """Complete the exchanges of earlier runs, and remove files replaced before a time; return the number of days.

    Raises OSError.
    """
    removed_count = 0
    for work in sorted(each for each in (root / WORK).iterdir() if is_folder(each)):
        names = os.listdir(work)
        if MANIFEST not in names:
            shutil.rmtree(work)  # a write that a crash ended
        elif DONE not in names:
            _exchange(root, work)
        elif (work / DONE).stat().st_mtime < remove_before_s:
            shutil.rmtree(work)
            removed_count += 1
    return removed_count


def closed_days(root: Path, before: date) -> list[Path]:
    """Return the folders of days before one, of all queues."""
    days = sorted(root.glob(f"queue=*/{DAY}=*"))
    return [each for each in days if date.fromisoformat(each.name.partition("=")[2]) < before]


def compact_day(spark: SparkSession, root: Path, day: Path, *, file_bytes: int) -> Compacted | None:
    """Rewrite a day; return None when there is nothing to gain. Raises DayLeft and Spark's errors."""
    batches = sorted(each.name for each in day.glob(f"{BATCH}=*"))
    files = [file for each in batches for file in sorted((day / each).glob("*.parquet"))]
    if len(files) < 2 or (len(batches) == 1 and batches[0].startswith(f"{BATCH}={COMPACTED}_")):
        return None
    before_count = _row_count(files)
    work = root / WORK / _name_of(day.relative_to(root), batches)
    file_count = -(-sum(each.stat().st_size for each in files) // file_bytes)
    _write(spark, [as_it_is(day / each) for each in batches], work / NEW, file_count)
    after = sorted((work / NEW).glob("*.parquet"))
    done = Compacted(
        files_before_count=len(files),
        files_after_count=len(after),
        repeats_count=before_count - _row_count(after),
    )
    manifest = {"day": str(day.relative_to(root)), "batches": batches}
    _put_in_place(work / MANIFEST, json.dumps(manifest))
    _exchange(root, work)
    return done


def _name_of(day: Path, batches: Sequence[str]) -> str:
    told = "\n".join([str(day), *batches])
    return f"{COMPACTED}_{hashlib.sha256(told.encode()).hexdigest()[:NAME_CHARACTERS]}"


def _write(spark: SparkSession, batches: list[str], to: Path, file_count: int) -> None:
    try:
        # Each batch's own folder, so that names of directories are no columns: they stay what they are.
        rows = spark.read.option("mergeSchema", "true").parquet(*batches)
        missing = [each for each in SAME_MESSAGE if each not in rows.columns]
        if missing:
            raise DayLeft(f"it lacks the columns {', '.join(missing)}, by which a message is known again")
        (
            rows.dropDuplicates(SAME_MESSAGE)
            .repartitionByRange(file_count, *ORDER)
            .sortWithinPartitions(*ORDER)
            .write.mode("overwrite")
            .parquet(str(to))
        )
    except (Py4JJavaError, PySparkException) as error:
        reason = unreadable_by(error)
        if reason is None:
            raise
        raise DayLeft(reason) from None


def _exchange(root: Path, work: Path) -> None:
    manifest = json.loads((work / MANIFEST).read_text(encoding="utf-8"))
    day = root / manifest["day"]
    if NEW in os.listdir(work):
        (work / NEW).rename(day / f"{BATCH}={work.name}")
    (work / OLD).mkdir(exist_ok=True)
    moved = os.listdir(work / OLD)
    for name in manifest["batches"]:
        # One that is there and here was written again since: it waits for the next run.
        if name not in moved:
            with suppress(FileNotFoundError):  # somebody removed it
                (day / name).rename(work / OLD / name)
    (work / DONE).touch()


def _put_in_place(path: Path, text: str) -> None:
    """Write a file atomically."""
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)


def _row_count(files: Sequence[Path]) -> int:
    """Count the rows. Raises DayLeft where a file is damaged: Spark ignores an empty one silently."""
    count = 0
    for each in files:
        try:
            count += int(pq.read_metadata(each).num_rows)
        except ArrowInvalid as error:
            raise DayLeft(f"{each} is damaged: {error}") from None
    return count
