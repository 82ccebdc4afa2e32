"""What only operators need is imported when clients are let in already, in small steps between what clients ask."""

import asyncio
import json
import subprocess
import sys
from itertools import count, pairwise
from typing import Final

from sluicegate.gateway.process.operator_ports import IMPORTED, turn_without
from support.storage.spool_file import same_imports

MODULES_MAX: Final = 60  # of one step: some 20 ms in which clients wait
STEPS: Final = """
import json
import sys
from importlib import import_module
import sluicegate.gateway.cli.commands.node.node
import sluicegate.gateway.process.run
from sluicegate.gateway.process.operator_ports import IMPORTED
counts = [len(sys.modules)]
before = sorted(sys.modules)
for name in IMPORTED:
    import_module(name)
    counts.append(len(sys.modules))
import sluicegate.gateway.admin.server
import sluicegate.gateway.operations.node
print(json.dumps({"before": before, "counts": counts, "all": len(sys.modules)}))
"""


def test_a_node_that_has_no_file_to_read_imports_no_yaml() -> None:
    """PyYAML takes some twentieth of a start, for an expression of all characters that a file may have."""
    imports = "import sys, sluicegate.gateway.process.run; from sluicegate.gateway.config.load import load"
    for reads, wanted in (("load(settings=['admin.port=1'])", False), ("load(settings=['admin.users=[]'])", True)):
        command = [sys.executable, "-P", "-c", f"{imports}; {reads}; print(*sys.modules)"]
        told = subprocess.run(command, capture_output=True, env=same_imports(), timeout=60, check=True).stdout
        assert ("yaml" in told.decode().split()) is wanted, reads


def test_what_operators_need_is_imported_later_and_in_small_steps() -> None:
    command = [sys.executable, "-P", "-c", STEPS]
    told = json.loads(subprocess.run(command, capture_output=True, env=same_imports(), timeout=60).stdout)
    assert not {"starlette", "uvicorn", "prometheus_client", *IMPORTED}.intersection(told["before"])
    counts = told["counts"]
    assert max(after - before for before, after in pairwise(counts)) < MODULES_MAX
    assert counts[-1] == told["all"], "a module is missing from the steps"


def test_nothing_is_imported_while_clients_ask() -> None:
    received = iter([1, 5, 5, 9, 9, 9, 9])
    asyncio.run(turn_without(lambda: next(received), lambda: 0, until_ms=1))
    assert list(received) == [9]


def test_operators_have_their_turn_however_busy_clients_are() -> None:
    received, clock = count(), count()
    asyncio.run(turn_without(lambda: next(received), lambda: next(clock), until_ms=10))
    assert next(clock) == 11
