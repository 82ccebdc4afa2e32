"""Loads on a broker: saturation, alone or beside slow consumers, and the latency of messages at a given rate.

On one machine, the wall rate depends on the load generator as much as on the broker; the processor time of the broker's
process tree does not. So that is the headline of a saturated load. Both are reported, with the load of both sides: a
broker below 100 % was not saturated, and then the wall rate is the generator's.
"""

import select
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Final

from bench.brokers import measure
from bench.brokers.broker import Broker
from bench.cases.load_processes import LoadError, Snapshot, run_load
from bench.load.mqtt import connect_unmatched, open_session, subscribe
from bench.load.outcome import Figure, LoadReport, Outcome
from bench.load.plan import LoadPlan
from bench.wire import mqtt as wire
from bench.wire.connections import Connection

REPORT_TIMEOUT_S: Final = 60.0
SILENCE_S: Final = 30.0  # without a message, beyond the time that is to be measured: given up
US: Final = 1e6

# Of the subscribers that read next to nothing.
SLOW_COUNT: Final = 5
READ_BYTES: Final = 4096
READ_EACH_S: Final = 0.1  # so 40 kB a second


def run_throughput(plan: LoadPlan, broker: Broker, *, seconds: float, workers: int) -> Outcome:
    """Run a plan against a fresh broker for some seconds after a warm-up, then drain it and check for loss."""
    before, after, cpu_s, report = _run(plan, broker, seconds, workers)
    delivered = after.received - before.received
    wall_s = after.at_s - before.at_s
    return Outcome(
        headline=Figure("messages per broker CPU-second", delivered / cpu_s, "msg/CPU-s"),
        higher_is_better=True,
        figures=(
            Figure("wall rate", delivered / wall_s, "msg/s"),
            Figure("broker load", 100 * cpu_s / wall_s, "%"),
            Figure("generator load", 100 * (after.load_cpu_s - before.load_cpu_s) / wall_s, "%"),
            Figure("checked singly", 100 * report.read_singly / max(1, report.received), "%"),
            Figure("RSS", measure.memory(broker.pid).rss_bytes / measure.MIB, "MiB"),
        ),
        faults=report.faults,
    )


def run_latency(plan: LoadPlan, broker: Broker, *, seconds: float, workers: int) -> Outcome:
    """Publish at the plan's rate, and measure latencies from the time when a message was due.

    Latencies count from the time when a message was due: a broker that makes publishers wait gains nothing.
    """
    before, after, cpu_s, report = _run(plan, broker, seconds, workers)
    latencies_s = sorted(report.latencies_s)
    if not latencies_s:
        raise LoadError(f"nothing came after the warm-up; in all {report.received} of {report.expected}")
    p50, p99, p999 = (latencies_s[int(len(latencies_s) * part)] for part in (0.5, 0.99, 0.999))
    wall_s = after.at_s - before.at_s
    return Outcome(
        headline=Figure("latency, p99", p99 * US, "us"),
        higher_is_better=False,
        figures=(
            Figure("p50", p50 * US, "us"),
            Figure("p99.9", p999 * US, "us"),
            Figure("max", latencies_s[-1] * US, "us"),
            Figure("wall rate", (after.received - before.received) / wall_s, "msg/s"),
            Figure("broker load", 100 * cpu_s / wall_s, "%"),
        ),
        faults=report.faults,
    )


def _run(plan: LoadPlan, broker: Broker, seconds: float, workers: int) -> tuple[Snapshot, Snapshot, float, LoadReport]:
    """Return the progress before and after the measured time, the broker's CPU seconds in it, and the report."""
    plan = broker.prepare(plan)
    with _unmatched(plan, broker):
        before, after, cpu_s, report = run_between(plan, broker, broker, seconds=seconds, workers=workers)
    return before, after, cpu_s[0], report


def run_between(
    plan: LoadPlan, broker: Broker, subscribed: Broker, *, seconds: float, workers: int
) -> tuple[Snapshot, Snapshot, list[float], LoadReport]:
    """Run a plan whose subscribers are at another broker, or the same; the CPU seconds are of each."""
    pids = [broker.pid] if broker is subscribed else [broker.pid, subscribed.pid]
    with run_load(plan, broker, workers=workers, subscribed=subscribed) as load:
        time.sleep(plan.warm_up_s)
        cpu_before_s = [measure.cpu_seconds(pid) for pid in pids]
        before = after = load.snapshot()
        cpu_s = [0.0 for _ in pids]
        # Longer on a machine so busy that nothing came in that time.
        while (after.received == before.received or min(cpu_s) <= 0) and after.at_s - before.at_s < seconds + SILENCE_S:
            time.sleep(seconds)
            cpu_s = [measure.cpu_seconds(pid) - earlier_s for pid, earlier_s in zip(pids, cpu_before_s, strict=True)]
            after = load.snapshot()
        load.stop()
        report = load.report(REPORT_TIMEOUT_S)
    if after.received == before.received or min(cpu_s) <= 0:
        taken_s = after.at_s - before.at_s
        raise LoadError(f"nothing was delivered in {taken_s:.0f} s; in all {report.received} of {report.expected}")
    return before, after, cpu_s, report


def _unmatched(plan: LoadPlan, broker: Broker) -> AbstractContextManager[object]:
    return connect_unmatched(plan, broker.address_of(plan.protocol)) if plan.unmatched_count else nullcontext()


def run_beside_slow(plan: LoadPlan, broker: Broker, *, seconds: float, workers: int) -> Outcome:
    """Run a plan beside slow subscribers of its first lane, which must not affect it. Their losses do not count."""
    with _slow_readers(plan, broker):
        return run_throughput(plan, broker, seconds=seconds, workers=workers)


@contextmanager
def _slow_readers(plan: LoadPlan, broker: Broker) -> Iterator[None]:
    topic_filter = (plan.topic_filter or "").format(lane=0)
    ended = threading.Event()
    with ExitStack() as stack:
        readers: list[Connection] = []
        for number in range(SLOW_COUNT):
            packet = wire.connect(f"bench-slow-{number}", version=wire.MQTT_3_1_1)
            connection = stack.enter_context(open_session(broker.address_of(plan.protocol), packet))
            subscribe(connection, topic_filter, qos=plan.qos, version=wire.MQTT_3_1_1)
            readers.append(connection)
        thread = threading.Thread(target=_read_slowly, args=(readers, ended))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _read_slowly(readers: list[Connection], ended: threading.Event) -> None:
    while readers and not ended.wait(READ_EACH_S):
        for reader in select.select([each.socket for each in readers], [], [], 0)[0]:
            try:
                left = reader.recv(READ_BYTES)
            except OSError:
                left = b""
            if not left:  # a broker may disconnect a client that does not read
                readers[:] = [each for each in readers if each.socket is not reader]
