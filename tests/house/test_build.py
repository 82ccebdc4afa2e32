"""Whether the tests run over the build, compiled or pure, that was asked for."""

import ast
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sluicegate.gateway import build

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def setup_file() -> ModuleType:
    """The build's own list of what is compiled."""
    spec = importlib.util.spec_from_file_location("sluicegate_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif("SLUICEGATE_EXPECT" not in os.environ, reason="SLUICEGATE_EXPECT asks for neither build")
def test_the_build_under_test_is_the_one_asked_for() -> None:
    """One type error makes the build fall back to the pure package; that must not go unnoticed."""
    expected = os.environ["SLUICEGATE_EXPECT"]
    where = Path(str(importlib.import_module(build.WITNESS).__file__))
    assert where.suffix == {"compiled": ".so", "pure": ".py"}[expected], "`make clean` starts afresh"
    assert not where.is_relative_to(ROOT / "sluicegate"), "these tests run over the sources, not over the package"


def test_all_of_the_list_is_compiled_or_none_of_it(setup_file: ModuleType) -> None:
    listed = {Path(source).with_suffix("").as_posix().replace("/", ".") for source in setup_file.compiled_sources()}
    assert set(build.compiled_modules()) == (listed if build.compiled() else set())


def test_without_a_compiler_nothing_is_translated(
    setup_file: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That takes minutes. The pure package is installed, with a warning, unless extensions are required."""
    monkeypatch.setattr(sys, "argv", ["setup.py", "bdist_wheel"])
    monkeypatch.setenv("CC", "no-such-compiler -pthread")
    monkeypatch.delenv("SLUICEGATE_PURE", raising=False)
    monkeypatch.setenv("SLUICEGATE_REQUIRE_EXT", "0")
    assert setup_file.extensions() == []
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("several times slower: there is no C compiler: no-such-compiler is not on the path")
    monkeypatch.setenv("SLUICEGATE_REQUIRE_EXT", "1")
    with pytest.raises(SystemExit, match="nothing could be compiled"):
        setup_file.extensions()


def test_a_compiler_that_is_here_is_found_with_its_options(
    setup_file: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cc").write_text("#!/bin/sh\n")
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "cc -pthread")
    assert setup_file.missing_compiler() is None


def test_each_exception_from_compiling_still_names_a_file(setup_file: ModuleType) -> None:
    unused = [pattern for pattern in setup_file.INTERPRETED if not list(setup_file.PACKAGE.glob(pattern))]
    assert unused == []


def test_exceptions_caught_in_compiled_coroutines_have_a_name_for_each_type(setup_file: ModuleType) -> None:
    """mypyc keeps one variable for a name, of the first type it had: another exception under it is a TypeError."""
    shared: dict[str, set[str]] = {}
    for source in setup_file.compiled_sources():
        for function in ast.walk(ast.parse((ROOT / source).read_text())):
            if not isinstance(function, ast.AsyncFunctionDef):
                continue
            types: dict[str, set[str]] = {}
            for handler in ast.walk(function):
                if isinstance(handler, ast.ExceptHandler) and handler.name and handler.type:
                    types.setdefault(handler.name, set()).add(ast.unparse(handler.type))
            shared |= {f"{source}, {function.name}: {name}": of for name, of in types.items() if len(of) > 1}
    assert shared == {}
