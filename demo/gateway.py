"""The gateway of the demo: `sluicegate serve` as a process, until the demo is over."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from demo.failures import DemoFailed

CONFIGURATION: Final = Path(__file__).with_name("gateway.yaml")
STOPS_WITHIN_S: Final = 60.0
_ENDPOINT: Final = re.compile(r"^  (\w+) +(\S+://\S+)$", re.MULTILINE)


@contextmanager
def gateway(folder: Path) -> Iterator[Mapping[str, str]]:
    """Run a gateway with its data in a folder, and give its URLs by the names that it announces."""
    with (folder / "gateway.log").open("w") as log:
        files = ("--config", str(CONFIGURATION), "--data", str(folder / "data"))
        # -P: the gateway that is installed, and not the sources where this is called.
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
