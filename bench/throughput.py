"""Cases that ask how many messages a broker moves per second of its own processor time.

Wall rates on one machine say as much about the load generator as about the broker; processor time of the broker's
process tree does not, so it makes the headline. Both are reported, with the load of both sides: a broker that is
not at 100 % was not saturated, and then the wall rate is the generator's.
"""

import time
from typing import Final

from bench import measure
from bench.brokers import Broker
from bench.load_plan import LoadPlan, LoadReport
from bench.load_processes import LoadError, Snapshot, run_load
from bench.outcome import Figure, Outcome

WARM_UP_S: Final = 1.0
REPORT_TIMEOUT_S: Final = 60.0


def run_throughput(plan: LoadPlan, broker: Broker, *, seconds: float, workers: int) -> Outcome:
    """Run a plan against a fresh broker for some seconds after a warm-up, then drain it and check for loss."""
    with run_load(plan, broker.address_of(plan.protocol), workers=workers) as load:
        time.sleep(WARM_UP_S)
        cpu_before_s = measure.cpu_seconds(broker.pid)
        before = load.snapshot()
        time.sleep(seconds)
        cpu_s = measure.cpu_seconds(broker.pid) - cpu_before_s
        after = load.snapshot()
        load.stop()
        report = load.report(REPORT_TIMEOUT_S)
    if after.received == before.received or cpu_s <= 0:
        raise LoadError(f"nothing was delivered in {seconds} s; in all {report}")
    return _outcome(before, after, cpu_s, report)


def _outcome(before: Snapshot, after: Snapshot, cpu_s: float, report: LoadReport) -> Outcome:
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
        ),
        lost=report.lost,
        duplicated=report.duplicated,
    )
