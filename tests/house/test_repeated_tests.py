"""Which tests are run again when they fail? Those that are named here, each with its reason. All others fail.

A test that fails now and then has a race, or the gateway has. Find out which, and mend it. Only what depends on the
timing of a foreign program, and cannot wait for anything that can be observed, is marked:

    @pytest.mark.flaky(reruns=2, reason="...")
"""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MARK = "pytest.mark.flaky"

# File and test. The list may get shorter.
REPEATED: frozenset[str] = frozenset()


def marks() -> Iterator[tuple[str, ast.expr]]:
    """Yield each mark, and which test it is on; that of a whole file is on the file."""
    for file in TESTS.rglob("*.py"):
        source = file.read_text()
        if MARK not in source or file == Path(__file__).resolve():
            continue
        name = file.relative_to(TESTS).as_posix()
        on_tests: set[ast.AST] = set()
        tree = ast.parse(source)
        for test in ast.walk(tree):
            if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for decorator in test.decorator_list:
                    if MARK in ast.unparse(decorator):
                        on_tests.update(ast.walk(decorator))
                        yield f"{name}::{test.name}", decorator
        for expression in ast.walk(tree):
            if isinstance(expression, ast.Attribute) and ast.unparse(expression) == MARK and expression not in on_tests:
                yield name, expression


def test_only_named_tests_are_run_again_and_each_says_why() -> None:
    found = dict(marks())
    assert found.keys() == REPEATED
    for name, mark in found.items():
        assert isinstance(mark, ast.Call), f"{name}: how often, and why?"
        reasons = [keyword.value for keyword in mark.keywords if keyword.arg == "reason"]
        assert reasons, f"{name} has no reason"
        assert isinstance(reasons[0], ast.Constant), f"{name}: the reason is a sentence"
        assert len(str(reasons[0].value)) > 20, f"{name}: the reason is a sentence"


def test_nothing_runs_all_tests_again() -> None:
    """Neither `make test` nor what has to pass before a change lands."""
    root = TESTS.parent
    for name in ("Makefile", ".ci/run", "pyproject.toml"):
        assert "--reruns" not in (root / name).read_text()
