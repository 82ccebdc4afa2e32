"""Follows a page: terminals of a machine on which nothing else runs, in a folder of their own.

The machine is a network namespace, so commands of pages have the default ports as they stand there. Files in /etc, and
what is put into the folders in `OWN`, are its own: what a page writes there is gone with it.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn, Self

import pytest

from support.pages.listings import Interrupted, Read, Saved, Shown, Step, Typed, shows

PATIENCE_S: Final = 120  # for a command: a cold start of Python where others keep the processors busy
LOOK_S: Final = 0.05
NEEDED: Final = ("unshare", "nsenter", "ip")
OWN: Final = ("etc", "opt", "run", "srv", "var/lib")  # folders of which it has a copy
HOSTS: Final = (  # the other machines of pages: all are this one
    *("gate.example", "lab", "office.example", "plant.example", "solace.example", "erp.example"),
)
PYTHON_PATH: Final = os.environ.get("PYTHONPATH", "").split(os.pathsep)  # may be relative to where the tests run
PROGRAMS: Final = {"sluicegate": "-P -m sluicegate", "python": "", "python3": ""}


def no_machine(reason: str) -> NoReturn:
    """Skip the test, but fail it in CI: there it has to run."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class Reader:
    """Does what a page says, for the length of a `with` block. Without a machine it skips the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "home"
        self._bin = folder / "bin"
        self._output = folder / "output"
        self._terminals: dict[str, Terminal] = {}

    def __enter__(self) -> Self:
        if os.geteuid() != 0 or not all(shutil.which(each) for each in NEEDED):
            no_machine("it takes root, unshare, nsenter and ip to have a network of its own")
        for folder in (self._folder, self._bin, self._output):
            folder.mkdir()
        for name, arguments in PROGRAMS.items():
            program = self._bin / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            program.chmod(0o755)
        # At a terminal curl shows no progress. Here its output is a file.
        (self._folder / ".curlrc").write_text("silent\nshow-error\n")
        self._machine = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-euc", self._made()],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self._machine.stdout is not None
        if self._machine.stdout.readline() != b"up\n":
            _, complaint = self._machine.communicate()
            no_machine(f"no network namespace can be made: {complaint.decode().strip()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for terminal in self._terminals.values():
            terminal.close()
        for each in self._processes():
            os.kill(each, signal.SIGKILL)
        self._machine.communicate()

    def _processes(self) -> list[int]:
        """Return all processes of the machine: pages may leave some in the background."""
        network = os.readlink(f"/proc/{self._machine.pid}/ns/net")
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "ns" / "net") == network:
                    found.append(int(process.name))
            except OSError:  # it has ended
                continue
        return found

    def _made(self) -> str:
        """Return the commands that make the machine."""
        layers = self._output.with_name("layers")
        layers.mkdir()
        commands = [f"mount -t tmpfs none {layers}"]
        for name in OWN:
            above, work = (layers / f"{name.replace('/', '-')}-{part}" for part in ("above", "work"))
            options = f"lowerdir=/{name},upperdir={above},workdir={work}"
            commands.append(f"mkdir {above} {work} && mount -t overlay overlay -o {options} /{name}")
        commands += [f"echo 127.0.0.1 {' '.join(HOSTS)} >>/etc/hosts", "ip link set lo up", "echo up"]
        return "\n".join([*commands, "exec sleep infinity"])

    def does(self, step: Step) -> None:
        """Do one step of the page, and fail if the page is wrong about it."""
        match step:
            case Saved(name, text):
                (self._folder / name).write_text(text)
            case Typed():
                self._terminal(step.terminal).types(step)
            case Shown(terminal, text):
                self._terminal(terminal).comes_to_show(text)
            case Read():
                raise ValueError(f"a listing is only read: {step.text}")
            case Interrupted(terminal):
                self._terminal(terminal).interrupt()

    def _terminal(self, title: str) -> "Terminal":
        if title not in self._terminals:
            self._terminals[title] = Terminal(self, title, self._output / (title or "first"))
        return self._terminals[title]

    def starts(self, commands: str, output: Path) -> "subprocess.Popen[bytes]":
        """Start commands on the machine, with what they print appended to a file."""
        variables = os.environ | {
            "HOME": str(self._folder),
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(str(Path(each).resolve()) for each in PYTHON_PATH if each),
            "PYTHONUNBUFFERED": "1",
        }
        spaces = [f"--{each}=/proc/{self._machine.pid}/ns/{file}" for each, file in (("net", "net"), ("mount", "mnt"))]
        enter = ["nsenter", *spaces, f"--wd={self._folder}", "env", "--default-signal=INT"]
        with output.open("ab") as file:
            return subprocess.Popen(
                [*enter, "bash", "-euo", "pipefail", "-c", commands],
                cwd=self._folder, env=variables, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True,
            )  # fmt: skip


class Terminal:
    """One of the reader's terminals. Where it has no title, each listing ends before the page goes on."""

    def __init__(self, reader: Reader, title: str, output: Path) -> None:
        self._reader = reader
        self._title = title
        self._output = output
        self._seen = 0  # bytes of the output that the page has shown
        self._typed = Typed(title, "")
        self._process: subprocess.Popen[bytes] | None = None

    def types(self, typed: Typed) -> None:
        """Type commands. In a terminal with a title they may run on."""
        if self._process is not None:
            self._ends()
        self._typed = typed
        self._output.touch()
        self._seen = self._output.stat().st_size
        self._process = self._reader.starts(typed.commands, self._output)
        if not self._title:
            self._ends()

    def comes_to_show(self, text: str) -> None:
        """Wait until it shows a text; type the commands again if the page says so."""
        deadline = time.monotonic() + PATIENCE_S
        while not shows(text, self._new()):
            if self._typed.again:
                self.types(self._typed)
            elif self._process is None or self._process.poll() is not None:  # what it shows now is all
                break
            assert time.monotonic() < deadline, self._complaint(text)
            time.sleep(LOOK_S)
        assert shows(text, self._new()), self._complaint(text)
        self._seen = self._output.stat().st_size

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait for the end."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGINT)
        self._process.wait(PATIENCE_S)
        self._process = None
        self._seen = self._output.stat().st_size

    def close(self) -> None:
        """End what still runs, and what it has started."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            self._process.wait(PATIENCE_S)

    def _ends(self) -> None:
        assert self._process is not None
        code = self._process.wait(PATIENCE_S * max(1, self._typed.commands.count("\n")))
        self._process = None
        assert self._title or (code != 0) == self._typed.fails, (
            f"exit code {code} of\n{self._typed.commands}{self._new()}"
        )

    def _new(self) -> str:
        return self._output.read_bytes()[self._seen :].decode()

    def _complaint(self, text: str) -> str:
        where = f"terminal {self._title!r}" if self._title else "the first terminal"
        parts = {"typed": self._typed.commands, "page": text, "shown": self._new()}
        return f"{where} does not show what the page says\n" + "".join(f"--- {k}\n{each}" for k, each in parts.items())
