"""Loads on a broker: saturation, and the latency of messages at a given rate.

Wall rates on one machine say as much about the load generator as about the broker; processor time of the broker's
process tree does not, so it makes the headline of a saturated load. Both are reported, with the load of both sides: a
broker that is not at 100 % was not saturated, and then the wall rate is the generator's.
"""

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from bench.brokers import measure
from bench.brokers.broker import Broker
from bench.cases.load_processes import LoadError, Snapshot, run_load
from bench.load.mqtt import connect_unmatched
from bench.load.outcome import Figure, Outcome
from bench.load.plan import LoadPlan, LoadReport

REPORT_TIMEOUT_S: Final = 60.0
SILENCE_S: Final = 30.0  # without a message, beyond the time that is to be measured: given up
US: Final = 1e6


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
    """Publish at the plan's rate, and see how long after a message was due it has come.

    From when it was due, not from when it was sent: a broker that makes publishers wait does not get better by it.
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
    """Return how far the load was before and after the measured time, the broker's CPU seconds in it, and the end."""
    plan = broker.prepare(plan)
    with _unmatched(plan, broker), run_load(plan, broker, workers=workers) as load:
        time.sleep(plan.warm_up_s)
        cpu_before_s = measure.cpu_seconds(broker.pid)
        before = after = load.snapshot()
        cpu_s = 0.0
        # Longer on a machine so busy that nothing came in that time.
        while (after.received == before.received or cpu_s <= 0) and after.at_s - before.at_s < seconds + SILENCE_S:
            time.sleep(seconds)
            cpu_s = measure.cpu_seconds(broker.pid) - cpu_before_s
            after = load.snapshot()
        load.stop()
        report = load.report(REPORT_TIMEOUT_S)
    if after.received == before.received or cpu_s <= 0:
        taken_s = after.at_s - before.at_s
        raise LoadError(f"nothing was delivered in {taken_s:.0f} s; in all {report.received} of {report.expected}")
    return before, after, cpu_s, report


def _unmatched(plan: LoadPlan, broker: Broker) -> AbstractContextManager[object]:
    return connect_unmatched(plan, broker.address_of(plan.protocol)) if plan.unmatched_count else nullcontext()
