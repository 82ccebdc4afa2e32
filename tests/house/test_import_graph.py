"""No module imports itself by way of others, and no package does: at any level, imports for types only included.

Method: read all imports by their syntax, draw an arrow for each, and look for strongly connected sets of nodes. For
packages the nodes are the children of one package, so a circle between two of them is found at their level.
"""

import ast
import runpy
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from support.syntax import syntax_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sluicegate", "pyspark_sluicegate", "bench", "demo")

CLIENT_SETUP = runpy.run_path(str(ROOT / "client" / "setup.py"), run_name="client_setup")

Arrows = Mapping[str, Collection[str]]


def modules() -> dict[str, Path]:
    """Return the file of every module, by its name."""
    found = {}
    for package in PACKAGES:
        for path in sorted(files_below(ROOT / package)):
            name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            found[name.removesuffix(".__init__")] = path
    return found


def files_below(folder: Path) -> Iterable[Path]:
    """Return the Python files below a folder, also behind the links in it, which `rglob` does not follow."""
    for path in folder.iterdir():
        if path.is_dir():
            yield from files_below(path)
        elif path.suffix == ".py":
            yield path


def arrows_between(files: Mapping[str, Path]) -> dict[str, set[str]]:
    """Return which modules each module imports, wherever in it, for types only as well."""
    arrows: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        for node in ast.walk(syntax_of(path)):
            if isinstance(node, ast.Import):
                arrows[name].update(alias.name for alias in node.names if alias.name in files)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    arrows[name].update(each for each in [full if full in files else node.module] if each in files)
    return arrows


def circles(arrows: Arrows) -> list[set[str]]:
    """Return the sets of nodes that reach each other (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        path.append(node)
        for after in sorted(arrows.get(node, ())):
            if after not in index:
                visit(after)
                low[node] = min(low[node], low[after])
            elif after in path:
                low[node] = min(low[node], index[after])
        if low[node] == index[node]:
            start = path.index(node)
            if len(path) - start > 1:
                found.append(set(path[start:]))
            del path[start:]

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return found


def inside(package: str, arrows: Arrows) -> dict[str, set[str]]:
    """Return the arrows between the children of a package: its modules and its packages, each as a whole."""
    depth = package.count(".") + 2
    below = f"{package}."
    children: dict[str, set[str]] = defaultdict(set)
    for name, imported in arrows.items():
        if name.startswith(below):
            child = ".".join(name.split(".")[:depth])
            children[child].update(".".join(each.split(".")[:depth]) for each in imported if each.startswith(below))
            children[child].discard(child)
    return children


def all_circles() -> dict[str, set[str]]:
    """Return the nodes that are in circles, by the package whose children they are."""
    files = modules()
    arrows = arrows_between(files)
    packages = {name for name, path in files.items() if path.name == "__init__.py"}
    found = {package: set().union(*circles(inside(package, arrows))) for package in packages}
    return {package: nodes for package, nodes in found.items() if nodes}


def test_imports_run_in_no_circle() -> None:
    assert all_circles() == {}


def test_a_circle_of_types_is_found() -> None:
    """Of three nodes, with one beside it that leads into it."""
    assert circles({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}) == [{"a", "b", "c"}]


def behind(module: str, arrows: Arrows) -> set[str]:
    """Return a module, what it imports, what that imports in turn, and the packages above each."""
    found: set[str] = set()
    unread = {module}
    while unread:
        name = unread.pop()
        found.add(name)
        above = {name.rpartition(".")[0]} - {""}
        unread |= (above | set(arrows[name])) - found
    return found


def test_the_distribution_of_the_client_has_what_the_client_imports_and_nothing_else() -> None:
    """client/setup.py lists it. A module that is missing here breaks programs that have no broker installed."""
    listed = {".".join(("sluicegate", *path.with_suffix("").parts)) for path in CLIENT_SETUP["modules"]()}
    files = {name: path for name, path in modules().items() if name.partition(".")[0] == "sluicegate"}
    needed = behind("sluicegate.client", arrows_between(files))
    assert {name.removesuffix(".__init__") for name in listed} == needed
