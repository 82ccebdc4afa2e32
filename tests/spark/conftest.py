"""One Spark session for all tests of this folder, and a gateway for each of its files.

A session is a JVM of half a gigabyte that takes seconds to start, so there is one; the xdist group in
`tests/conftest.py` keeps these tests in one process.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gateway_process import GatewayProcess, gateway
from pipeline.session import spark_home
from spark_processes import SMALL_JVM


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Of Spark, for all sessions and for programs of tests."""
    with spark_home(tmp_path_factory.mktemp("spark") / "home"):
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the default is whatever python3 the PATH has
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local[2,2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.driver.memory", "768m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config(
            "spark.driver.extraJavaOptions",
            f"{SMALL_JVM} -Dderby.system.home={folder}",
        )
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("gateway")) as process:
        yield process


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Where a query keeps its place, of one test."""
    return str(tmp_path / "checkpoint")
