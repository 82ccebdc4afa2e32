"""Every case of `tests/data/amqp/cases.txt` is cited by a test that answers it."""

import ast
import re
from pathlib import Path

from support.amqp.golden import cases

TESTS = Path(__file__).resolve().parents[1]
CITED = re.compile(r"\b[Cc]ases? (\d+(?!\.?\d)(?:(?:,| and|,? and| to) \d+(?!\.?\d))*)")


def cited(docstring: str) -> set[int]:
    """Return the cases that a docstring speaks of: `case 7`, `Cases 46 and 49`, `cases 16, 19, 20`, `cases 3 to 5`."""
    found: set[int] = set()
    for text in CITED.findall(docstring):
        numbers = [int(number) for number in re.findall(r"\d+", text)]
        found |= set(range(numbers[0], numbers[-1] + 1)) if " to " in text else set(numbers)
    return found


def test_numbers_are_read_from_docstrings() -> None:
    assert cited("Cases 14 and 15, 2.4.5: half") == {14, 15}
    assert cited("AMQP 2.6.7, test cases 16, 19, 20") == {16, 19, 20}
    assert cited("Case 12 and 2.4.5") == {12}
    assert cited("cases 3 to 5; case 9") == {3, 4, 5, 9}


def test_every_case_is_answered_or_says_why_not() -> None:
    answered: set[int] = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                answered |= cited(ast.get_docstring(node) or "")
    silent = [line[0] for line in cases("cases.txt") if int(line[0]) not in answered and len(line) < 3]
    assert silent == [], "no test says that it answers these"
