"""What compiled code imports. Arrows between the rooms are import-linter's, by the contracts in pyproject.toml."""

import ast
import re
import runpy
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
SETUP = runpy.run_path(str(ROOT / "setup.py"), run_name="sluicegate_setup")

# What a sans-IO core or engine cannot need: they are handed bytes, times and random numbers.
IMPURE = {"asyncio", "lmdb", "os", "pykka", "random", "secrets", "select", "socket", "threading", "time", "uvloop"}

# Compiled for speed, though they are no cores: the actor runtime, what its actors hand everything to, and streams.
SHELLS = {
    "actors/asking.py",
    "actors/cell.py",
    "actors/clock.py",
    "actors/futures.py",
    "actors/inbox.py",
    "actors/publishing.py",
    "actors/runtime.py",
    "actors/tasks.py",
    "actors/transacting.py",
    "protocols/flow/bulk_requests.py",
    "protocols/flow/range_reading.py",
    "protocols/flow/session_requests.py",
    "protocols/mqtt/binding.py",
    "protocols/streams.py",
}


def test_a_compiled_core_does_no_io_and_reads_no_clock() -> None:
    cores = [each for each in SETUP["compiled_sources"]() if each not in SHELLS]
    impure = {core: names for core in cores if (names := imported_by(ROOT / core) & IMPURE)}
    assert impure == {}


def test_a_build_requires_what_compiled_code_imports() -> None:
    """mypy looks into it as it compiles, and most builds have an environment of their own, with nothing else in it."""
    required = {normal(re.split("[=<>]", each)[0]) for each in BUILD["requires"]}
    names = set().union(*(imported_by(ROOT / each) for each in SETUP["compiled_sources"]()))
    distributions = packages_distributions()
    foreign = {name for name in names - sys.stdlib_module_names if not (ROOT / name).is_dir()}
    assert {name for name in foreign if not required & {normal(each) for each in distributions[name]}} == set()


def normal(distribution: str) -> str:
    return distribution.replace("_", "-").lower()


def imported_by(source: Path) -> set[str]:
    """Return the packages that a file imports."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            imported.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            imported.add(node.module.partition(".")[0])
    return imported
