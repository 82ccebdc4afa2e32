"""Topic maps of bridges: prefixes and separators, there and back."""

from hypothesis import given
from hypothesis.strategies import builds, sampled_from, text

from sluicegate.protocols.bridges.topic_maps import TopicMap, TopicSyntax

TOPICS = text("ab./é", min_size=1, max_size=12)
PREFIXES = text("ab./", max_size=4)
MAPS = builds(TopicMap, strip=PREFIXES, add=PREFIXES, syntax=sampled_from(TopicSyntax))


def test_a_prefix_is_stripped_added_or_replaced() -> None:
    assert TopicMap(strip="out/").image("out/x") == "x"
    assert TopicMap(add="site/").image("x/y") == "site/x/y"
    assert TopicMap(strip="out/", add="site/").image("out/x") == "site/x"


def test_levels_are_separated_as_the_foreign_broker_does() -> None:
    dotted = TopicMap(strip="out/", add="plant.", syntax=TopicSyntax.DOTTED)
    assert dotted.image("out/line/1") == "plant.line.1"
    assert dotted.image("out/line/v1.2") == "plant.line.v1/2", "another topic than out/line/v1/2"


def test_a_topic_without_the_prefix_has_no_image_and_neither_has_one_of_which_nothing_is_left() -> None:
    assert TopicMap(strip="out/").image("in/x") is None
    assert TopicMap(strip="out/").image("out/") is None


@given(topic_map=MAPS, topic=TOPICS)
def test_the_reversed_map_takes_each_image_back(topic_map: TopicMap, topic: str) -> None:
    image = topic_map.image(topic)
    if image is not None and topic != topic_map.strip:
        assert topic_map.reversed().image(image) == topic


@given(topic_map=MAPS, one=TOPICS, other=TOPICS)
def test_different_topics_stay_different(topic_map: TopicMap, one: str, other: str) -> None:
    images = topic_map.image(one), topic_map.image(other)
    if None not in images and one != other:
        assert images[0] != images[1]
