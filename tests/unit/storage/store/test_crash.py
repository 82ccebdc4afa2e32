"""kill -9 at any moment: whatever a commit returned for is there, and nothing is there by halves."""

import random
import signal
import sys
from pathlib import Path

import pytest

from sluicegate.storage.interface import Recovery, Table
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
    """Every number up to the last commit is in exactly one place: in the log or on a page."""
    journaled = [number for number, _ in recovery.journal]
    paged = [page.summary.first_sequence // 1000 for page in recovery.pages if page.partition_id == 1]
    staged = [page.summary.first_sequence for page in recovery.pages if page.partition_id == 2]
    last = recovery.next_record_number - 1
    assert last in (acknowledged, acknowledged + 1)  # the one that was killed before it could print
    assert sorted(journaled + paged) == staged == list(range(1, last + 1))
    assert recovery.cursors[1].next_sequence == last + 1
    assert dict(recovery.tables[Table.READERS]) == {b"last": b"%d" % last}
    assert recovery.quarantined == []


@pytest.mark.crash
def test_everything_acknowledged_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    """Real fdatasync before any acknowledgement; one record for all of a commit, one transaction for a checkpoint."""
    moments = random.Random(SEED)
    for _ in range(ROUNDS):
        acknowledged = commit_and_kill(tmp_path, commits=moments.randint(1, 150))

        store = SpoolStore.open(tmp_path, map_bytes_max=64 << 20)
        check_is_whole(store.recover(), acknowledged)
        store.close()
