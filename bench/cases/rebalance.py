"""The case of a partitioned queue whose consumers change under load: one joins, then one drops its connection.

The load runs in the measuring process, so that consumers can change between two turns of it. A second thread requests
the changes, and measures how long it takes until the partitions are shared evenly again.
"""

import json
import threading
import time
import urllib.request
from collections import Counter
from dataclasses import replace
from typing import Final, final

from bench.brokers import measure
from bench.brokers.broker import Broker, BrokerError
from bench.brokers.gateway import HTTP_TIMEOUT_S, Sluicegate
from bench.cases.load_processes import LoadError, connect_worker
from bench.cases.throughput import US
from bench.load.lanes import End, Worker
from bench.load.mqtt import connect_subscriber
from bench.load.outcome import Figure, Outcome
from bench.load.plan import LoadPlan

LOOK_S: Final = 0.02  # between two looks at who has which partition: the resolution of the figures
BALANCE_TIMEOUT_S: Final = 60.0


def run_rebalance(plan: LoadPlan, broker: Broker, *, seconds: float) -> Outcome:
    """Run a plan whose lane is one partitioned queue; one consumer joins, and one leaves."""
    if not isinstance(broker, Sluicegate):
        raise BrokerError(f"{broker.kind} has no partitioned queues")
    prepared = broker.prepare(plan)
    worker = connect_worker(prepared, range(1), broker.address_of)
    change = _Change(prepared, broker, worker, seconds)
    thread = threading.Thread(target=change.tell)
    thread.start()
    try:
        report = worker.run(change)
    finally:
        change.end()
        thread.join()
        worker.close()
    if change.error is not None:
        raise change.error
    latencies_s = sorted(report.latencies_s)
    if not latencies_s:
        raise LoadError(f"nothing came after the warm-up; in all {report.received} of {report.expected}")
    return Outcome(
        headline=Figure("until balanced with one more", change.balanced_s[0], "s"),
        higher_is_better=False,
        figures=(
            Figure("until balanced with one gone", change.balanced_s[1], "s"),
            Figure("delivered again", report.duplicated, "msg"),
            Figure("p99", latencies_s[int(len(latencies_s) * 0.99)] * US, "us"),
            Figure("max", latencies_s[-1] * US, "us"),
            Figure("RSS", measure.memory(broker.pid).rss_bytes / measure.MIB, "MiB"),
        ),
        # What the one that went had not settled comes again, as it must.
        faults=replace(report.faults, duplicated=0),
    )


@final
class _Change:
    """The changes of the consumers, and their times; the load asks for them as its progress."""

    def __init__(self, plan: LoadPlan, broker: Sluicegate, worker: Worker, seconds: float) -> None:
        self.balanced_s: list[float] = []  # how long it took, after each of the two changes
        self.error: Exception | None = None
        self._plan = plan
        self._broker = broker
        self._worker = worker
        self._seconds = seconds
        self._wanted: str | None = None  # a change that the loop's thread is to make
        self._stopped = False
        self._ended = threading.Event()

    # --- in the thread of the load ---

    def count(self, published: int, received: int) -> None:
        """Ignore the totals: they are read at the end."""

    def stopped(self) -> bool:
        """Make the change that is due; return whether to stop publishing."""
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            (lane,) = self._worker.lanes
            if wanted == "come":
                number = self._plan.subscribers_per_lane
                address = self._broker.address_of(self._plan.protocol)
                self._worker.add(connect_subscriber(self._plan, lane, number, address, self._worker.poll))
            else:
                self._worker.remove(self._first_consumer())
        return self._stopped

    def _first_consumer(self) -> End:
        return next(end for end in self._worker.ends() if end not in end.lane.publishers)

    # --- in a thread of its own ---

    def tell(self) -> None:
        """Request the changes, one after the other."""
        count = self._plan.subscribers_per_lane
        try:
            self._until_balanced(count)
            self._ended.wait(self._plan.warm_up_s + self._seconds)
            for wanted, left in (("come", count + 1), ("go", count)):
                begun_s = time.monotonic()
                self._wanted = wanted
                self._until_balanced(left)
                self.balanced_s.append(time.monotonic() - begun_s)
                self._ended.wait(self._seconds)
        except Exception as error:  # the measuring thread raises it
            self.error = error
        self._stopped = True

    def end(self) -> None:
        """Let the thread of `tell` end."""
        self._ended.set()

    def _until_balanced(self, consumers: int) -> None:
        """Wait until so many consumers have the partitions, none two more than another. Raises LoadError."""
        url = f"{self._broker.admin_url}/queues/{(self._plan.queue or '').format(lane=0)}"
        deadline_s = time.monotonic() + BALANCE_TIMEOUT_S
        while not self._ended.wait(LOOK_S):
            with urllib.request.urlopen(url, timeout=HTTP_TIMEOUT_S) as answer:
                view = json.load(answer)
            shares = Counter(partition["client"] for partition in view["partitions"])
            even = max(shares.values()) - min(shares.values()) <= 1
            if view["rebalance_status"] == "ready" and len(shares) == consumers and even and None not in shares:
                return
            if time.monotonic() > deadline_s:
                raise LoadError(f"the partitions are not even after {BALANCE_TIMEOUT_S} s: {dict(shares)}")
