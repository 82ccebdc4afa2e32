"""The cases of tests/data/routing/topics.txt, each by every part that matches topics (Solace 13.1)."""

from pathlib import Path

import pytest

from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.destinations import QueueTarget, Subscriber, Subscription
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.subscription_index import SubscriptionIndex
from sluicegate.messaging.topics.syntax import Syntax, matches, parse_filter, parse_queue_subscription

CASES = Path(__file__).parents[3] / "data" / "routing" / "topics.txt"


def cases() -> list[tuple[str, tuple[str, ...], str, bool]]:
    """Return syntax, subscriptions, topic, and whether they match, of each line."""
    lines = [line.split() for line in CASES.read_text().splitlines() if line and not line.startswith("# ")]
    return [(words[0], tuple(words[1:-2]), words[-2], words[-1] == "yes") for words in lines if len(words) > 3]


OF_CLIENTS = [each for each in cases() if each[0] != "queue"]
OF_QUEUES = [each for each in cases() if each[0] == "queue"]


@pytest.mark.parametrize(("syntax", "subscriptions", "topic", "expected"), OF_CLIENTS)
def test_a_subscription_of_a_client_matches_as_written(
    syntax: str, subscriptions: tuple[str, ...], topic: str, expected: bool
) -> None:
    """By the plain definition, by the index, and by the route of a publish."""
    [text] = subscriptions
    topic_filter = parse_filter(text, Syntax(syntax))
    assert matches(topic_filter, topic) is expected
    index: SubscriptionIndex[str] = SubscriptionIndex()
    index.add(topic_filter, "client", "found")
    assert index.match(topic) == ["found"] * expected
    space, client = TopicSpace(), Subscriber("client")
    space.subscribe(topic_filter, client.client, Subscription(client, 0))
    assert space.route(topic).direct == [client] * expected


@pytest.mark.parametrize(("_", "subscriptions", "topic", "expected"), OF_QUEUES)
def test_an_exception_of_a_queue_wins_over_its_subscriptions(
    _: str, subscriptions: tuple[str, ...], topic: str, expected: bool
) -> None:
    """Solace 2.3: in whichever order they stand."""
    gate = QueueGate(None, usage_bytes_max=1, message_bytes_max=1)
    target, space = QueueTarget("q", gate, Pressure(high_bytes=1, low_bytes=0), durable=True), TopicSpace()
    for text in subscriptions:
        is_exception, topic_filter = parse_queue_subscription(text, Syntax.SMF)
        if is_exception:
            target.exceptions.append(topic_filter)
        else:
            space.subscribe(topic_filter, target, target)
    assert space.route(topic).queues == [target] * expected


def test_every_case_of_the_file_is_tried() -> None:
    assert (len(OF_CLIENTS), len(OF_QUEUES)) == (28, 5)
