"""Fixtures that every kind of test may use."""

import functools
import os
import sys
from pathlib import Path

import hypothesis
import pytest

from loops import LOOPS, RunOnLoop, run_on

# Where a change is judged, properties are tried on the same examples every time; at a desk each run looks further.
# Neither judges by the clock: how long an example takes says how busy the machine is.
hypothesis.settings.register_profile("desk", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("ci", hypothesis.settings.get_profile("desk"), derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "desk")

# bench/ and demo/ are not installed, and their tests import them. At the end of the path, the folder cannot hide what
# is installed.
sys.path.append(str(Path(__file__).resolve().parent.parent))


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests one of several workers has for itself: those of a file, for they share what they start.

    And all that need Spark, for a session is a JVM, and there is room for one.
    """
    for item in items:
        folder = item.path.parent
        is_spark = folder.name == "spark" and folder.parent.name == "tests"
        item.add_marker(pytest.mark.xdist_group("spark" if is_spark else f"{folder.name}/{item.path.stem}"))


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> RunOnLoop:
    """Run a scenario, once on each kind of event loop."""
    return functools.partial(run_on, request.param)
