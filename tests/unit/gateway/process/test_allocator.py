"""Memory that was freed, and what the next buffer finds."""

import subprocess
import sys

PROGRAM = """
import resource
from sluicegate.gateway.node.os_limits import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

keep_freed_memory()
before = faults()
for _ in range(20):
    [bytearray(b"x") * (1 << 20) for _ in range(6)]
print(faults() - before)
"""


def test_large_buffers_come_to_lie_where_others_lay_before() -> None:
    """Six MiB have 1,536 pages: made anew each time, they would fault 30,720 times."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) < 10_000
