"""The table of benchmark cases, and some of them over a real gateway: nothing is timed, all that came is checked."""

import json
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bench.brokers.known import BROKERS
from bench.cases.table import CASES
from support.processes.gateway import wait_until
from support.processes.programs import running

ROOT = Path(__file__).resolve().parents[3]
# Ways in which the load generator itself differs: what is counted how, what carries the bytes, what happens beside.
CHECKED = (
    *("qos2-10-10", "tls-10-10", "websocket-10-10", "mqtt-amqp-queue", "http-50", "shared-2-10", "slow-consumers"),
    *(
        "rebalance",
        "storm-topics",
        "storm-reconnect",
        "storm-retained",
        "durable-alone",
        "durable-1000",
        "durable-checkpoints",
    ),
)
BENCH = (sys.executable, "-m", "bench", "--rounds", "1", "--brokers", "sluicegate")


def test_each_case_has_a_name_of_its_own_and_is_asked_of_the_gateway() -> None:
    """What is not compared with Sluicegate has no place here."""
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        assert "sluicegate" in case.kinds
        assert case.kinds <= BROKERS.keys()


def test_the_documentation_lists_the_cases() -> None:
    """docs/develop/benchmark.md, Cases; `-N` stands for a number."""
    text = (ROOT / "docs/develop/benchmark.md").read_text()
    listed = set(re.findall(r"`([a-z0-9-]+(?:-N)?)`", text.partition("## Cases")[2].partition("## Peers")[0]))
    assert {case.name for case in CASES} == {
        name
        for each in listed
        for name in ({case.name for case in CASES if re.fullmatch(each.replace("-N", r"-\d+"), case.name)} or {each})
    }


@pytest.mark.slow
@pytest.mark.timeout(400)  # a gateway is started twice, and loads wait for nothing but the broker
@pytest.mark.parametrize("case", CHECKED)
def test_a_load_is_delivered_and_counted(tmp_path: Path, case: str) -> None:
    """The program fails when anything was lost, doubled or disordered."""
    runs = tmp_path / "runs.json"
    effort = ("--seconds", "1", "--connections", "100", "--retained", "100", "--json", str(runs))
    done = subprocess.run([*BENCH, case, *effort], cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    assert [run["case"] for run in json.loads(runs.read_text())["runs"]] == [case]


@pytest.mark.slow
def test_a_measurement_that_is_ended_leaves_no_broker_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM, as `timeout` and service managers send it."""
    monkeypatch.chdir(ROOT)
    with running([*BENCH, "qos0-1-1", "--seconds", "600"]) as process:
        bench = psutil.Process(process.pid)
        wait_until(lambda: len(bench.children()) >= 2, within_s=60, what="a gateway and a worker")
        started = bench.children(recursive=True)
        process.terminate()
        process.wait(60)
        _, left = psutil.wait_procs(started, timeout=60)
        assert not left
