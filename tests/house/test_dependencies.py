"""What the package imports is what it declares, or what that needs itself; and it declares nothing else.

Whether a release of it has a known hole, `make scan` asks a service that knows; no test can.
"""

import ast
import functools
import re
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]

ROOMS = ("messaging", "storage", "actors", "protocols", "gateway", "sluicegate")
JOBS = ("pipeline", "pyspark_sluicegate")

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
            for node in ast.walk(ast.parse(path.read_text())):
                modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                    modules = [node.module]
                for module in modules:
                    distributions = {normal(each) for each in providers().get(module.partition(".")[0], ())}
                    if distributions - {normal(PROJECT["name"])}:
                        found[f"{module} in {path.relative_to(ROOT)}"] = distributions
    return found


@pytest.mark.parametrize(
    ("rooms", "extras"), [(ROOMS, ("tracing", "bridge")), (JOBS, ("spark", "jobs"))], ids=["gateway", "jobs"]
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
