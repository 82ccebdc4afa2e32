"""Fixtures that every kind of test may use."""

import functools
import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from sluicegate.testing.ports import WORKERS_MAX
from support.network.event_loops import LOOPS, RunOnLoop, run_on
from support.processes.gateway import BROKERS
from support.processes.one_broker import why_one_broker
from support.thorough import examples

# Where a change is judged, properties are tried on the same examples every time; at a desk each run looks further.
# Neither judges by the clock: how long an example takes says how busy the machine is.
hypothesis.settings.register_profile(
    "desk",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("ci", hypothesis.settings.get_profile("desk"), derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "desk")

# Modules of the tests' own whose assertions are to explain themselves, before any test imports them.
pytest.register_assert_rewrite("support.mqtt.raw_client", "support.amqp.client")

# bench/ and demo/ are not installed, and their tests import them. At the end of the path, the folder cannot hide what
# is installed.
sys.path.append(str(Path(__file__).resolve().parent.parent))


# A run that a shell has started with `&` ignores SIGINT, and so would the programs that tests end by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Folders whose tests share a session of Spark, or start one after the other: each is a JVM, with room for few.
# The two lots take about as long as each other, and longer than any file.
TOGETHER = {"tests/spark": "Spark", "tests/spark/programs": "Spark", "tests/spark/kills": "Spark is killed"}
# Files of tests that share nothing and take half a minute each: any worker runs any of them.
APART = frozenset({"tests/deployment/test_guides.py", "tests/deployment/test_tutorial.py"})
# Folders whose tests start processes, and those whose tests wait most of their time: for them, sockets and timers.
STARTING = ("tests/crash/", "tests/examples/", "tests/interop/", "tests/stories/", "tests/testing/")
WAITING = ("tests/broker/", *STARTING)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """One worker runs the tests of a file, for they share what they start, and those of some folders.

    Tests of a few files share nothing, and go to any worker.
    """

    def _split_scope(self, nodeid: str) -> str:
        return kept_together(nodeid)


def kept_together(nodeid: str) -> str:
    """Name the tests that one worker runs, among them this one."""
    file = nodeid.partition("::")[0]
    if file in APART:
        return nodeid
    return TOGETHER.get(file.rpartition("/")[0], file)


@pytest.hookimpl(optionalhook=True)  # without xdist nobody asks
def pytest_xdist_auto_num_workers() -> int:
    """Say how many workers `-n auto` is: two for each core, for tests wait half of their time."""
    return min(2 * (os.cpu_count() or 1), WORKERS_MAX)


@pytest.hookimpl(optionalhook=True)  # without xdist nobody asks
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Say which of several workers runs which tests."""
    config.option.loadscopereorder = False  # they come in the right order
    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and have it pass over what is there then.

    Tests and what they import stay to the end: to look through all of it again and again was half of a collection.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Have each worker collect another part of a folder first.

    All of them collect all tests. In a new clone pytest rewrites each file, and keeps what comes of it: so most files
    are rewritten by one worker, and not by all of them side by side.
    """
    report = yield
    worker: dict[str, object] | None = getattr(collector.config, "workerinput", None)
    if worker is not None and isinstance(collector, pytest.Directory):
        entries = report.result
        at = len(entries) * int(str(worker["workerid"]).removeprefix("gw")) // int(str(worker["workercount"]))
        report.result = entries[at:] + entries[:at]
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put first, for several workers, what takes longest: none of them is to be alone with it at the end.

    What waits is spread over what computes: at no time do all workers wait, or all want a processor.
    """
    if BROKERS:
        for item in items:
            if why := why_one_broker(item.nodeid):
                item.add_marker(pytest.mark.skip(reason=f"one broker: {why}"))
    if hasattr(config, "workerinput"):
        counts = Counter(kept_together(item.nodeid) for item in items)
        slow = Counter(kept_together(item.nodeid) for item in items if item.get_closest_marker("slow"))
        lots = sorted(counts, key=lambda lot: (-slow[lot], not lot.startswith(STARTING), -counts[lot], lot))
        waiting = [lot for lot in lots if lot.startswith(WAITING)]
        computing = [lot for lot in lots if not lot.startswith(WAITING)]
        place = {lot: (at + 0.5) / len(kind) for kind in (waiting, computing) for at, lot in enumerate(kind)}
        place.update(dict.fromkeys(TOGETHER.values(), 0.0))
        # By names in the end: workers have collected them in different orders, and have to have one.
        items.sort(key=lambda item: (place[kept_together(item.nodeid)], item.nodeid.partition("::")[0]))


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> RunOnLoop:
    """Run a scenario, once on each kind of event loop."""
    return functools.partial(run_on, request.param)
