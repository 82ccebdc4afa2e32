"""JMS through Qpid JMS: the tests of ObjectWeb (JMS 1.1) and those of java/ (JMS 2.0), all run against one broker.

docs/connect/jms.md has the number of tests, and of those that pass.
"""

import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from sluicegate.testing import Broker
from support.examples.programs import ROOT, build, copied, toolchain

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]  # the first build downloads

PAGE = ROOT / "docs" / "connect" / "jms.md"
SOURCES = Path(__file__).parent / "java"
RUN_S = 900
ROW = re.compile(r"^\| [^|]+ \| `(\w+)` \| (\d+) \| (\d+) \|", re.MULTILINE)

Results = dict[str, dict[str, str]]  # by class and method: what went wrong, or nothing


@pytest.fixture(scope="module")
def results() -> Results:
    maven = toolchain("mvn")
    java = toolchain("java")
    folder = copied("jms", SOURCES)
    build(folder, maven, "--batch-mode", "--quiet", "package")
    command = [java, "-cp", f"{folder}/target/jms.jar:{folder}/target/lib/*", "sluicegate.jms.RunTests"]
    with Broker({"admin.enabled": True}) as broker:
        environment = {**os.environ, "AMQP_URL": broker.amqp_url, "ADMIN_URL": broker.admin_url}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=RUN_S)
    assert done.returncode == 0, done.stderr[-4000:]
    found: Results = defaultdict(dict)
    for line in done.stdout.splitlines():
        _, group, method, what = line.split("\t")
        found[group][method] = what
    return found


def rows() -> dict[str, tuple[int, int]]:
    """Return what the page says of each class: how many tests there are, and how many pass."""
    return {name: (int(all_), int(passed)) for name, all_, passed in ROW.findall(PAGE.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("group", rows())
def test_jms(group: str, results: Results) -> None:
    failed = {method: what for method, what in results[group].items() if what}
    assert not failed
    assert rows()[group] == (len(results[group]), len(results[group]))


def test_the_page_has_every_class(results: Results) -> None:
    assert set(results) == set(rows())
