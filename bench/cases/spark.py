"""Cases that measure how fast Spark reads queues and publishes to them, with the gateway and Spark as users run them.

Spark runs in a separate process (`spark_program`), on all cores of the machine, which it shares with the gateway, as
where both run on one host. So the headlines are wall rates; the gateway's processor time is among the other figures.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from statistics import median, quantiles
from typing import Final

from bench.brokers import measure
from bench.brokers.broker import Broker, BrokerError, on_cores
from bench.brokers.gateway import Sluicegate
from bench.cases.footprint import fill
from bench.cases.load_processes import LoadError
from bench.load.flow import answer, open_connection
from bench.load.outcome import Figure, Outcome
from bench.load.plan import FLOW
from bench.wire import flow as wire

SOURCE: Final = "source"  # what the queues are called
TARGET: Final = "target"
PARTITIONS: Final = 2
PAYLOAD_BYTES: Final = 200
TOPIC: Final = "rows/0"
RUNS: Final = 3  # measured in one session, for a JVM takes longer to start and get warm than to run
PER_TICK: Final = 10  # of a steady publisher
TICK_S: Final = 0.02  # so that is 500 messages a second
LOG_TAIL_CHARACTERS: Final = 3000


def run_in_bulk(case: str, broker: Broker, *, rows: int, timeout_s: float) -> Outcome:
    """Fill a queue, and let Spark read all of it; the result is the median of a session's runs."""
    with _ready(broker) as gateway:
        fill(gateway, rows, timeout_s, topic=TOPIC, payload_bytes=PAYLOAD_BYTES)
        cpu_before_s = measure.cpu_seconds(gateway.pid)
        with _spark(case, gateway) as (program, log):
            seconds = _told(program, log, timeout_s)
        cpu_s = (measure.cpu_seconds(gateway.pid) - cpu_before_s) / (RUNS + 1)
    return Outcome(
        headline=Figure("rows", rows / median(seconds), "rows/s"),
        higher_is_better=True,
        figures=(
            Figure("fastest", rows / min(seconds), "rows/s"),
            Figure("gateway's processor time", 1e6 * cpu_s / rows, "us/row"),
        ),
    )


def run_micro_batches(case: str, broker: Broker, *, timeout_s: float) -> Outcome:
    """Publish at a rate, and measure how long a Spark batch takes that is written to files."""
    with _ready(broker) as gateway, _spark(case, gateway) as (program, log):
        _publish_until_it_ends(gateway, program, timeout_s)
        seconds = _told(program, log, timeout_s)
    return Outcome(
        headline=Figure("batch, p50", median(seconds), "s"),
        higher_is_better=False,
        figures=(Figure("p90", quantiles(seconds, n=10)[-1], "s"), Figure("batches", len(seconds), "")),
    )


@contextmanager
def _ready(broker: Broker) -> Iterator[Sluicegate]:
    if not isinstance(broker, Sluicegate):
        raise BrokerError(f"Spark reads no queues of {broker.kind}")
    broker.create_queue(SOURCE, "rows/>", access_type="non-exclusive", partition_count=PARTITIONS)
    broker.create_queue(TARGET, None, access_type="non-exclusive", partition_count=PARTITIONS)
    yield broker


@contextmanager
def _spark(case: str, gateway: Sluicegate) -> "Iterator[tuple[subprocess.Popen[str], Path]]":
    """Run the program for the length of a `with` block."""
    host, port = gateway.address_of(FLOW)
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        log = Path(folder) / "log"
        command = [sys.executable, "-m", "bench.cases.spark_program", case, f"flow://{host}:{port}", folder, str(RUNS)]
        with log.open("wb") as stderr, on_cores(frozenset(range(os.cpu_count() or 1))):
            program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        try:
            yield program, log
        finally:
            program.kill()
            program.communicate()


def _told(program: "subprocess.Popen[str]", log: Path, timeout_s: float) -> list[float]:
    """Wait for the end of the program, and return its results. Raises LoadError."""
    try:
        out, _ = program.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise LoadError(f"Spark was not done after {timeout_s} s") from None
    if program.returncode or not out.strip():
        tail = log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]
        raise LoadError(f"Spark ended with {program.returncode}: {tail}")
    seconds: list[float] = json.loads(out.strip().splitlines()[-1])
    return seconds


def _publish_until_it_ends(gateway: Sluicegate, program: "subprocess.Popen[str]", timeout_s: float) -> None:
    """Publish some messages in each tick while the program runs."""
    deadline_s = time.monotonic() + timeout_s
    with open_connection(gateway.address_of(FLOW), "bench-steady") as connection:
        connection.send(wire.open_publisher("", PER_TICK * 100))
        answer(connection, wire.OPEN_PUB)
        template = wire.publish_template(TOPIC, PAYLOAD_BYTES)
        frames = bytearray(template * PER_TICK)
        published = 0
        while program.poll() is None and time.monotonic() < deadline_s:
            wire.put_numbers(frames, PER_TICK, len(template), wire.PUBLISH_SEQUENCE_AT + 8, published + 1)
            connection.send(frames)
            published += PER_TICK
            time.sleep(TICK_S)
            while select([connection.socket], [], [], 0)[0]:
                connection.socket.recv(1 << 16)  # confirmations, by which the window goes on
