"""What a path leads to; a path that cannot be looked at is an error, on each release of Python."""

from pathlib import Path

import pytest

from sluicegate.storage.environment.file_kinds import is_file, is_folder, is_there, may_be_there


def kinds(path: Path) -> tuple[bool, bool, bool]:
    return is_there(path), is_file(path), is_folder(path)


def test_files_folders_and_links_to_them_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "to-file").symlink_to("file")
    (tmp_path / "to-folder").symlink_to(".")
    assert kinds(tmp_path) == kinds(tmp_path / "to-folder") == (True, False, True)
    assert kinds(tmp_path / "file") == kinds(tmp_path / "to-file") == (True, True, False)
    assert kinds(Path("/dev/null")) == (True, False, False)


def test_nothing_is_at_a_path_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "to-nothing").symlink_to("missing")
    for name in ("missing", "missing/below", "file/below", "loop", "to-nothing", "a\0b"):
        assert kinds(tmp_path / name) == (False, False, False), name


def test_a_path_that_cannot_be_looked_at_is_an_error(tmp_path: Path) -> None:
    """No folder is closed to root, so a link to a name that is too long stands for one."""
    (tmp_path / "link").symlink_to("x" * 300)
    for looks in (is_there, is_file, is_folder):
        with pytest.raises(OSError, match="File name too long"):
            looks(tmp_path / "link")
    assert may_be_there(tmp_path / "link")


def test_while_an_error_is_handled_nothing_is_what_is_surely_not_there(tmp_path: Path) -> None:
    assert may_be_there(tmp_path)
    assert not may_be_there(tmp_path / "missing")
