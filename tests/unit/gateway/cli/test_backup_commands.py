"""`sluicegate backup` and what is behind it at `/backup`, against a real admin server."""

from dataclasses import replace
from pathlib import Path

import orjson

from sluicegate.gateway.cli.terminal.failures import FAILED
from sluicegate.gateway.views.node.backups import BackupState
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin
from support.operations.shell import Shell


def test_a_backup_is_begun_shown_and_ended(admin: RunningAdmin, node: MemoryNode) -> None:
    shell = Shell(admin.url)
    assert "no backup was made" in shell.run("backup-status", expect=FAILED)
    assert shell.run("backup", "monday", "--no-wait") == "running: /backups/monday, 0 B of about 0 B\n"
    assert "'monday' is running" in shell.run("backup", expect=FAILED)
    assert "it was cancelled" in shell.run("backup-cancel")
    assert orjson.loads(shell.run("backup-status", "--json"))["state"] == "cancelled"


def test_a_backup_that_is_whole_is_not_said_to_be_cancelled(admin: RunningAdmin, node: MemoryNode) -> None:
    shell = Shell(admin.url)
    shell.run("backup", "monday", "--no-wait")
    assert node.backup is not None
    node.backup = replace(node.backup, state=BackupState.DONE)
    told = shell.run("backup-cancel", expect=FAILED)
    assert told == "error: no backup is running; the latest one: done: /backups/monday, 0 B\n"
    assert orjson.loads(shell.run("backup-status", "--json"))["state"] == "done"


def test_a_request_for_a_backup_says_its_name_and_nothing_else(admin: RunningAdmin) -> None:
    assert admin.ask("POST", "/backup", {"path": "/etc"}).json()["field"] == "path"
    assert admin.ask("POST", "/backup", {"name": 7}).json()["field"] == "name"
    assert admin.ask("POST", "/backup", {"name": "a"}).status == 202
    assert admin.ask("DELETE", "/backup").json()["state"] == "cancelled"


def test_an_invalid_backup_is_not_restored(admin: RunningAdmin, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    told = Shell("").run("restore", str(tmp_path / "b"), "--data", str(tmp_path / "data"), expect=FAILED)
    assert "no backup, or not a whole one: it has no backup.json" in told
    assert not (tmp_path / "data").exists()


def test_a_backup_that_cannot_be_looked_at_is_named_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 300)
    told = Shell("").run("restore", str(folder), "--data", str(tmp_path / "data"), expect=FAILED)
    assert f"{folder}/data.mdb: File name too long" in told.replace("\n", "")
