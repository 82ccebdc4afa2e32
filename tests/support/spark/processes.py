"""Spark in processes of its own, which tests kill: a driver program, and a standalone cluster on this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil
import pyspark

from sluicegate.testing.ports import free_port
from support.processes.gateway import wait_until
from support.storage.spool_file import same_imports

SPARK: Final = Path(pyspark.__file__).parent
COPY: Final = Path(__file__).parents[2] / "spark" / "kills" / "copy_until_killed.py"
SAFE_PATH: Final = {"PYTHONSAFEPATH": "1"}  # as the image for Spark has it: a program's own folder is nobody's package
STARTS_S: Final = 120  # a JVM, on a busy machine
ENDS_S: Final = 600  # a program that copies a thousand rows in batches, there
LOG_TAIL_CHARACTERS: Final = 6_000
WORKER: Final = ("--cores", "2", "--memory", "2g")
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
# Compiling less, collecting garbage simply, and taking the twelve thousand classes of a start for well-formed, as they
# are: a JVM that lives for seconds starts sooner.
SMALL_JVM: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
# A few rows are gone through sooner than a program for them is compiled.
FEW_ROWS: Final[dict[str, bool | float | int | str | None]] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
SUBMITTED_WITH: Final = {
    **FEW_ROWS,
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
    """The program `copy_until_killed`, run as often as a test wants: by itself, or by `spark-submit`."""

    def __init__(self, url: str, folder: Path, *, by: Sequence[str | Path] = (sys.executable,)) -> None:
        self._command = [*by, COPY, url, folder]
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
        return _group(self._command, self._log, small_spark_environment() | SAFE_PATH)

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Run a master and a worker with two cores for the length of a `with` block; give the master's URL."""
    folder.mkdir()
    spark_class = str(SPARK / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    daemon = spark_environment() | {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": SMALL_JVM}
    port = free_port()
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = [spark_class, f"{deploy}.master.Master", *here, "--port", str(port)]
    worker = [spark_class, f"{deploy}.worker.Worker", *here, "--work-dir", str(folder), *WORKER]
    log = folder / "master.log"
    with _group(master, log, daemon):
        wait_until(lambda: "New state: ALIVE" in log.read_text(), within_s=STARTS_S, what="the master of the cluster")
        url = f"spark://127.0.0.1:{port}"
        with _group([*worker, url], folder / "worker.log", daemon):
            yield url


def kill_executor_of(client_port: int, line_port: int) -> None:
    """Kill the executor one of whose tasks talks from a port to that of a line."""
    way = (("127.0.0.1", client_port), ("127.0.0.1", line_port))  # both: others may have the client's port elsewhere
    workers = {each.pid for each in psutil.net_connections("tcp4") if (each.laddr, each.raddr) == way and each.pid}
    above = {each for worker in workers for each in psutil.Process(worker).parents()}
    (executor,) = [each for each in above if EXECUTOR in " ".join(each.cmdline())]
    executor.kill()


def spark_environment() -> dict[str, str]:
    """Return what a program needs to find this Python, and whatever this one imports."""
    return same_imports() | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def small_spark_environment() -> dict[str, str]:
    """Return the same for a program that starts Spark itself, with what is told here in place of what Spark does."""
    told = " ".join(f"--conf '{name}={value}'" for name, value in SUBMITTED_WITH.items())
    return spark_environment() | {"PYSPARK_SUBMIT_ARGS": f"{told} pyspark-shell"}


def spark_submit(master: str) -> list[str | Path]:
    """Return the command that has a program run on a cluster, with the same; the program's own follows."""
    told = [part for name, value in SUBMITTED_WITH.items() for part in ("--conf", f"{name}={value}")]
    return [SPARK / "bin" / "spark-submit", "--master", master, *told]


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
