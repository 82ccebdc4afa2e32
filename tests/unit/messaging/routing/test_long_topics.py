"""Topics may have 64 KB: who remembers an answer for each of the last thousands must not hold them."""

import tracemalloc
from collections.abc import Callable

import pytest

from sluicegate.messaging.observability.trace_records import TraceBuffer
from sluicegate.messaging.observability.tracing import TraceSampler, Tracing
from sluicegate.messaging.routing.destinations import Subscriber, Subscription
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from sluicegate.protocols.mqtt.session.subscriptions import GrantedSubscription, SubscriptionTable
from support.cores.client_rights import Told, acl, rules
from support.cores.messages import batch_of

EVERYTHING = parse_filter("#", Syntax.MQTT)
TOPICS_COUNT = 300
TOPIC_CHARACTERS = 60_000
HELD_BYTES_MAX = 1_000_000


def routes() -> Callable[[str], object]:
    space = TopicSpace()
    space.subscribe(EVERYTHING, "c", Subscription(Subscriber("c"), 0))
    return space.route


def rights_to_publish() -> Callable[[str], object]:
    return Told(its_acl=acl(publish=rules("t/>"))).admit().may_publish


def options_of_subscriptions() -> Callable[[str], object]:
    table = SubscriptionTable()
    table.grant("#", GrantedSubscription(EVERYTHING, 0, False, True, 0, 0, None))
    return lambda topic: table.runs(batch_of([b"m"], topic=topic), 0, 1, own=False)


def traced_topics() -> Callable[[str], object]:
    sampler = TraceSampler(ratio=1.0, is_parent_based=True, begins=True, seed=1)
    tracing = Tracing(
        TraceBuffer(records_max=1), sampler, topics=[parse_filter("x", Syntax.MQTT)], queues=[], natives={}
    )
    return lambda topic: tracing.begin(batch_of([b"m"], topic=topic), [])


@pytest.mark.parametrize("remembering", [routes, rights_to_publish, options_of_subscriptions, traced_topics])
def test_no_answer_is_remembered_for_a_long_topic(remembering: Callable[[], Callable[[str], object]]) -> None:
    asked = remembering()
    asked("t/short")
    tracemalloc.start()
    for number in range(TOPICS_COUNT):
        asked(f"t/{number}/" + "x" * TOPIC_CHARACTERS)
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held_bytes < HELD_BYTES_MAX
