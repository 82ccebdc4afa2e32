"""Queries of SEMP: wildcards and pages, each against a plain model."""

import fnmatch
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.admin.semp.query import Clause, page_of, read_query

NAMES = ("queueName", "msgSpoolUsage")
LETTERS = st.text(alphabet="ab", max_size=6)


@given(pattern=st.text(alphabet="ab*", max_size=8), value=LETTERS)
def test_wildcards_agree_with_the_plain_model(pattern: str, value: str) -> None:
    """SEMP: `*` is any characters, none too."""
    assert Clause("a", "==", pattern).holds(value) == fnmatch.fnmatchcase(value, pattern)
    assert Clause("a", "!=", pattern).holds(value) != fnmatch.fnmatchcase(value, pattern)


@given(value=st.integers(-(2**60), 2**60), operand=st.integers(-(2**60), 2**60))
def test_numbers_are_compared_as_numbers(value: int, operand: int) -> None:
    holding = {each for each in ("==", "!=", "<", "<=", ">", ">=") if Clause("a", each, str(operand)).holds(value)}
    assert ("<" in holding, "==" in holding, ">" in holding) == (value < operand, value == operand, value > operand)
    assert holding >= ({"<=", ">=", "=="} if value == operand else {"!="})


@given(
    keys=st.sets(st.text(min_size=1, max_size=5)),
    gone=st.sets(st.text(min_size=1, max_size=5)),
    count=st.integers(1, 5),
)
def test_pages_show_everything_that_stays_once(keys: set[str], gone: set[str], count: int) -> None:
    """Whatever goes between two pages: a cursor is a place, and no number of objects."""
    seen: list[str] = []
    cursor: str | None = ""
    there = set(keys)
    while cursor is not None:
        query = read_query(f"count={count}" + (f"&cursor={cursor}" if cursor else ""), NAMES, of_collection=True)
        page, cursor = page_of(sorted(there), query)
        assert len(page) <= count
        seen += page
        there -= gone
    assert len(seen) == len(set(seen))
    assert keys - gone <= set(seen) <= keys


@given(value=st.text(min_size=1, max_size=20))
def test_commas_and_operators_of_a_value_are_encoded(value: str) -> None:
    """SEMP: reserved characters within a value are percent-encoded."""
    query = read_query(f"where={quote(f'queueName=={value}', safe='=')}", NAMES, of_collection=True)
    assert query.clauses == (Clause("queueName", "==", value),)
