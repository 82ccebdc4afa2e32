"""Patterns of names, against a matcher that tries everything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.views.text import name_pattern


def fits(pattern: str, name: str) -> bool:
    """Tell by the words of the docs alone: `*` stands for any characters, `?` for one."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(fits(pattern[1:], name[at:]) for at in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and fits(pattern[1:], name[1:])


@given(pattern=st.text(alphabet="*?ab.\n", min_size=1, max_size=7), name=st.text(alphabet="ab.\n\\", max_size=8))
def test_a_pattern_fits_the_names_that_its_words_say(pattern: str, name: str) -> None:
    assert bool(name_pattern(pattern).fullmatch(name)) == fits(pattern, name)


@pytest.mark.timeout(60)
def test_no_pattern_takes_long() -> None:
    """One that tried all ways to divide the name would not end before the test does."""
    assert not name_pattern("*a" * 50 + "*b").fullmatch("a" * 5000)


def test_without_a_pattern_every_name_fits() -> None:
    assert name_pattern("").fullmatch("orders/eu")
