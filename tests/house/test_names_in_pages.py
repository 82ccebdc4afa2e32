"""docs/architecture.md and CONTRIBUTING.md name modules, classes and functions that exist."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from support.syntax import syntax_of

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = (
    *("messaging", "storage", "actors", "protocols", "gateway"),
    *("pipeline", "pyspark_sluicegate", "testing"),
)
SPAN: Final = re.compile(r"`([^`\n]+)`")
PATH: Final = re.compile(r"^(?:[\w.]+/)+[\w.]*$")
NAME: Final = re.compile(r"^(_?[A-Z]\w*[a-z]\w*)(?:\.(\w+))?$")
FUNCTION: Final = re.compile(r"^[a-z]+(?:_[a-z]+)+$")
DOTTED: Final = re.compile(r"^(?:messaging|storage|actors|protocols|gateway)(?:\.\w+)+$")
IN_BLOCKS: Final = re.compile(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b(?:\.\w+)?")
# Names of others' that the pages mention.
FOREIGN: Final = frozenset({"SupervisorActor", "Final", "Any"})


@cache
def members() -> dict[str, set[str]]:
    """Return every class of the sources with the names of its members, and all functions under the empty name."""
    found: dict[str, set[str]] = {"": set()}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(syntax_of(path)):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, set()).update(_names_within(node))
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    found[""].add(node.name)
    return found


def _names_within(node: ast.ClassDef) -> set[str]:
    names: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(each.name)
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self":
            names.add(each.attr)
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            names.add(each.target.id)
    return names | {base.id for base in node.bases if isinstance(base, ast.Name)}


def is_there(name: str) -> bool:
    """Tell whether a class, or a member of it or of one of its bases, is in the sources."""
    owner, _, member = name.partition(".")
    known = members()
    if owner not in known:
        return owner in FOREIGN
    if not member or member in known[owner]:
        return True
    return any(is_there(f"{base}.{member}") for base in known[owner] if base in known and base != owner)


def missing(text: str) -> list[str]:
    """Return what a page names in code spans and diagrams, and the sources do not have."""
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    wrong = [name for block in blocks for name in IN_BLOCKS.findall(block) if not is_there(name)]
    for span in SPAN.findall(prose):
        if PATH.match(span):
            wrong += [] if (ROOT / span).exists() else [span]
        elif DOTTED.match(span):
            parts = span.split(".")
            module = ROOT.joinpath(*parts)
            is_member = ROOT.joinpath(*parts[:-1]).with_suffix(".py").exists() and parts[-1] in members()[""]
            wrong += [] if module.is_dir() or module.with_suffix(".py").exists() or is_member else [span]
        elif NAME.match(span):
            wrong += [] if is_there(span) else [span]
        elif FUNCTION.match(span):
            wrong += [] if span in members()[""] else [span]
    return wrong


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_names_in_the_page_exist(page: str) -> None:
    assert missing((ROOT / page).read_text()) == []


def test_a_name_that_is_gone_is_found() -> None:
    gone = (
        "`Ledger.burying`, `actors/errands.py`, `NoSuchClass`, `messaging.moments`\n```\nBurial -> LedgerOfOld\n```\n"
    )
    assert missing(gone) == ["LedgerOfOld", "Ledger.burying", "actors/errands.py", "NoSuchClass", "messaging.moments"]
