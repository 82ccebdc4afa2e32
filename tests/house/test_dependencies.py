"""What the package imports is what it declares, or what that needs itself; and it declares nothing else.

Whether a release of it has a known hole, `make scan` asks a service that knows; no test can.
"""

import ast
import functools
import re
import runpy
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

from support.syntax import syntax_of

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]

CLIENT = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["project"]
CLIENT_SETUP = runpy.run_path(str(ROOT / "client" / "setup.py"), run_name="client_setup")

ROOMS = ("messaging", "storage", "actors", "protocols", "gateway", "sluicegate")
JOBS = ("pipeline", "pyspark_sluicegate")
TESTING = ("testing",)

# Not when tests are collected: it reads what each installed distribution says of itself.
providers = functools.cache(packages_distributions)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> set[str]:
    """Return the distributions that are installed."""
    return {normal(each) for distributions in providers().values() for each in distributions}


def named(requirements: list[str]) -> set[str]:
    """Return the distributions that requirements name."""
    return {normal(re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0]) for each in requirements}


def imported(rooms: tuple[str, ...]) -> dict[str, set[str]]:
    """Return the distributions that each imported module may be of, by module and file."""
    found: dict[str, set[str]] = {}
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            for module in modules_named_in(path):
                distributions = {normal(each) for each in providers().get(module.partition(".")[0], ())}
                if distributions - {normal(PROJECT["name"])}:
                    found[f"{module} in {path.relative_to(ROOT)}"] = distributions
    return found


def modules_named_in(source: Path) -> list[str]:
    """Return the modules that a file imports."""
    named: list[str] = []
    for node in ast.walk(syntax_of(source)):
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            named.append(node.module)
    return named


@pytest.mark.parametrize(
    ("rooms", "extras"),
    [(ROOMS, ("tracing", "bridge", "cluster", "schemas", "ldap")), (JOBS, ("spark", "jobs")), (TESTING, ("testing",))],
    ids=["gateway", "jobs", "testing"],
)
def test_everything_that_is_imported_is_declared(rooms: tuple[str, ...], extras: tuple[str, ...]) -> None:
    declared = named([*PROJECT["dependencies"], *(each for extra in extras for each in EXTRAS[extra])])
    needed = named([each for name in declared & installed() for each in requires(name) or () if "extra ==" not in each])
    assert [each for each, distributions in imported(rooms).items() if not distributions & (declared | needed)] == []


def test_everything_that_is_declared_is_imported() -> None:
    assert named(PROJECT["dependencies"]) - set().union(*imported((*ROOMS, *JOBS)).values()) == set()


def test_every_dependency_has_a_lowest_release() -> None:
    """What a scan finds in old releases cannot be what somebody gets who has them already."""
    assert [each for each in PROJECT["dependencies"] if not re.search(r"[>=]=", each)] == []


def test_the_client_alone_needs_nothing_but_the_standard_library() -> None:
    files = [ROOT / "sluicegate" / path for path in CLIENT_SETUP["modules"]()]
    imported_names = {module.partition(".")[0] for file in files for module in modules_named_in(file)}
    assert imported_names - sys.stdlib_module_names == {"sluicegate"}
    assert CLIENT["dependencies"] == []


def test_the_client_has_the_version_of_the_broker_and_runs_on_the_same_pythons() -> None:
    for field in ("version", "requires-python", "license"):
        assert CLIENT[field] == PROJECT[field]
