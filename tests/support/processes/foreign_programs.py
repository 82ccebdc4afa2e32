"""Foreign programs that interop tests need. A missing one skips the test, and fails it in CI."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[3]
SYSTEM_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin"))  # Debian keeps mosquitto there


def program(name: str) -> str:
    """Return the path of a program such as `mosquitto_pub`."""
    found = shutil.which(name, path=SYSTEM_PATH)
    return found if found is not None else _missing(name)


def node_modules(package: str) -> Path:
    """Return the node_modules folder that contains an npm package such as `mqtt`."""
    program("node")
    folder = Path(os.environ.get("SLUICEGATE_NODE_MODULES", ROOT / "build" / "node" / "node_modules"))
    return folder if (folder / package).is_dir() else _missing(f"npm's {package}")


def source(path: str) -> Path:
    """Return a source file of a Debian package, such as an example that is to be compiled."""
    return Path(path) if Path(path).is_file() else _missing(path)


def library(name: str) -> Path:
    """Return a shared library from a folder of its own, such as `faketime/libfaketimeMT.so.1`."""
    found = sorted(Path("/usr/lib").glob(f"*/{name}"))
    return found[0] if found else _missing(name)


def _missing(name: str) -> NoReturn:
    reason = f"{name} is not installed; scripts/test-needs installs it or says why not"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
