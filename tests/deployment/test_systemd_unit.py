"""The unit of systemd, by systemd's own tools; and what the gateway tells the manager that started it."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Final

import pytest

from sluicegate.gateway.cli.terminal.failures import USAGE
from sluicegate.gateway.cluster.replica.process import EXIT_CODES, End
from sluicegate.gateway.config.load import load
from sluicegate.gateway.process.service_manager import tell_ready
from support.processes.gateway import GatewayProcess

SYSTEMD: Final = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
UNIT: Final = SYSTEMD / "sluicegate.service"
EXPOSURE_MAX: Final = "20"  # tenths: a service that systemd calls OK, and nearly safe


def directives() -> dict[str, str]:
    """Return what [Service] says. Of a directive that stands twice, the last one."""
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names have capitals
    parser.read(UNIT)
    return dict(parser["Service"])


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A service manager's socket, in the environment of what is started."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listening


def told(manager: socket.socket) -> list[str]:
    """Return all that the manager has been told."""
    messages = []
    while True:
        try:
            messages.append(manager.recv(4096).decode())
        except BlockingIOError:
            return messages


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_finds_no_mistake_in_the_unit_and_little_that_it_may_do(tmp_path: Path) -> None:
    """Its program is another one here: systemd wants one that exists."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/sluicegate/bin/sluicegate", sys.executable))
    for command in (["verify"], ["security", "--offline=true", f"--threshold={EXPOSURE_MAX}"]):
        done = subprocess.run(["systemd-analyze", *command, str(unit)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert unit.name not in done.stderr


def test_the_configuration_beside_the_unit_stores_where_the_unit_allows_it() -> None:
    config = load(SYSTEMD / "gateway.yaml", environment={}, settings=[])
    stored = {f"/var/lib/{each}" for each in directives()["StateDirectory"].split()}
    assert stored == {str(config.data.path), str(config.backup.path)}


def test_an_invalid_configuration_or_a_log_of_a_later_release_is_not_tried_again_and_again() -> None:
    assert directives()["RestartPreventExitStatus"] == f"{USAGE} {EXIT_CODES[End.OUTDATED]}"


@pytest.mark.parametrize("settings", [{}, {"brokers": 2}], ids=["a broker", "two brokers"])
def test_the_manager_is_told_once_when_the_gateway_is_ready(
    manager: socket.socket, settings: dict[str, object], tmp_path: Path
) -> None:
    assert directives()["Type"] == "notify"
    gateway = GatewayProcess(tmp_path / "gateway", settings)
    with gateway:
        (message,) = told(manager)
        assert message.startswith("READY=1\nSTATUS=Sluicegate ")
        assert "is ready" in message
    assert told(manager) == []


def test_an_abstract_socket_is_told_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{tmp_path}")
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{tmp_path}")
        tell_ready("is ready")
        assert told(manager) == ["READY=1\nSTATUS=is ready\n"]


def test_a_manager_that_is_away_is_logged_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    tell_ready("is ready")
    assert "cannot tell the service manager" in caplog.text
