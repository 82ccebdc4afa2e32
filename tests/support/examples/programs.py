"""Programs of `examples/`, run as their readers run them: the broker's addresses come from the environment."""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from sluicegate.testing import Broker

ROOT: Final = Path(__file__).resolve().parents[3]
EXAMPLES: Final = ROOT / "examples"
BUILT: Final = Path(os.environ.get("SLUICEGATE_EXAMPLES_BUILD", ROOT / "build" / "examples"))
ALL: Final = os.environ.get("SLUICEGATE_ALL_EXAMPLES") == "1"  # by `make test-examples`
MADE_BESIDE_SOURCES: Final = {  # in a folder of examples, by a reader
    "c": ("consume", "dead_messages", "publish", "reply", "request"),
    "circuitpython": ("venv",),
}
WITHIN_S: Final = 120  # a program, or what a program is to print
BUILD_S: Final = 1500  # the first build downloads packages


class Programs:
    """The programs of one client library. `command` says how one of them is started, by its name."""

    def __init__(self, command: Callable[[str], list[str]], broker: Broker) -> None:
        self._command = command
        self._environment = {
            **os.environ,
            "MQTT_URL": broker.mqtt_url,
            "AMQP_URL": broker.amqp_url,
            "FLOW_URL": broker.flow_url,
        }

    def run(self, name: str) -> list[str]:
        """Run a program to its end, and return the lines that it printed."""
        done = subprocess.run(
            self._command(name), env=self._environment, capture_output=True, text=True, timeout=WITHIN_S
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        return done.stdout.splitlines()

    @contextmanager
    def running(self, name: str) -> "Iterator[Running]":
        """Start a program that runs until Ctrl-C, and end it so."""
        process = subprocess.Popen(self._command(name), env=self._environment, stdout=subprocess.PIPE, text=True)
        running = Running(process)
        try:
            yield running
        finally:
            running.end()


class Running:
    """A program that runs, and what it has printed so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self._process = process
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def end(self) -> None:
        """Press Ctrl-C, and wait for the end; then `lines` is complete."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(WITHIN_S)
        finally:
            self._process.kill()
            self._process.wait()  # else the collector of another test complains
            self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.lines.extend(line.rstrip("\n") for line in self._process.stdout)


def toolchain(name: str) -> str:
    """Return the path of a compiler or an interpreter. Skips the test without it.

    What takes minutes to download and to build is left to `make test-examples`.
    """
    if not ALL:
        pytest.skip("takes minutes; `make test-examples` runs it")
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def copied(name: str, sources: Path | None = None) -> Path:
    """Return a copy of the folder of a language where it may be built, kept from run to run.

    `sources` is another folder than that of `examples/`. What a reader has built in it is not copied.
    """
    folder = BUILT / name
    made = shutil.ignore_patterns("node_modules", "package-lock.json", "target", *MADE_BESIDE_SOURCES.get(name, ()))
    shutil.copytree(sources or EXAMPLES / name, folder, ignore=made, dirs_exist_ok=True)
    return folder


def build(folder: Path, *command: str) -> None:
    """Run what builds the programs in a folder. The test fails with what it printed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_S)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
