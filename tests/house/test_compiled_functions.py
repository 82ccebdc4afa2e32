"""What compiled code may not define: functions within functions."""

import ast
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETUP = runpy.run_path(str(ROOT / "setup.py"), run_name="sluicegate_setup")


def test_no_compiled_function_has_another_one_within() -> None:
    """mypyc keeps the inner one and what it uses in a cycle, which waits for the collector; a lambda it does not."""
    found = {source: names for source in SETUP["compiled_sources"]() if (names := inner_functions(ROOT / source))}
    assert found == {}


def inner_functions(source: Path) -> list[str]:
    """Return the names of a file's functions that are defined within functions."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    outer = [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, functions)]
    return [
        inner.name for each in outer for inner in ast.walk(each) if isinstance(inner, functions) and inner is not each
    ]
