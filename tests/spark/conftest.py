"""One Spark session and one gateway for all tests of this folder.

A session is a JVM of half a gigabyte that takes seconds to start, and is slow until it is warm, so there is one;
`tests/conftest.py` keeps these tests in one process. What has to have a JVM of its own is in `programs`, and in
`kills` when that dies; what needs none is in `without_java`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluicegate.pipeline.spark.environment import spark_environment
from sluicegate.testing.ports import free_port
from support.processes.gateway import GatewayProcess, gateway
from support.spark.processes import FEW_ROWS, SMALL_JVM


@pytest.fixture(scope="session", autouse=True)
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Of Spark, for all sessions and for programs of tests."""
    with spark_environment(tmp_path_factory.mktemp("spark")):
        yield


@pytest.fixture(scope="session")
def connect_url() -> str:
    """Where the session answers programs that have none themselves."""
    return f"sc://127.0.0.1:{free_port()}"


@pytest.fixture(scope="session")
def spark(connect_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
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
        .config(map=FEW_ROWS)
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
        .config("spark.connect.grpc.binding.port", connect_url.rpartition(":")[2])
        .config(
            "spark.driver.extraJavaOptions",
            f"{SMALL_JVM} -Dderby.system.home={folder}",
        )
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("gateway"), vpns__sales__enabled=True) as process:
        yield process


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Where a query keeps its place, of one test."""
    return str(tmp_path / "checkpoint")
