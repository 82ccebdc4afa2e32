"""The start of a gateway: errors that name a setting, the limit of open files, and the order of its ports."""

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
from itertools import count, pairwise
from typing import Final

import pytest

from sluicegate.gateway.process.operator_ports import IMPORTED, wait_until_idle
from sluicegate.gateway.views.errors import CannotStart, opening
from support.storage.spool_file import same_imports


@pytest.mark.parametrize(
    ("error", "reason", "setting"),
    [
        (OSError(errno.EADDRINUSE, "in use"), "another program listens there", "listeners.mqtt.port"),
        (OSError(errno.EACCES, os.strerror(errno.EACCES)), "Permission denied", "listeners.mqtt.port"),
        (OSError(errno.EADDRNOTAVAIL, "none"), "that is no address of this machine", "listeners.mqtt.host"),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), "that is no address of this machine", "listeners.mqtt.host"),
    ],
)
def test_a_port_that_cannot_be_had_is_named_with_the_setting_that_would_help(
    error: OSError, reason: str, setting: str
) -> None:
    with pytest.raises(CannotStart) as refused, opening("listeners.mqtt", "gate.example", 1883):
        raise error
    assert refused.value.text == f"listeners.mqtt cannot listen on gate.example:1883: {reason}"
    assert f"--set {setting}=" in refused.value.advice


SOFT, HARD = 100, 400
KEPT_BACK = 25  # for operators

PROGRAM = f"""
import logging, resource, sys
from sluicegate.gateway.config.load import load
from sluicegate.gateway.node.os_limits import files_for_clients, raise_file_limit

resource.setrlimit(resource.RLIMIT_NOFILE, ({SOFT}, {HARD}))
logging.basicConfig(stream=sys.stdout, level="INFO", format="%(levelname)s %(message)s")
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
        assert said[0].startswith("WARNING listeners: max_connections: 401 files may be needed")
        assert said[0].endswith("may open 400: further clients are closed at once")


def test_default_limits_of_connections_share_the_files_that_the_process_may_open() -> None:
    """A first start with the defaults has nothing to warn of."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    said, limits = done.stdout.splitlines()
    assert said == "INFO this process may open 400 files, so all listeners together accept up to 300 connections"
    assert limits == f"{HARD} {HARD} {HARD - KEPT_BACK}"


MODULES_MAX: Final = 60  # of one step: some 20 ms in which clients wait
STEPS: Final = """
import json
import sys
from importlib import import_module
import sluicegate.gateway.cli.commands.node.node
import sluicegate.gateway.process.run
from sluicegate.gateway.process.operator_ports import IMPORTED
counts = [len(sys.modules)]
before = sorted(sys.modules)
for name in IMPORTED:
    import_module(name)
    counts.append(len(sys.modules))
import sluicegate.gateway.admin.server
import sluicegate.gateway.operations.node
print(json.dumps({"before": before, "counts": counts, "all": len(sys.modules)}))
"""


def test_a_node_that_has_no_file_to_read_imports_no_yaml() -> None:
    """PyYAML takes some twentieth of a start, for an expression of all characters that a file may have."""
    imports = "import sys, sluicegate.gateway.process.run; from sluicegate.gateway.config.load import load"
    for reads, wanted in (("load(settings=['admin.port=1'])", False), ("load(settings=['admin.users=[]'])", True)):
        command = [sys.executable, "-P", "-c", f"{imports}; {reads}; print(*sys.modules)"]
        told = subprocess.run(command, capture_output=True, env=same_imports(), timeout=60, check=True).stdout
        assert ("yaml" in told.decode().split()) is wanted, reads


def test_modules_for_operators_are_imported_later_and_in_small_steps() -> None:
    command = [sys.executable, "-P", "-c", STEPS]
    told = json.loads(subprocess.run(command, capture_output=True, env=same_imports(), timeout=60).stdout)
    assert not {"starlette", "uvicorn", "prometheus_client", *IMPORTED}.intersection(told["before"])
    counts = told["counts"]
    assert max(after - before for before, after in pairwise(counts)) < MODULES_MAX
    assert counts[-1] == told["all"], "a module is missing from the steps"


def test_nothing_is_imported_while_clients_ask() -> None:
    received = iter([1, 5, 5, 9, 9, 9, 9])
    asyncio.run(wait_until_idle(lambda: next(received), lambda: 0, until_ms=1))
    assert list(received) == [9]


def test_operators_have_their_turn_however_busy_clients_are() -> None:
    received, clock = count(), count()
    asyncio.run(wait_until_idle(lambda: next(received), lambda: next(clock), until_ms=10))
    assert next(clock) == 11
