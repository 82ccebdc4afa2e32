"""The cases of a link between two brokers: what a message costs both together, beside its local delivery in one run.

The other broker has the cores of the first, so the generator is as fast as in the local run. Beside the generator it
would slow that down, and a broker with less to do at once needs more time for each message.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bench.brokers import measure
from bench.brokers.broker import Broker, BrokerError
from bench.brokers.gateway import Sluicegate
from bench.cases.load_processes import LoadError
from bench.cases.throughput import US, run_between
from bench.load.outcome import Faults, Figure, Outcome
from bench.load.plan import FLOW, LoadPlan

LINK_TIMEOUT_S: Final = 30.0
LOOK_S: Final = 0.05
IDLE_S_MIN: Final = 20.0  # processor time is counted in hundredths of a second


def run_link(plan: LoadPlan, broker: Broker, *, seconds: float, workers: int) -> Outcome:
    """Run a plan at one broker, and then with its subscribers at another one that is linked."""
    ours = _ours(broker)
    before, after, local_s, local = run_between(ours.prepare(plan), ours, ours, seconds=seconds, workers=workers)
    local_cpu_s = local_s[0] / (after.received - before.received)
    if plan.queue is not None:
        for lane in range(plan.lanes):
            ours.admin("DELETE", f"/queues/{plan.queue.format(lane=lane)}")
    with _linked(ours) as other:
        prepared = other.prepare(plan)
        before, after, cpu_s, linked = run_between(prepared, ours, other, seconds=seconds, workers=workers)
    delivered = after.received - before.received
    here_s, there_s = cpu_s[0] / delivered, cpu_s[1] / delivered
    return Outcome(
        headline=Figure("CPU time of both, local delivery 1", (here_s + there_s) / local_cpu_s, "x"),
        higher_is_better=False,
        figures=(
            Figure("local delivery", US * local_cpu_s, "us/msg"),
            Figure("publishers' broker", US * here_s, "us/msg"),
            Figure("subscribers' broker", US * there_s, "us/msg"),
            Figure("wall rate", delivered / (after.at_s - before.at_s), "msg/s"),
        ),
        faults=Faults(
            local.faults.lost + linked.faults.lost,
            local.faults.duplicated + linked.faults.duplicated,
            local.faults.disordered + linked.faults.disordered,
        ),
    )


def run_idle_link(broker: Broker, *, seconds: float) -> Outcome:
    """Measure the processor time of a broker that does nothing, and again when it has a link."""
    ours = _ours(broker)
    seconds = max(seconds, IDLE_S_MIN)
    alone = _load_of(ours, seconds)
    with _linked(ours):
        linked = _load_of(ours, seconds)
    return Outcome(
        headline=Figure("broker load by the link", linked - alone, "%"),
        higher_is_better=False,
        figures=(Figure("with it", linked, "%"), Figure("without", alone, "%")),
    )


def _ours(broker: Broker) -> Sluicegate:
    if not isinstance(broker, Sluicegate):
        raise BrokerError(f"{broker.kind} has no links")
    return broker


@contextmanager
def _linked(broker: Sluicegate) -> Iterator[Sluicegate]:
    """Run another broker that is linked, for the length of the block."""
    other = broker.another("other", beside=True)
    try:
        host, port = other.address_of(FLOW)
        other.admin("POST", "/links", {"name": broker.name})
        broker.admin("POST", "/links", {"name": other.name, "url": f"flow://{host}:{port}"})
        deadline_s = time.monotonic() + LINK_TIMEOUT_S
        while not (view := broker.admin("GET", f"/links/{other.name}"))["up"]:
            if time.monotonic() > deadline_s:
                raise LoadError(f"the link is not up after {LINK_TIMEOUT_S} s: {view['reason']}")
            time.sleep(LOOK_S)
        yield other
    finally:
        other.stop()


def _load_of(broker: Sluicegate, seconds: float) -> float:
    cpu_s, begun_s = measure.cpu_seconds(broker.pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (measure.cpu_seconds(broker.pid) - cpu_s) / (time.monotonic() - begun_s)
