"""The subscription index finds every subscription that matches a topic, and forgets what was taken out."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.messaging.topics.subscription_index import SubscriptionIndex
from sluicegate.messaging.topics.syntax import Syntax, TopicFilter, matches, parse_filter
from support.thorough import examples

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
    st.sampled_from(["a", "ab", "b", "*", "a*", "ab*", "b*", "$x", "$*", "#P2P", "#P2P*", ">"]), min_size=1, max_size=4
).map(lambda words: parse_filter("/".join(words), SMF))


class Step(NamedTuple):
    """One change: an entry added with a value, or discarded when the value is None."""

    topic_filter: TopicFilter
    key: str
    value: int | None


STEPS = st.builds(Step, MQTT_FILTERS | SMF_FILTERS, st.sampled_from(["c1", "c2"]), st.none() | st.integers(0, 9))


class PlainIndex:
    """The model: a list of entries, each held against the topic with `matches`."""

    def __init__(self) -> None:
        self.entries: dict[tuple[TopicFilter, str], int] = {}

    def apply(self, step: Step) -> bool:
        place = (step.topic_filter, step.key)
        was_there = place in self.entries
        if step.value is None:
            self.entries.pop(place, None)
            return was_there
        self.entries[place] = step.value
        return not was_there

    def match(self, topic: str) -> list[int]:
        return sorted(value for (found, _), value in self.entries.items() if matches(found, topic))


def apply(index: SubscriptionIndex[int], step: Step) -> bool:
    if step.value is None:
        return index.discard(step.topic_filter, step.key)
    return index.add(step.topic_filter, step.key, step.value)


def index_of(*filters: str, syntax: Syntax = MQTT) -> SubscriptionIndex[str]:
    """Return an index with one entry per filter, whose value is the filter's text."""
    index: SubscriptionIndex[str] = SubscriptionIndex()
    for text in filters:
        assert index.add(parse_filter(text, syntax), "client", text)
    return index


@settings(max_examples=examples(300))
@given(steps=st.lists(STEPS, max_size=40), topics=st.lists(TOPICS, min_size=1, max_size=8))
def test_the_index_agrees_with_the_plain_model(steps: list[Step], topics: Iterable[str]) -> None:
    """Goal: no order of changes loses or invents a match. Method: same steps to both, compare every topic."""
    index, model = SubscriptionIndex[int](), PlainIndex()
    for step in steps:
        assert apply(index, step) == model.apply(step)
        index.check()
        assert index.count == len(model.entries)
    for topic in topics:
        assert sorted(index.match(topic)) == model.match(topic)
        traced = index.trace(topic)
        assert sorted(value for _, value in traced) == model.match(topic)
        assert Counter(traced) <= Counter(index.entries()), "what matches is listed under the same text"
    assert sorted(value for _, value in index.entries()) == sorted(model.entries.values())


@given(steps=st.lists(STEPS, max_size=30))
def test_an_index_emptied_in_any_order_has_one_node_left(steps: list[Step]) -> None:
    """Goal: memory returns. Method: add all, discard all in another order, look at the sizes."""
    index: SubscriptionIndex[int] = SubscriptionIndex()
    for step in steps:
        index.add(step.topic_filter, step.key, 0)
    for step in sorted(steps, key=lambda step: (step.key, step.topic_filter.text)):
        index.discard(step.topic_filter, step.key)
        index.check()
    assert index.overview() == (0, 0, 0, 1)


def test_matches_come_in_an_order_that_a_replay_repeats() -> None:
    """The documented order: literal filters, then wildcard filters as the trie is walked, entries as added."""
    index = index_of("a/b/#", "+/b", "a/#", "#", "a/+", "a/b")
    for key in ("zebra", "ant", "moth"):
        index.add(parse_filter("a/#", MQTT), key, key)
    assert index.match("a/b") == ["a/b", "#", "a/#", "zebra", "ant", "moth", "a/b/#", "a/+", "+/b"]


def test_each_matching_filter_of_a_client_is_found() -> None:
    """[MQTT 3.3.4-2] Overlapping subscriptions are one match each; the owner makes one delivery of them."""
    assert sorted(index_of("a/b", "a/+", "a/#", "b/#").match("a/b")) == ["a/#", "a/+", "a/b"]


def test_adding_an_entry_again_replaces_its_value_in_place() -> None:
    """[MQTT 3.8.4-3] The same filter again replaces the subscription."""
    index: SubscriptionIndex[str] = SubscriptionIndex()
    for text in ("t", "+"):
        topic_filter = parse_filter(text, MQTT)
        assert index.add(topic_filter, "c1", f"{text} old")
        assert index.add(topic_filter, "c2", f"{text} other")
        assert not index.add(topic_filter, "c1", f"{text} new")
    assert index.match("t") == ["t new", "t other", "+ new", "+ other"]
    assert index.count == 4


def test_discarding_takes_out_the_same_filter_and_key_only() -> None:
    """[MQTT 3.10.4-1] `a/+` does not remove `a/b`."""
    index = index_of("a/b", "a/#")
    for text in ("a/+", "a", "a/b/c", "#", "b"):
        assert not index.discard(parse_filter(text, MQTT), "client")
    assert not index.discard(parse_filter("a/b", MQTT), "other client")
    assert not index.discard(parse_filter("a/#", MQTT), "other client")
    assert index.count == 2
    assert index.discard(parse_filter("a/#", MQTT), "client")
    assert index.match("a/b") == ["a/b"]


def test_the_parent_and_the_levels_below_are_distinguished() -> None:
    """SMF `a/>` needs a further level, MQTT `a/#` does not; both may stand at one node."""
    index = index_of("a/#", "#")
    index.add(parse_filter("a/>", SMF), "client", "a/>")
    assert sorted(index.match("a")) == ["#", "a/#"]
    assert sorted(index.match("a/b/c")) == ["#", "a/#", "a/>"]


def test_prefixes_of_many_lengths_are_all_probed() -> None:
    """SMF `red*` is the prefix and anything after it in the level."""
    texts = ["c/r*", "c/re*", "c/red*", "c/redd*", "c/blue*", "c/*"]
    index = index_of(*texts, syntax=SMF)
    assert index.match("c/red") == ["c/*", "c/r*", "c/re*", "c/red*"]
    assert index.match("c/r") == ["c/*", "c/r*"]


def test_no_wildcard_reaches_reserved_topics() -> None:
    """[MQTT 4.7.2-1] and the SMF rule of `#P2P`: the first level must be named."""
    index = index_of("#", "+/x", "$SYS/#", "$SYS/x")
    for text in (">", "*/x", "$S*/x", "#P*/x", "#P2P/>"):
        index.add(parse_filter(text, SMF), "client", text)
    assert index.match("$SYS/x") == ["$SYS/x", "$SYS/#"]
    assert index.match("#P2P/x") == ["#P2P/>"]


def test_the_deepest_filter_and_topic_are_matched() -> None:
    """The walk has no recursion that a peer could exhaust."""
    plus = "/".join(["+"] * LEVELS_MAX)
    index = index_of(plus, "+/" * (LEVELS_MAX - 1) + "#")
    assert len(index.match("/".join(["a"] * LEVELS_MAX))) == 2
    assert index.match("/".join(["a"] * (LEVELS_MAX + 1)))[0].endswith("#")
    index.check()


def test_an_index_tells_its_sizes() -> None:
    """State can be seen."""
    index = index_of("a/b", "a/+", "a/+/c")
    assert index.overview()._asdict() == {
        "entry_count": 3,
        "literal_filter_count": 1,
        "wildcard_filter_count": 2,
        "node_count": 4,
    }
    assert repr(index) == "SubscriptionIndex(3 entries, 1 literal + 2 wildcard filters)"
