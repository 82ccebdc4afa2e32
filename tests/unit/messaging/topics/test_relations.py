"""How filters relate, against the plain definition of a match: laws first, then the cases an operator thinks of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.topics.relations import covers, overlap
from sluicegate.messaging.topics.syntax import Syntax, TopicError, TopicFilter, matches, parse_filter

WORDS = st.sampled_from(["a", "b", "ab", "$SYS", "#P2P", "#LOG", "x*y"])
TOPICS = st.lists(st.sampled_from(["a", "b", "ab", "abc", "", "$SYS", "#P2P"]), min_size=1, max_size=4).map("/".join)


def smf(text: str) -> TopicFilter:
    return parse_filter(text, Syntax.SMF)


def mqtt(text: str) -> TopicFilter:
    return parse_filter(text, Syntax.MQTT)


@st.composite
def filters(draw: st.DrawFn) -> TopicFilter:
    """A filter of few words in either syntax, so that two of them often have something to do with each other."""
    syntax = draw(st.sampled_from(list(Syntax)))
    wildcards = ["*", "a*", "$*"] if syntax is Syntax.SMF else ["+"]
    words = draw(st.lists(st.one_of(WORDS, st.sampled_from(wildcards)), min_size=1, max_size=4))
    last = draw(st.sampled_from(["", ">" if syntax is Syntax.SMF else "#"]))
    try:
        return parse_filter("/".join([*words, last] if last else words), syntax)
    except TopicError:  # `#P2P` is no level of an MQTT filter
        return parse_filter("a", syntax)


@given(outer=filters(), inner=filters(), topic=TOPICS)
def test_covered_filters_match_no_other_topics(outer: TopicFilter, inner: TopicFilter, topic: str) -> None:
    if covers(outer, inner) and matches(inner, topic):
        assert matches(outer, topic)


@given(one=filters(), other=filters(), topic=TOPICS)
def test_filters_that_match_one_topic_overlap(one: TopicFilter, other: TopicFilter, topic: str) -> None:
    if matches(one, topic) and matches(other, topic):
        assert overlap(one, other)
        assert overlap(other, one)


@given(one=filters())
def test_a_filter_covers_itself(one: TopicFilter) -> None:
    assert covers(one, one)


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (smf("orders/>"), smf("orders/eu/*"), True),
        (smf("orders/>"), mqtt("orders/#"), False),  # that one is for `orders` as well
        (mqtt("orders/#"), smf("orders/>"), True),
        (smf(">"), smf("*/>"), True),
        (mqtt("+/#"), smf(">"), True),
        (smf(">"), mqtt("#"), True),
        (mqtt("+/#"), mqtt("#"), True),
        (mqtt("#"), smf(">"), True),
        (smf("*"), mqtt("#"), False),
        (smf("*"), smf("a/b"), False),
        (smf(">"), smf("$SYS/>"), False),
        (mqtt("$SYS/#"), mqtt("$SYS/+"), True),
        (smf("a*"), smf("ab*"), True),
        (smf("ab*"), smf("a*"), False),
        (smf("a/b"), smf("a/*"), False),
    ],
)
def test_a_filter_covers_those_whose_topics_it_includes(outer: TopicFilter, inner: TopicFilter, expected: bool) -> None:
    assert covers(outer, inner) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (smf(">"), smf("secret/>"), True),
        (smf("a/*"), smf("*/b"), True),
        (smf("a/b"), smf("a/c"), False),
        (mqtt("a/#"), smf("a"), True),
        (smf("a/>"), smf("a"), False),
        (mqtt("#"), mqtt("$SYS/#"), False),
        (smf("ab*"), smf("abc*"), True),
        (smf("ab*"), smf("ac*"), False),
    ],
)
def test_overlap_is_found_in_both_directions(one: TopicFilter, other: TopicFilter, expected: bool) -> None:
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected
