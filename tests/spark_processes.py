"""Spark in processes of its own, which tests kill: a driver program, and a standalone cluster on this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import psutil
import pyspark

from gateway_process import free_port, wait_until
from pipeline.configuration import PARQUET
from unit.storage.spool_file import same_imports

COPY: Final = Path(__file__).parent / "spark" / "programs" / "copy_until_killed.py"
STARTS_S: Final = 120  # a JVM, on a busy machine
ENDS_S: Final = 600  # a program that copies a thousand rows in batches, there
LOG_TAIL_CHARACTERS: Final = 6_000
WORKER: Final = ("--cores", "2", "--memory", "2g")
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
# Compiling less and collecting garbage simply: a JVM that lives for seconds starts sooner.
SMALL_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SUBMITTED_WITH: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": SMALL_JVM,
    "spark.executor.extraJavaOptions": SMALL_JVM,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
}


class Copying:
    """The program `copy_until_killed`, run as often as a test wants."""

    def __init__(self, url: str, folder: Path, *, master: str = "local[2,4]", files_are: str = PARQUET) -> None:
        self._command = [sys.executable, "-P", str(COPY), url, str(folder), master, files_are]
        self._log = folder / "driver.log"

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Run it for the length of a `with` block, and kill it with everything that it started."""
        with self._running() as process:
            yield
            assert process.poll() is None, f"it has ended before it was killed: {self._log_tail()}"

    @contextmanager
    def to_the_end(self) -> Iterator[None]:
        """Run it, and at the end of the `with` block wait until it ends by itself, with everything copied."""
        with self._running() as process:
            yield
            assert process.wait(ENDS_S) == 0, self._log_tail()

    def _running(self) -> "AbstractContextManager[subprocess.Popen[bytes]]":
        return _group(self._command, self._log, small_spark_environment())

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]


class Cluster(NamedTuple):
    """A standalone cluster that runs."""

    master: str  # its URL
    folder: Path  # what executors work in


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[Cluster]:
    """Run a master and a worker with two cores for the length of a `with` block."""
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    deploy = "org.apache.spark.deploy"
    daemon = spark_environment() | {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": SMALL_JVM}
    port = free_port()
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = [str(spark_class), f"{deploy}.master.Master", *here, "--port", str(port)]
    worker = [str(spark_class), f"{deploy}.worker.Worker", *here, "--work-dir", str(folder), *WORKER]
    log = folder / "master.log"
    with _group(master, log, daemon):
        wait_until(lambda: "New state: ALIVE" in log.read_text(), within_s=STARTS_S, what="the master of the cluster")
        url = f"spark://127.0.0.1:{port}"
        with _group([*worker, url], folder / "worker.log", daemon):
            yield Cluster(url, folder)


def kill_executor_of(client_port: int) -> None:
    """Kill the executor one of whose tasks talks to a gateway from this port."""
    client = ("127.0.0.1", client_port)
    (worker,) = {each.pid for each in psutil.net_connections("tcp4") if each.laddr == client and each.pid}
    (executor,) = [each for each in psutil.Process(worker).parents() if EXECUTOR in " ".join(each.cmdline())]
    executor.kill()


def spark_environment() -> dict[str, str]:
    """Return what a program needs to find this Python, and whatever this one imports."""
    return same_imports() | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def small_spark_environment() -> dict[str, str]:
    """Return the same for a program that starts Spark itself, with what is told here in place of what Spark does."""
    told = " ".join(f"--conf '{name}={value}'" for name, value in SUBMITTED_WITH.items())
    return spark_environment() | {"PYSPARK_SUBMIT_ARGS": f"{told} pyspark-shell"}


@contextmanager
def _group(
    command: Sequence[str | Path], log: Path, environment: Mapping[str, str]
) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a program as a process group of its own, which is killed at the end: its JVM is a child of it."""
    with (
        log.open("ab") as out,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # all of it has ended
                os.killpg(process.pid, signal.SIGKILL)
