"""The retained set keeps one value per topic and finds them by filter."""

from typing import NamedTuple, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.messaging.topics.retained import RetainedTopics
from sluicegate.messaging.topics.syntax import Syntax, TopicFilter, matches, parse_filter
from support.thorough import examples

V = TypeVar("V")

MQTT, SMF = Syntax.MQTT, Syntax.SMF

TOPIC_WORDS = ["", "a", "ab", "abc", "b", "*", ">", "$x", "#P2P"]
TOPICS = st.lists(st.sampled_from(TOPIC_WORDS), min_size=1, max_size=4).map("/".join).filter(bool)
MQTT_FILTERS = st.builds(
    lambda words, last: parse_filter("/".join([*words, last]), MQTT),
    st.lists(st.sampled_from(["", "a", "ab", "$x", "*", "+"]), max_size=3),
    st.sampled_from(["#", "+", "a", "b"]),
)

LEVELS_MAX = 32_768  # of one character each: with the separators 65,535 bytes
SMF_FILTERS = st.lists(
    st.sampled_from(["a", "ab", "b", "*", "a*", "ab*", "$x", "$*", "#P2P", "#P2P*", ">"]), min_size=1, max_size=4
).map(lambda words: parse_filter("/".join(words), SMF))


class Step(NamedTuple):
    """One change: a value put at a topic, or the topic removed when the value is None."""

    topic: str
    value: int | None


STEPS = st.builds(Step, TOPICS, st.none() | st.integers(0, 9))


def retained(*topics: str) -> RetainedTopics[str]:
    """Return a set with these topics; each value is its topic in capitals."""
    held: RetainedTopics[str] = RetainedTopics()
    for topic in topics:
        assert not held.put(topic, topic.upper())
    return held


def matched(held: RetainedTopics[V], topic_filter: TopicFilter, *, slice_count: int = 1000) -> list[tuple[str, V]]:
    """Scan to the end."""
    scan = held.scan(topic_filter)
    found: list[tuple[str, V]] = []
    while not scan.is_done:
        piece = scan.take(slice_count, 3 * slice_count)
        assert len(piece) <= slice_count
        found += piece
    assert scan.take(1, 1) == []
    return found


def topics_matching(held: RetainedTopics[str], text: str, syntax: Syntax = MQTT) -> list[str]:
    return sorted(topic for topic, _ in matched(held, parse_filter(text, syntax)))


@settings(max_examples=examples(300))
@given(
    steps=st.lists(STEPS, max_size=40),
    filters=st.lists(MQTT_FILTERS | SMF_FILTERS, min_size=1, max_size=8),
    slice_count=st.integers(1, 5),
)
def test_the_retained_set_agrees_with_a_dict(steps: list[Step], filters: list[TopicFilter], slice_count: int) -> None:
    """Goal: no order of changes loses or invents a topic. Method: same steps to a dict, scanned with `matches`."""
    held: RetainedTopics[int] = RetainedTopics()
    model: dict[str, int] = {}
    for topic, value in steps:
        if value is None:
            assert held.remove(topic) == (model.pop(topic, None) is not None)
        else:
            assert held.put(topic, value) == (topic in model)
            model[topic] = value
        held.check()
        assert held.count == len(model)
        assert held.get(topic) == model.get(topic)
    for topic_filter in filters:
        expected = [(topic, value) for topic, value in model.items() if matches(topic_filter, topic)]
        assert sorted(matched(held, topic_filter, slice_count=slice_count)) == sorted(expected)


@given(topics=st.lists(TOPICS, max_size=30, unique=True))
def test_a_set_emptied_in_any_order_has_one_node_left(topics: list[str]) -> None:
    """Goal: memory returns. Method: put all, remove all in another order, look at the sizes."""
    held = retained(*topics)
    for topic in sorted(topics):
        assert held.remove(topic)
        held.check()
    assert held.overview() == (0, 1)


def test_topics_come_in_an_order_that_a_replay_repeats() -> None:
    """The order follows the puts, not hash values."""
    held = retained("zebra/x", "ant/x", "moth/x")
    assert [topic for topic, _ in matched(held, parse_filter("+/x", MQTT))] == ["zebra/x", "ant/x", "moth/x"]


def test_only_the_last_value_of_a_topic_is_kept() -> None:
    """[MQTT 3.3.1-5] A retained message replaces the one before."""
    held = retained("t")
    assert held.put("t", "new")
    assert held.get("t") == "new"
    assert matched(held, parse_filter("t", MQTT)) == [("t", "new")]
    assert held.count == 1


def test_removing_a_topic_leaves_its_parents_and_children() -> None:
    """[MQTT 3.3.1-6] An empty payload removes the message of that exact topic."""
    held = retained("a", "a/b", "a/b/c")
    assert held.remove("a/b")
    assert not held.remove("a/b")
    assert not held.remove("a/b/c/d")
    assert topics_matching(held, "#") == ["a", "a/b/c"]
    assert held.get("a/b") is None


def test_dollar_topics_are_found_by_name_only() -> None:
    """[MQTT 4.7.2-1] Retained on `$SYS/x`: `#` does not find it, `$SYS/#` does."""
    held = retained("$SYS/x", "#P2P/x", "a/x", "a/$SYS")
    assert topics_matching(held, "#") == ["a/$SYS", "a/x"]
    assert topics_matching(held, "+/x") == ["a/x"]
    assert topics_matching(held, "$SYS/#") == ["$SYS/x"]
    assert topics_matching(held, "$SYS/+") == ["$SYS/x"]
    assert topics_matching(held, "#P2P/>", SMF) == ["#P2P/x"]
    assert topics_matching(held, "$*/x", SMF) == []


@pytest.mark.parametrize(
    ("text", "syntax", "expected"),
    [
        ("a/#", MQTT, ["a", "a/", "a/b", "a/b/c", "a/bx"]),
        ("a/>", SMF, ["a/", "a/b", "a/b/c", "a/bx"]),
        ("a/+", MQTT, ["a/", "a/b", "a/bx"]),
        ("a/b*", SMF, ["a/b", "a/bx"]),
        ("+", MQTT, ["a"]),
        ("/+", MQTT, ["/a"]),
        ("+/+/c", MQTT, ["a/b/c"]),
        ("a/b", MQTT, ["a/b"]),
        ("a/c", MQTT, []),
        ("a/c/#", MQTT, []),
    ],
)
def test_filters_find_the_topics_they_match(text: str, syntax: Syntax, expected: list[str]) -> None:
    """[MQTT 4.7.1] and the SMF wildcards, seen from the filter's side."""
    assert topics_matching(retained("a", "/a", "a/", "a/b", "a/bx", "a/b/c"), text, syntax) == expected


@given(
    before=st.lists(TOPICS, max_size=30, unique=True),
    changes=st.lists(STEPS, max_size=30),
    topic_filter=MQTT_FILTERS | SMF_FILTERS,
    slice_count=st.integers(1, 4),
)
def test_a_scan_goes_on_while_the_set_changes(
    before: list[str], changes: list[Step], topic_filter: TopicFilter, slice_count: int
) -> None:
    """What is there all the time comes once; what comes is what was there then. A change after each slice."""
    held: RetainedTopics[int] = RetainedTopics()
    for topic in before:
        held.put(topic, 0)
    touched = {topic for topic, _ in changes}
    scan = held.scan(topic_filter)
    found: list[str] = []
    while not scan.is_done:
        for topic, value in scan.take(slice_count, 8):
            assert held.get(topic) == value
            assert matches(topic_filter, topic)
            found.append(topic)
        if changes:
            topic, new = changes.pop()
            if new is None:
                held.remove(topic)
            else:
                held.put(topic, new)
            held.check()
    steady = [topic for topic in before if topic not in touched and matches(topic_filter, topic)]
    assert sorted(topic for topic in found if topic not in touched) == sorted(steady)


def test_a_scan_that_finds_nothing_stops_after_the_nodes_it_may_look_at() -> None:
    """Somebody who asks for `+/no` costs the loop no more than a slice at a time."""
    held = retained(*[f"{number}/yes" for number in range(100)])
    scan = held.scan(parse_filter("+/no", MQTT))
    looks = 0
    while not scan.is_done:
        assert scan.take(10, 10) == []
        looks += 1
    assert looks > 9


def test_the_deepest_topic_is_found() -> None:
    """The walk has no recursion that a peer could exhaust."""
    deepest = "/".join(["a"] * LEVELS_MAX)
    held = retained(deepest)
    assert topics_matching(held, "#") == [deepest]
    assert topics_matching(held, "/".join(["+"] * LEVELS_MAX)) == [deepest]


def test_a_set_tells_its_sizes() -> None:
    """State can be seen."""
    held = retained("a/b", "a/c")
    assert held.overview()._asdict() == {"topic_count": 2, "node_count": 4}
    assert repr(held) == "RetainedTopics(2 topics, 4 nodes)"
