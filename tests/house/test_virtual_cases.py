"""Every case of `tests/data/virtual/cases.txt` is cited by a test that answers it."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
CASES = TESTS / "data" / "virtual" / "cases.txt"


def test_every_case_is_answered_or_says_why_not() -> None:
    answered: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                answered |= set(re.findall(r"VD-\d\d", ast.get_docstring(node) or ""))
    lines = [line.split(" | ") for line in CASES.read_text().splitlines() if not line.startswith("#")]
    assert [line[0] for line in lines] == [f"VD-{number:02}" for number in range(1, 66)]
    assert [line[0] for line in lines if line[0] not in answered and len(line) < 3] == []
