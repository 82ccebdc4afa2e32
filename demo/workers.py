"""The processes of the demo's workers: start, kill of one, and end."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def workers(count: int, arguments: Sequence[str], log_folder: Path) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Run workers; whatever becomes of the demo, none outlives it."""
    command = [sys.executable, "-m", "demo.worker", *arguments]
    begun: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(count):
            with (log_folder / f"worker-{number}.log").open("wb") as log:
                begun.append(subprocess.Popen(command, stdout=log, stderr=log))
        yield begun
    finally:
        for process in begun:
            process.kill()  # what they have not committed did not happen
            process.wait()
