"""Who may read what the store writes: the broker's user, its group, and under no umask anybody else."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate.storage.backup.backup import Backup
from sluicegate.storage.backup.folder import NOTE_FILE, PARTIAL_FILE, BackupNote, write_note
from sluicegate.storage.backup.restore import restore_backup
from sluicegate.storage.environment.environment import READERS_FILE
from sluicegate.storage.environment.file_rights import describe_rights, make_file, open_to_others
from sluicegate.storage.environment.folder_lock import DATA_FILE, LOCK_FILE
from sluicegate.storage.errors import BackupRefused
from sluicegate.storage.log.journal import LOG_FOLDER
from sluicegate.storage.store.store import SPOOL_FILES, SpoolStore
from support.storage.sample_records import publish_job

MIB = 1 << 20
OPEN, USUAL, GROUP, ALONE = 0o000, 0o022, 0o027, 0o077  # masks
WIDER = 0o027  # than 0750 and 0640, of a folder and of a file that nobody executes


@pytest.fixture(params=[OPEN, USUAL, GROUP, ALONE], ids="{:03o}".format)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def opened(folder: Path) -> SpoolStore:
    return SpoolStore.open(folder, map_bytes_max=16 * MIB, reserve_bytes=MIB)


def modes(folder: Path) -> dict[str, int]:
    """Return the rights of a folder, under the name of a dot, and of all that lies below it."""
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


def test_a_new_store_is_for_its_user_and_the_readers_of_its_group(tmp_path: Path, umask: int) -> None:
    store = opened(tmp_path / "above" / "data")
    store.commit(publish_job(1))
    store.close()

    files = [DATA_FILE, READERS_FILE, LOCK_FILE, f"{LOG_FOLDER}/000000000001.log", f"{LOG_FOLDER}/spare-2.log"]
    expected = dict.fromkeys((".", LOG_FOLDER), 488 & ~umask) | dict.fromkeys(files, 416 & ~umask)
    assert modes(tmp_path / "above" / "data") == expected
    assert modes(tmp_path)["above"] == 0o777 & ~umask  # it is not ours


def test_a_backup_and_what_is_restored_from_it_are_no_wider(tmp_path: Path, umask: int) -> None:
    store = opened(tmp_path / "data")
    Backup(store, tmp_path / "backups" / "b", incarnation=1, taken_ms=1, node="n", release="1").run()
    store.close()
    while_copied: list[int] = []

    def copied(count: int) -> None:
        while_copied.append(modes(tmp_path / "restored")[PARTIAL_FILE])

    restore_backup(tmp_path / "backups" / "b", tmp_path / "restored", incarnation=2, copied=copied)

    assert set(while_copied) == {0o640 & ~umask}
    for folder in ("backups", "restored"):
        for name, mode in modes(tmp_path / folder).items():
            assert not mode & WIDER, (folder, name, oct(mode))


def test_leftovers_of_an_interrupted_restore_lend_no_rights(tmp_path: Path) -> None:
    """Nor its place: a symbolic link under that name is not written through."""
    store = opened(tmp_path / "data")
    Backup(store, tmp_path / "b", incarnation=1, taken_ms=1, node="n", release="1").run()
    store.close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"kept")
    for number, leftover in enumerate(("file", "link")):
        folder = tmp_path / f"restored{number}"
        folder.mkdir()
        if leftover == "file":
            (folder / PARTIAL_FILE).write_bytes(b"half")
            (folder / PARTIAL_FILE).chmod(0o666)
        else:
            (folder / PARTIAL_FILE).symlink_to(elsewhere)
        restore_backup(tmp_path / "b", folder, incarnation=2, copied=lambda count: None)
        assert modes(folder)[DATA_FILE] & WIDER == 0
        assert not (folder / DATA_FILE).is_symlink()
    assert elsewhere.read_bytes() == b"kept"


def test_a_backup_is_not_written_through_links(tmp_path: Path) -> None:
    """They look like what a writer left that died."""
    store = opened(tmp_path / "data")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"kept")
    folder = tmp_path / "backups" / "b"
    folder.mkdir(parents=True)
    (folder / PARTIAL_FILE).symlink_to(elsewhere)
    with pytest.raises(BackupRefused, match=f"symbolic links.*{folder / PARTIAL_FILE}"):
        Backup(store, folder, incarnation=1, taken_ms=1, node="n", release="1").run()
    (folder / PARTIAL_FILE).unlink()
    (folder / NOTE_FILE).symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic links"):
        write_note(folder, BackupNote(incarnation=1, taken_ms=1, node="n", release="1", data_bytes=1, data_xxh3=""))
    store.close()
    assert elsewhere.read_bytes() == b"kept"


def test_a_file_is_never_made_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        make_file(tmp_path / "link")
    assert not (tmp_path / "nowhere").exists()


def test_wider_permissions_are_found_and_the_reported_command_removes_them(tmp_path: Path) -> None:
    """The command is for a shell: names are quoted. It gives nobody a right that was not there."""
    folder = tmp_path / "the node's data"
    opened(folder).close()
    assert open_to_others(folder, SPOOL_FILES) == []
    folder.chmod(0o755)
    (folder / DATA_FILE).chmod(0o604)
    (folder / "lock.mdb").chmod(0o660)

    found = open_to_others(folder, SPOOL_FILES)
    told = describe_rights(found)

    assert [(each.path.name, each.mode) for each in found] == [
        ("the node's data", 0o755),
        (DATA_FILE, 0o604),
        ("lock.mdb", 0o660),
    ]
    assert f"{folder} (0755), {folder / DATA_FILE} (0604)" in told
    subprocess.run(told.partition("to end that: ")[2], shell=True, check=True)
    assert open_to_others(folder, SPOOL_FILES) == []
    found_modes = {name: mode for name, mode in modes(folder).items() if not name.startswith(f"{LOG_FOLDER}/")}
    assert found_modes == {
        ".": 0o750,
        DATA_FILE: 0o600,
        READERS_FILE: 0o640,
        LOCK_FILE: 0o640,
        LOG_FOLDER: 0o750,
    }


def test_stricter_rights_than_ours_are_nothing_to_tell(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    opened(folder).close()
    folder.chmod(0o700)
    (folder / DATA_FILE).chmod(0o600)
    assert open_to_others(folder, SPOOL_FILES) == []


def test_the_root_of_a_volume_may_belong_to_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes makes it root's, with mode 2775 and the group of `fsGroup`; who may write is still told."""
    tmp_path.chmod(0o2775)
    assert [each.mode for each in open_to_others(tmp_path, SPOOL_FILES)] == [0o2775]
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert open_to_others(tmp_path, SPOOL_FILES) == []
    tmp_path.chmod(0o2777)
    assert [each.mode for each in open_to_others(tmp_path, SPOOL_FILES)] == [0o2777]
