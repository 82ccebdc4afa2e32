"""What compiled code imports. Arrows between the rooms are import-linter's, by the contracts in pyproject.toml."""

import ast
import re
import runpy
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from support.syntax import syntax_of

ROOT = Path(__file__).resolve().parents[2]
BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
SETUP = runpy.run_path(str(ROOT / "setup.py"), run_name="sluicegate_setup")

# What a sans-IO core or engine cannot need: they are handed bytes, times and random numbers.
IMPURE = {"asyncio", "lmdb", "os", "pykka", "random", "secrets", "select", "selectors", "socket", "threading", "time"}

# Compiled for speed, though they are no cores: the actor runtime, what its actors hand everything to, sockets, streams.
SHELLS = {
    "sluicegate/actors/runtime/asks.py",
    "sluicegate/actors/runtime/runtime.py",
    "sluicegate/actors/runtime/clock.py",
    "sluicegate/actors/runtime/inbox.py",
    "sluicegate/actors/publishing/link_publisher.py",
    "sluicegate/actors/publishing/publisher.py",
    "sluicegate/actors/runtime/tasks.py",
    "sluicegate/actors/transactions/commit.py",
    "sluicegate/protocols/transport/loop/acceptor.py",
    "sluicegate/protocols/flow/requests/bulk.py",
    "sluicegate/protocols/flow/datapath/bulk_reads.py",
    "sluicegate/protocols/flow/requests/requests.py",
    "sluicegate/protocols/network/queues/home/readers.py",
    "sluicegate/protocols/mqtt/requests/flows.py",
    "sluicegate/protocols/transport/loop/selector.py",
    "sluicegate/protocols/transport/deadlines.py",
    "sluicegate/protocols/transport/passing/moves.py",
    "sluicegate/protocols/transport/passing/passage.py",
    "sluicegate/protocols/transport/stream/stream.py",
    "sluicegate/protocols/transport/loop/tcp.py",
}


def test_a_compiled_core_does_no_io_and_reads_no_clock() -> None:
    cores = [each for each in SETUP["compiled_sources"]() if each not in SHELLS]
    impure = {core: names for core in cores if (names := imported_by(ROOT / core) & IMPURE)}
    assert impure == {}


def test_a_build_requires_what_mypy_looks_into_as_it_compiles() -> None:
    """Most builds have an environment of their own, with nothing else in it. mypy follows imports from file to file."""
    required = {normal(re.split("[=<>]", each)[0]) for each in BUILD["requires"]}
    distributions = packages_distributions()
    foreign = foreign_imports_behind([ROOT / each for each in SETUP["compiled_sources"]()])
    assert {name for name in foreign if not required & {normal(each) for each in distributions[name]}} == set()


def foreign_imports_behind(sources: list[Path]) -> set[str]:
    """Return the packages of others that these files import, or files of ours that they lead to."""
    foreign: set[str] = set()
    known, unread = set(sources), list(sources)
    while unread:
        for module in modules_named_in(unread.pop()):
            file = ROOT / f"{module.replace('.', '/')}.py"
            if file.is_file() and file not in known:
                known.add(file)
                unread.append(file)
            foreign.add(module.partition(".")[0])
    return {name for name in foreign - sys.stdlib_module_names if not (ROOT / name).is_dir()}


def normal(distribution: str) -> str:
    return distribution.replace("_", "-").lower()


def imported_by(source: Path) -> set[str]:
    """Return the packages that a file imports."""
    return {module.partition(".")[0] for module in modules_named_in(source)}


def modules_named_in(source: Path) -> set[str]:
    """Return the modules that a file imports, and what may be a module or a name in one."""
    named: set[str] = set()
    for node in ast.walk(syntax_of(source)):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            named.add(node.module)
            named.update(f"{node.module}.{alias.name}" for alias in node.names)
    return named


def test_no_compiled_coroutine_waits_while_it_handles_an_exception() -> None:
    """mypyc does not take the exception from the thread while a coroutine waits: all others would run as if within it.

    A new exception of theirs gets it as its context, and keeps it alive; `sys.exc_info()` is wrong. So a handler notes
    the exception, and what waits comes behind it.
    """
    sources = SETUP["compiled_sources"]()
    waiting = {source: lines for source in sources if (lines := waits_in_handlers(syntax_of(ROOT / source)))}
    assert waiting == {}


def waits_in_handlers(module: ast.Module) -> list[int]:
    """Return the lines of handlers, of clean-ups, and of blocks with an asynchronous clean-up, that wait."""
    lines: list[int] = []
    for node in ast.walk(module):
        if isinstance(node, ast.AsyncWith):
            lines.append(node.lineno)
        elif isinstance(node, ast.Try):
            blocks = [handler.body for handler in node.handlers] + [node.finalbody]
            lines += [block[0].lineno for block in blocks if any(waits(statement) for statement in block)]
    return lines


def waits(node: ast.AST) -> bool:
    """Return whether a coroutine or generator can be suspended in there; functions that are defined there are not."""
    if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.AsyncFor | ast.AsyncWith):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return False
    return any(waits(child) for child in ast.iter_child_nodes(node))
