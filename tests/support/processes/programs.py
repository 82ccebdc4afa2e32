"""Programs that a test starts: each ends with the test, whatever its result."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running(
    command: Sequence[str | Path], *, environment: Mapping[str, str] | None = None, stdin: int | None = None
) -> "Iterator[subprocess.Popen[str]]":
    """Run a program for the length of a `with` block, its output in pipes; what is left of it at the end is killed.

    Without the kill a failed assertion would wait for a program that waits for the test.
    """
    with subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()
