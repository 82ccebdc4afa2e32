"""What a gateway that has started tells its operator to try."""

import sys
from pathlib import Path

import pytest

from sluicegate.gateway.process.run import first_commands


def test_they_name_ports_only_where_commands_would_look_elsewhere() -> None:
    assert not any("--port" in line or "--url" in line for line in first_commands(1883, 8080))
    _, create, consume, publish = first_commands(2883, 9080)
    assert create.endswith(" --url http://127.0.0.1:9080")
    assert consume.endswith(" --port 2883")
    assert publish.endswith(" --port 2883")


def test_a_gateway_without_mqtt_has_none() -> None:
    assert first_commands(None, 8080) == []


@pytest.mark.parametrize("is_found", [True, False], ids=["activated", "by path"])
def test_they_say_where_the_command_is_unless_the_shell_finds_it(
    is_found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make run` and `gateway/bin/sluicegate serve` activate no environment."""
    if is_found:
        (tmp_path / "sluicegate").write_text("#!/bin/sh\n")
        (tmp_path / "sluicegate").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    first = first_commands(1883, 8080)[0]
    assert (str(Path(sys.executable).parent) in first) == (not is_found)
