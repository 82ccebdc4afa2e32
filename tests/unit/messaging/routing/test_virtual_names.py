"""Names of virtual destinations: which topics a pattern is of, and which topic a queue's name says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.routing.virtual.names import ConsumerNames, NameInvalid, NamePattern
from sluicegate.messaging.topics.syntax import matches

LEVELS = st.sampled_from(["a", "b", "c"])
NAMES = st.tuples(st.lists(LEVELS, min_size=1, max_size=4), st.sampled_from("./")).map(
    lambda each: each[1].join(each[0])
)
PATTERNS = st.tuples(
    st.lists(st.sampled_from(["a", "b", "*"]), max_size=3), st.sampled_from(["", ">"]), st.sampled_from("./")
).map(lambda each: each[2].join([*each[0], *([each[1]] if each[1] or not each[0] else [])]) or ">")


def plainly_matches(pattern: list[str], name: list[str]) -> bool:
    """The rule, level by level."""
    if pattern == [">"]:
        return True
    if not pattern or not name:
        return not pattern and not name
    return pattern[0] in ("*", name[0]) and plainly_matches(pattern[1:], name[1:])


@given(PATTERNS, NAMES)
def test_a_pattern_matches_level_by_level_whatever_separates_them(pattern: str, name: str) -> None:
    """Goal: dots and slashes are the same. Method: the rule written plainly, on lists of levels."""
    levels = pattern.replace("/", ".").split(".")
    expected = plainly_matches(levels, name.replace("/", ".").split("."))
    assert NamePattern(pattern).matches(name) == expected


@given(PATTERNS, NAMES)
def test_one_of_its_filters_matches_whatever_a_pattern_matches(pattern: str, name: str) -> None:
    """What the index does not find is never asked."""
    found = NamePattern(pattern)
    if found.matches(name):
        assert any(matches(each, name) for each in found.index_filters())


@given(PATTERNS, PATTERNS, st.lists(NAMES, max_size=20))
def test_patterns_that_share_a_name_overlap(first: str, second: str, names: list[str]) -> None:
    one, other = NamePattern(first), NamePattern(second)
    assert one.overlaps(other) == other.overlaps(one)
    if any(one.matches(name) and other.matches(name) for name in names):
        assert one.overlaps(other)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("A.>", ["A", "A.B", "A/B/C"], ["AB", "B"]),
        (">", ["a", "a/b", "a.b"], ["$SYS/x", "#LOG/INFO/x", "$queue/q"]),
        ("$x.>", ["$x", "$x/a"], ["$x.a"]),
        ("$x.*", ["$x/a"], ["$x.a", "$x"]),
        ("$x.a", ["$x.a", "$x/a"], ["$x"]),
        ("*.x", ["a.x", "a/x"], ["x", "a.b.x", "$SYS/x"]),
        ("A.>.>", ["A", "A.B"], ["B"]),
        ("TEST.*.*.>", ["TEST.BAR.D2"], ["TEST.D1"]),
    ],
)
def test_rules_of_activemq(pattern: str, yes: list[str], no: list[str]) -> None:
    """activemq.md 1, DestinationFilterTest; topics that wildcards do not reach (MQTT 4.7.2-1)."""
    found = NamePattern(pattern)
    assert [name for name in yes if not found.matches(name)] == []
    assert [name for name in no if found.matches(name)] == []


@pytest.mark.parametrize("text", ["", " a", "a ", "A.>.B", "a>", "a*.b", "x" * 251, ".".join("a" * 129)])
def test_an_invalid_pattern_is_refused(text: str) -> None:
    with pytest.raises(NameInvalid):
        NamePattern(text)


@pytest.mark.parametrize(
    ("prefix", "postfix", "queue", "topic"),
    [
        ("Consumer.*.", "", "Consumer.A.VirtualTopic.O", "VirtualTopic.O"),
        ("Consumer.*.", "", "Consumer/A/VirtualTopic/O", "VirtualTopic/O"),
        ("Consumer.*.", "", "Consumer.A.", ""),
        ("Consumer.*.", "", "Consumer.*.VirtualTopic.O", ""),
        ("Consumer.*.", "", "Consumer.A.B", "B"),
        ("*.*.", "", "q1.a.virtualtopic.topic", "virtualtopic.topic"),
        ("vq-", "-in", "vq-orders.eu-in", "orders.eu"),
        ("", "", "orders", "orders"),
    ],
)
def test_the_topic_stands_between_prefix_and_postfix(prefix: str, postfix: str, queue: str, topic: str) -> None:
    """activemq.md 2.1 and 2.3; a rest that is empty must not break anything (AMQ-9685)."""
    assert ConsumerNames(prefix, postfix).topic_in(queue) == topic
