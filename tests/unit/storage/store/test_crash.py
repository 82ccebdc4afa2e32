"""kill -9 at any moment: whatever a commit returned for is there, and nothing is there by halves."""

import random
import signal
import sys
from pathlib import Path

import pytest

from sluicegate.storage.interface import Recovery
from sluicegate.storage.store.store import SpoolStore
from support.processes.programs import running
from support.storage.spool_file import same_imports

PROGRAM = Path(__file__).with_name("commit_until_killed.py")
ROUNDS = 5
SEED = 20


def commit_and_kill(folder: Path, commits: int) -> int:
    """Let a process commit so many times and more, kill it, and return the last number it saw acknowledged."""
    with running([sys.executable, PROGRAM, folder], environment=same_imports()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        acknowledged = [process.stdout.readline() for _ in range(commits)]
        process.kill()
        acknowledged += process.stdout.readlines()
        errors = process.stderr.read()
        assert process.wait() == -signal.SIGKILL, errors
    return int(acknowledged[-1])


def check_is_whole(recovery: Recovery, acknowledged: int) -> None:
    """Every number up to the last commit is in exactly one place: in the journal or on a page."""
    last = recovery.cursors[1].floor
    assert last in (acknowledged, acknowledged + 1)  # the one that was killed before it could print
    journaled = [number for number, _ in recovery.journal]
    paged = [page.summary.first_sequence // 1000 for page in recovery.pages]
    assert sorted(journaled + paged) == list(range(1, last + 1))
    assert recovery.quarantined == []


@pytest.mark.crash
def test_everything_acknowledged_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    """Real fsync before any acknowledgement; one transaction for all of a commit."""
    moments = random.Random(SEED)
    for _ in range(ROUNDS):
        acknowledged = commit_and_kill(tmp_path, commits=moments.randint(1, 150))

        store = SpoolStore.open(tmp_path, map_bytes_max=256 << 20)
        check_is_whole(store.recover(), acknowledged)
        store.close()
