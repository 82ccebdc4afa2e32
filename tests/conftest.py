"""Fixtures that every kind of test may use."""

import functools
import sys
from pathlib import Path

import pytest

from loops import LOOPS, RunOnLoop, run_on

# bench/ is not installed, and its tests import it. At the end of the path, the folder cannot hide what is installed.
sys.path.append(str(Path(__file__).resolve().parent.parent))


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> RunOnLoop:
    """Run a scenario, once on each kind of event loop."""
    return functools.partial(run_on, request.param)
