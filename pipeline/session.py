"""The Spark session of a job: made from its configuration, ended with it."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from pipeline.configuration import SessionSettings

INSTALLED: Final = Path(pyspark.__file__).parent  # which has Spark itself, when pip installed it
SPARK_HOME: Final = "SPARK_HOME"
HERE: Final = "local[*,4]"  # 4: tries of a task, of which local[*] has only one
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # set where spark-submit started this program, and knows where Spark runs


@contextmanager
def spark_session(job: str, settings: SessionSettings) -> Iterator[SparkSession]:
    """Give a session for as long as the block runs. What else it shall have comes from `spark-defaults.conf`.

    Its warehouse is a folder that is removed: jobs make no tables, and Spark would leave one where it was started.
    """
    # Workers run what `python3` means on the PATH, if nobody says otherwise; that may lack Arrow and this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"sluicegate {job}")
    if settings.master is not None or SUBMITTED not in os.environ:
        builder = builder.master(settings.master or HERE)
    with tempfile.TemporaryDirectory(prefix="sluicegate-pipeline-") as folder, spark_home(Path(folder) / "home"):
        session = (
            builder.config("spark.driver.memory", settings.memory)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            # Spark's default, INT96, is what other readers of Parquet gave up.
            .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
            .getOrCreate()
        )
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def spark_home(folder: Path) -> Iterator[None]:
    """Have Spark's processes of Python import PySpark from where it is installed; a SPARK_HOME that is set stands.

    From the home that it finds by itself they import it from a zip, where no bytecode is kept: each of them, and a
    query starts several, compiles all of it again: 1.4 s of a processor, not 0.4, of the ten that Spark waits.
    """
    if SPARK_HOME in os.environ or not (INSTALLED / "jars").is_dir():
        yield
        return
    folder.mkdir()
    for each in INSTALLED.iterdir():
        if each.name != "python":  # where the zips are
            (folder / each.name).symlink_to(each)
    os.environ[SPARK_HOME] = str(folder)
    try:
        yield
    finally:
        del os.environ[SPARK_HOME]
