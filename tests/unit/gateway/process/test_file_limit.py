"""Files that the process may open, and what a configuration may want."""

import subprocess
import sys

import pytest

SOFT, HARD = 100, 400
KEPT_BACK = 25  # for operators

PROGRAM = f"""
import logging, resource, sys
from sluicegate.gateway.config.load import load
from sluicegate.gateway.node.os_limits import files_for_clients, raise_file_limit

resource.setrlimit(resource.RLIMIT_NOFILE, ({SOFT}, {HARD}))
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
raise_file_limit(load(None, settings=["listeners.flow.enabled=false", *sys.argv[1:]]))
print(*resource.getrlimit(resource.RLIMIT_NOFILE), files_for_clients())
"""
ONE_LISTENER = [
    *(f"listeners.{name}.enabled=false" for name in ("mqtt_websocket", "amqp", "http")),
    "listeners.mqtt.enabled=true",
]


@pytest.mark.parametrize(("connections", "warnings"), [(300, 0), (301, 1)])
def test_a_process_may_open_all_files_that_it_is_allowed_and_says_if_that_is_too_few(
    connections: int, warnings: int
) -> None:
    settings = [*ONE_LISTENER, f"listeners.mqtt.max_connections={connections}"]
    command = [sys.executable, "-c", PROGRAM, *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    *said, limits = done.stdout.splitlines()
    assert limits == f"{HARD} {HARD} {HARD - KEPT_BACK}"
    assert len(said) == warnings
    if warnings:
        assert said[0].startswith("WARNING listeners: max_connections: together 401 files may be wanted")
        assert said[0].endswith("may open 400: clients beyond are closed at once")
