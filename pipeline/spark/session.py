"""The Spark session of a job, and the folder of its temporary files: made from the job's configuration, ended with it.

A job owns its folder while it holds a lock on it; the system releases the lock when the process ends, in every case. So
each job removes the unlocked folders, which killed jobs have left, before it creates its own.
"""

import fcntl
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sluicegate.pipeline.configuration import SessionSettings
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.spark.environment import SUBMITTED, spark_environment

HERE: Final = "local[*,4]"  # 4: tries of a task, of which local[*] has only one
CONNECT: Final = "sc://"  # begins the address of a server of Spark Connect, which has a session already
PREFIX: Final = "sluicegate-pipeline-"  # of the folders of temporary files

_log: Final = logging.getLogger("pipeline")


@contextmanager
def spark_session(job: str, settings: SessionSettings) -> Iterator[SparkSession]:
    """Yield a session, which ends with the block. Its other settings come from `spark-defaults.conf`.

    Its warehouse is a folder that is removed: jobs make no tables, and Spark would leave one where it was started.
    Raises JobFailed where Spark does not start, as with an unknown master.
    """
    builder = SparkSession.builder.appName(f"sluicegate {job}")
    needed_here: Callable[[Path], AbstractContextManager[object]] = spark_environment
    if settings.master is not None and settings.master.startswith(CONNECT):
        builder = builder.remote(settings.master)
        needed_here = nullcontext  # it needs neither Java nor SPARK_HOME
    elif settings.master is not None or SUBMITTED not in os.environ:
        builder = builder.master(settings.master or HERE)
    with working_folder() as folder, needed_here(folder):
        session = _begun(
            builder.config("spark.driver.memory", settings.memory)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())  # progress bars, on a terminal
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            # Other readers of Parquet no longer support Spark's default, INT96.
            .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        )
        try:
            yield session
        finally:
            session.stop()


def _begun(builder: SparkSession.Builder) -> SparkSession:
    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        said = str(error.java_exception if isinstance(error, Py4JJavaError) else error)
        raise JobFailed("Spark did not begin: " + said.partition("\n")[0]) from None


@contextmanager
def working_folder() -> Iterator[Path]:
    """Yield a folder below the system's temporary folder, for the length of the block. Raises OSError."""
    for each in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        _remove_if_left(each)
    folder, handle = _made()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a JVM may still write there: the next job removes the rest
        os.close(handle)


def _made() -> tuple[Path, int]:
    """Return a new folder, and the handle that locks it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        handle = _held(folder)
        if handle is not None and folder.exists():
            return folder, handle
        if handle is not None:
            os.close(handle)  # another job removed it before it was locked


def _remove_if_left(folder: Path) -> None:
    handle = _held(folder)
    if handle is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)
        _log.info("removed %s, a leftover of a killed job", folder)


def _held(folder: Path) -> int | None:
    """Return the handle that locks a folder; None when another job has it, or it is gone."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle
