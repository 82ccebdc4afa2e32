"""The Spark session of a job: made from its configuration, ended with it."""

import os
import sys
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
from sluicegate.pipeline.spark.working_folder import working_folder

HERE: Final = "local[*,4]"  # 4: tries of a task, of which local[*] has only one
CONNECT: Final = "sc://"  # begins the address of a server of Spark Connect, which has a session already


@contextmanager
def spark_session(job: str, settings: SessionSettings) -> Iterator[SparkSession]:
    """Give a session for as long as the block runs. What else it shall have comes from `spark-defaults.conf`.

    Its warehouse is a folder that is removed: jobs make no tables, and Spark would leave one where it was started.
    Raises JobFailed where Spark does not begin, as with a master that it does not know.
    """
    builder = SparkSession.builder.appName(f"sluicegate {job}")
    needed_here: Callable[[Path], AbstractContextManager[object]] = spark_environment
    if settings.master is not None and settings.master.startswith(CONNECT):
        builder = builder.remote(settings.master)
        needed_here = nullcontext  # neither a Java nor a home
    elif settings.master is not None or SUBMITTED not in os.environ:
        builder = builder.master(settings.master or HERE)
    with working_folder() as folder, needed_here(folder):
        session = _begun(
            builder.config("spark.driver.memory", settings.memory)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())  # bars, for people
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            # Spark's default, INT96, is what other readers of Parquet gave up.
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
