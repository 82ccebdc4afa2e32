"""kill -9 between any two steps of staged publishing: a transaction is complete and there once, or not at all."""

import random
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.processes.programs import running
from support.storage.spool_file import same_imports

PROGRAM = Path(__file__).with_name("stage_until_killed.py")
ROUNDS = 4
SEED = 50
ROWS = 50

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def run_and_kill(folder: Path, first: int, commits: int) -> tuple[list[str], int]:
    """Run the program until it has committed so often, then kill it; return what it found, and its last commit."""
    command: list[str | Path] = [sys.executable, "-P", PROGRAM, folder, str(first)]
    with running(command, environment=same_imports()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = [process.stdout.readline() for _ in range(1 + commits)]
        process.kill()
        said += process.stdout.readlines()  # answered before the kill
        assert process.wait() == -signal.SIGKILL, process.stderr.read()
        found = said[0].split()
        assert found[:1] == ["found"], found
        last = int(said[-1].split()[1])
    return found[1:], last


@pytest.mark.timeout(600)
def test_a_transaction_is_whole_and_once_or_not_at_all(tmp_path: Path) -> None:
    """spark.md 3.1: commit is atomic over all partitions and idempotent; a stage is invisible."""
    draw = random.Random(SEED)
    committed: set[int] = set()
    first = 1
    for _ in range(ROUNDS):
        found, last = run_and_kill(tmp_path, first, draw.randint(1, 6))
        counts = Counter(each.split("/")[0] for each in found)
        assert len(set(found)) == len(found), "nothing is published twice"
        assert not [each for each in found if each.endswith("failed")], "only what was named is published"
        assert set(counts.values()) <= {2 * ROWS}, "a transaction is whole or not there"
        assert committed <= {int(number) for number in counts}, "what was answered is there"
        committed |= set(range(first, last + 1))
        first = last + 2  # the one under way at the kill may have been decided
