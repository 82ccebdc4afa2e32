"""The processes of the demo: one gateway (`sluicegate serve`) and its workers. None outlives the demo."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

CONFIGURATION: Final = Path(__file__).with_name("gateway.yaml")
STOPS_WITHIN_S: Final = 60.0
_ENDPOINT: Final = re.compile(r"^  (\w+) +(\S+://\S+)$", re.MULTILINE)


class DemoFailed(Exception):
    """A part of the demo failed; the text names it, and the file with the details."""


@contextmanager
def gateway(folder: Path) -> Iterator[Mapping[str, str]]:
    """Run a gateway on a data folder for the length of the block; yield its URLs by the names that it prints."""
    with (folder / "gateway.log").open("w") as log:
        files = ("--config", str(CONFIGURATION), "--data", str(folder / "data"))
        # -P: run the installed gateway, not the sources of the working directory.
        command = [sys.executable, "-P", "-m", "sluicegate", "serve", *files]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None, "a pipe was asked for"
        yield _urls(process.stdout, folder)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _urls(announced: IO[str], folder: Path) -> Mapping[str, str]:
    """Read up to the last address; the gateway announces it when it is ready. Raises DemoFailed."""
    text = ""
    while "admin" not in (found := dict(_ENDPOINT.findall(text))):
        line = announced.readline()
        if not line:
            raise DemoFailed(f"the gateway ended, and says why in {folder / 'gateway.log'}")
        text += line
    return found


@contextmanager
def workers(count: int, arguments: Sequence[str], log_folder: Path) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Run workers for the length of the block; its end kills those that still run."""
    command = [sys.executable, "-m", "demo.worker", *arguments]
    begun: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(count):
            with (log_folder / f"worker-{number}.log").open("wb") as log:
                begun.append(subprocess.Popen(command, stdout=log, stderr=log))
        yield begun
    finally:
        for process in begun:
            process.kill()  # their open transactions are rolled back
            process.wait()
