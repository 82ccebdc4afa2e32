"""Programs and tests of users, run as they run them."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

WITHIN_S = 170  # a test has 180
IS_INSTALLED = any(each.value == "sluicegate.testing.plugin" for each in entry_points(group="pytest11"))
PLUGIN = () if IS_INSTALLED else ("-p", "sluicegate.testing.plugin")


def run_program(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in Python with the modules that this one has."""
    program = f"import sys\nsys.path[:] = {[str(folder), *sys.path]!r}\n"
    return subprocess.run(
        [sys.executable, "-c", program + arguments[0], *arguments[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )


def run_tests(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder as a user does."""
    return run_program(folder, "import pytest\nsys.exit(pytest.main(sys.argv[1:]))", "-q", *PLUGIN, *arguments)
