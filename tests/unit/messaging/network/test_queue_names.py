"""Names of queues in a network: facts as they travel, and who has a queue of a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.refusals import (
    ADMITTED,
    REFUSED_MESSAGE_TOO_LARGE,
    REFUSED_QUEUE_FULL,
    REFUSED_SHUT_DOWN,
    REJECT_ALWAYS,
    REJECT_NEVER,
    REJECT_WHEN_ENABLED,
)
from sluicegate.messaging.network.interest import Change, Interest, InterestKind
from sluicegate.messaging.network.link import LinkOutput
from sluicegate.messaging.network.neighbors import NeighborInterest
from sluicegate.messaging.network.queue_names import QueueFacts, QueueNames, facts_in, queue_interest
from sluicegate.messaging.topics.syntax import Syntax

FACTS = QueueFacts("exclusive", 0, 100, True, True, REJECT_WHEN_ENABLED)
facts = st.builds(
    QueueFacts,
    st.sampled_from(["exclusive", "non-exclusive"]),
    st.integers(0, 1000),
    st.integers(0, 1 << 40),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2),
    st.booleans(),
)


def batch(*sizes: int) -> MessageBatch:
    return MessageBatch(
        topic="$queue/q",
        topics=None,
        payloads=[bytes(size) for size in sizes],
        headers=None,
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="",
        received_ms=0,
        payload_bytes=sum(sizes),
    )


@given(facts)
def test_facts_are_read_as_they_were_written(found: QueueFacts) -> None:
    assert facts_in(found.text()) == found


def test_words_of_later_releases_are_skipped() -> None:
    assert facts_in(f"color=blue {FACTS.text()} odd") == FACTS


@pytest.mark.parametrize("text", ["", "access=exclusive", FACTS.text().replace("size=100", "size=x"), "x" * 501])
def test_facts_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"about a queue|described by"):
        facts_in(text)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (FACTS, ADMITTED),
        (FACTS._replace(message_bytes_max=9), REFUSED_MESSAGE_TOO_LARGE),
        (FACTS._replace(message_bytes_max=9, reject_behavior=REJECT_NEVER), ADMITTED),
        (FACTS._replace(is_full=True), REFUSED_QUEUE_FULL),
        (FACTS._replace(ingress_enabled=False), ADMITTED),
        (FACTS._replace(ingress_enabled=False, reject_behavior=REJECT_ALWAYS), REFUSED_SHUT_DOWN),
    ],
)
def test_the_verdict_is_the_one_that_the_publisher_would_hear_at_home(found: QueueFacts, verdict: int) -> None:
    assert found.verdict(batch(10, 1)) == verdict


def test_a_queue_that_is_known_twice_is_what_was_told_last() -> None:
    """A bucket with the present facts may come before the one whose end removes the earlier ones."""
    names, link = QueueNames(), LinkOutput("b")
    before, after = queue_interest("q", FACTS), queue_interest("q", FACTS._replace(is_full=True))
    names.add(link, before)
    names.add(link, after)
    home = names.only_home("q")
    assert home is not None
    assert home.facts.is_full
    names.discard(link, before)
    assert names.only_home("q") == home
    names.discard(link, after)
    assert names.only_home("q") is None
    assert names.take_touched() == ["q"]
    assert names.take_touched() == []


def test_a_name_that_two_neighbors_have_is_at_none() -> None:
    interest = NeighborInterest()
    links = [LinkOutput(name) for name in "bc"]
    for link in links:
        link.has_queue = True
        assert interest.change(link, Change([queue_interest("q", FACTS)], [])) == ["$queue/q"]
    assert interest.route("$queue/q") is None
    interest.forget(links[0])
    route = interest.route("$queue/q")
    assert route is not None
    assert (route.stored, route.home and route.home.output) == ([links[1]], links[1])
    interest.check()


def test_a_neighbor_that_is_away_gets_guaranteed_messages_only() -> None:
    interest, link = NeighborInterest(), LinkOutput("b")
    link.has_queue, link.is_up = True, False
    interest.change(link, Change([queue_interest("q", FACTS)], []))
    route = interest.route("$queue/q")
    assert route is not None
    assert (route.stored, route.outputs) == ([link], [])


def test_names_that_belong_to_one_broker_are_not_taken_from_another() -> None:
    interest, link = NeighborInterest(), LinkOutput("b")
    link.has_queue = True
    interest.change(link, Change([queue_interest("#DEAD_MSG_QUEUE", FACTS)], []))
    assert interest.route("$queue/#DEAD_MSG_QUEUE") is None


@pytest.mark.parametrize("word", ["partitions=-1", "size=9999999999999999999", "size=x", "reject=x"])
def test_a_description_with_a_number_out_of_bounds_is_counted_and_names_no_queue(word: str) -> None:
    name = word.partition("=")[0]
    words = [word if each.startswith(f"{name}=") else each for each in FACTS.text().split(" ")]
    names, link = QueueNames(), LinkOutput("b")
    names.add(link, Interest(InterestKind.QUEUE, "q", Syntax.MQTT, " ".join(words), 0, False, True))
    assert (names.homes("q"), names.unreadable_count) == ([], 1)


def test_a_link_in_the_place_of_one_that_ends_makes_no_conflict() -> None:
    queues = QueueNames()
    ended, begun, other = LinkOutput("b"), LinkOutput("b"), LinkOutput("c")
    queues.add(ended, queue_interest("q", FACTS))
    queues.add(begun, queue_interest("q", FACTS))
    home = queues.only_home("q")
    assert home is not None
    assert home.output is begun
    queues.discard(ended, queue_interest("q", FACTS))
    assert queues.only_home("q") == home
    queues.add(other, queue_interest("q", FACTS))
    assert [each.output for each in queues.homes("q")] == [begun, other]
