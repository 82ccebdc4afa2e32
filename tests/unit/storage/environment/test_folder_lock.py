"""The claim of one process on a data folder: one at a time, whatever happens to its file."""

import fcntl
import os
from pathlib import Path

import pytest

from sluicegate.storage.environment.folder_lock import LOCK_FILE, FolderLock
from sluicegate.storage.errors import FolderInUse


def test_a_folder_has_one_claim_at_a_time_and_its_file_stays(tmp_path: Path) -> None:
    first = FolderLock(tmp_path)
    with pytest.raises(FolderInUse, match=str(os.getpid())):
        FolderLock(tmp_path)
    first.release()
    FolderLock(tmp_path).release()
    assert os.listdir(tmp_path) == [LOCK_FILE]


def test_a_claim_that_is_withdrawn_leaves_nothing(tmp_path: Path) -> None:
    FolderLock(tmp_path).withdraw()
    assert os.listdir(tmp_path) == []


def test_who_opened_the_file_of_a_withdrawn_claim_has_none_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two would have the folder: one by the file that is gone, one by that which there is now."""
    held = FolderLock(tmp_path)
    lock = fcntl.flock

    def withdrawn_before_it_is_locked(descriptor: int, operation: int) -> None:
        monkeypatch.undo()
        held.withdraw()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", withdrawn_before_it_is_locked)
    late = FolderLock(tmp_path)
    with pytest.raises(FolderInUse):
        FolderLock(tmp_path)
    late.release()
