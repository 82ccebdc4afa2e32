"""Permissions of all files that a running gateway writes, whatever its umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.load.mqtt_clients import WireClient, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import GatewayProcess

pytestmark = pytest.mark.crash

SPOOL = {"data.mdb": 0o640, "lock.mdb": 0o640, "sluicegate.lock": 0o640, "log": 0o750}
LOG_FILE = 0o640


@pytest.fixture
def without_a_umask() -> Iterator[None]:
    """What the processes that a test starts inherit."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


def is_as_made(folder: Path) -> bool:
    """Return whether a data folder has the files of a spool, with the permissions of new ones."""
    found = modes(folder)
    log_files = {found.pop(name) for name in list(found) if name.startswith("log/")}
    return found == SPOOL and log_files == {LOG_FILE}


def test_files_of_a_gateway_are_unreadable_for_other_users(tmp_path: Path, without_a_umask: None) -> None:
    """Its spool, a backup, what is restored from that, and the audit log; nothing is told, for nothing is wide."""
    gateway = GatewayProcess(tmp_path / "node", {"log.audit_file": str(tmp_path / "audit.log")})
    publisher = WirePublisher("p", topic="load", keys=["a"], qos=1)
    clients: list[WireClient] = [publisher]
    with gateway, hung_up_at_the_end(clients):
        publisher.connect(gateway.mqtt_port)
        gateway.create_queue("load", subscriptions=["load/>", "load"])
        run_until(clients, lambda: publisher.confirmed_count > 10, within_s=60, what="confirmations")
        assert gateway.command("backup", "b").returncode == 0
        assert is_as_made(gateway.data)
        gateway.kill9()
        restored = str(tmp_path / "restored")
        assert gateway.command("restore", str(gateway.backups / "b"), "--data", restored).returncode == 0
        gateway.start()
        assert is_as_made(gateway.data)
        gateway.stop()
        backup = {"b": 0o750, "b/backup.json": 0o640, "b/data.mdb": 0o640}
        assert modes(gateway.backups) == backup
        assert modes(tmp_path / "restored") == {"data.mdb": 0o640, "sluicegate.lock": 0o640}
        folders = (gateway.data, gateway.backups, tmp_path / "restored")
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o750] * 3
        assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o640
        assert "other users of this machine" not in gateway.stderr


def test_wider_permissions_are_reported_at_the_start_with_the_command_that_removes_them(tmp_path: Path) -> None:
    """Those of a folder that an earlier release made. They are left: somebody may have given them."""
    with GatewayProcess(tmp_path) as gateway:
        gateway.stop()
        gateway.data.chmod(0o755)
        names = [name for name in SPOOL if (gateway.data / name).is_file()]
        for name in names:
            (gateway.data / name).chmod(0o644)
        gateway.start()
        [line] = [each for each in gateway.stderr.splitlines() if "other users of this machine" in each]
        assert "WARNING sluicegate.node" in line
        assert f"{gateway.data} (0755)" in line
        for name in names:
            assert f"{gateway.data / name} (0644)" in line
        assert f"; to end that: chmod g-w,o-rwx {gateway.data} {gateway.data / 'data.mdb'}" in line
        assert {modes(gateway.data)[name] for name in names} == {0o644}
        gateway.stop()
