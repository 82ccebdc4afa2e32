"""When keys of tokens are fetched again."""

import pytest
from hypothesis import given
from hypothesis.strategies import integers

from sluicegate.protocols.security.tokens.token_keys import (
    REFRESH_MS_MIN,
    RETRY_MS,
    RETRY_MS_MAX,
    refresh_after_ms,
    retry_after_ms,
)
from sluicegate.protocols.security.tokens.token_keys_http import fresh_ms_in


@pytest.mark.parametrize(
    ("cache_control", "expected"),
    [
        ("", None),
        ("public", None),
        ("public, max-age=300", 300_000),
        ("Max-Age=0", 0),
        ('max-age="60"', 60_000),
        ("s-maxage=5, max-age=300", 300_000),
        ("max-age=300, no-store", 0),
        ("no-cache", 0),
        ("max-age=-1", None),
        ("max-age=999999999999999999", 10**12),
    ],
)
def test_an_answer_says_how_long_it_is_fresh(cache_control: str, expected: int | None) -> None:
    """RFC 9111, 5.2.2."""
    assert fresh_ms_in(cache_control) == expected


@given(fresh_ms=integers(0, 10**12), refresh_ms=integers(REFRESH_MS_MIN, 86_400_000))
def test_what_the_server_says_counts_between_the_bounds(fresh_ms: int, refresh_ms: int) -> None:
    after_ms = refresh_after_ms(fresh_ms, refresh_ms)
    assert REFRESH_MS_MIN <= after_ms <= refresh_ms
    assert after_ms == fresh_ms or after_ms in (REFRESH_MS_MIN, refresh_ms)
    assert refresh_after_ms(None, refresh_ms) == refresh_ms


@given(failures=integers(1, 10**6))
def test_pauses_grow_to_a_bound(failures: int) -> None:
    assert RETRY_MS <= retry_after_ms(failures) <= retry_after_ms(failures + 1) <= RETRY_MS_MAX
