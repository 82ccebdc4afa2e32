"""The clock of a lease goes on while the machine sleeps."""

import subprocess
import sys
import time

import pytest

from sluicegate.storage.replication.ownership.clock import elapsed_s

SLEPT_S = 100_000
SAYS = "from sluicegate.storage.replication.ownership.clock import elapsed_s; import time; "


def test_it_goes_on_with_time() -> None:
    before_s = elapsed_s()
    until_s = time.monotonic() + 0.01
    while time.monotonic() < until_s:
        pass
    assert elapsed_s() - before_s >= 0.01


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces of time")
def test_it_counts_the_time_that_the_machine_slept() -> None:
    """A namespace in which the machine has slept for longer: only the clocks that count that are ahead in it."""
    asleep = ["unshare", "--map-root-user", "--time", "--boottime", str(SLEPT_S)]
    command = [*asleep, sys.executable, "-c", f"{SAYS}print(elapsed_s() - time.monotonic())"]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        pytest.skip(f"no namespace of time may be made here: {answer.stderr}")
    assert float(answer.stdout) >= SLEPT_S - 1
