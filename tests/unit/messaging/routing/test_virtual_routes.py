"""Where definitions send messages, against a plain model that walks them for every message anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.refusals import REJECT_ALWAYS
from sluicegate.messaging.network.interest import Change
from sluicegate.messaging.network.link import LinkOutput
from sluicegate.messaging.network.queue_names import QueueFacts, queue_interest
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.destinations import QueueTarget, Subscriber, Subscription
from sluicegate.messaging.routing.receivers import Forwarding
from sluicegate.messaging.routing.routes import PLACES_CACHED_MAX, TopicSpace
from sluicegate.messaging.routing.virtual.definitions import (
    QUEUE,
    TOPIC,
    CompositeDestination,
    ForwardTarget,
    VirtualDestinations,
    VirtualTopic,
)
from sluicegate.messaging.routing.virtual.names import ConsumerNames, NamePattern
from sluicegate.messaging.routing.virtual.resolver import HOPS_MAX, VirtualRoutes
from sluicegate.messaging.routing.virtual.validation import errors_of
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.messaging.topics.subscription_index import SubscriptionIndex
from sluicegate.messaging.topics.syntax import Syntax, parse_filter, queue_topic, queue_topic_filter

COLORS = ["red", "blue"]
QUEUES = ["q0", "q1", "q2", "Consumer.A.t0", "Consumer.B.t0", "Consumer.A.t1"]
SELECTORS = ["", "color = 'red'", "color = 'blue'"]
VIRTUAL = VirtualTopic((), NamePattern("t0"), ConsumerNames("Consumer.*.", ""))


def space_with(queues: list[str], definitions: VirtualDestinations) -> TopicSpace:
    space = TopicSpace()
    routes = VirtualRoutes(space, definitions, Selectors({}))
    for name in queues:
        gate = QueueGate(None, usage_bytes_max=1, message_bytes_max=1)
        target = QueueTarget(name, gate, Pressure(high_bytes=1, low_bytes=0), durable=True)
        space.subscribe(queue_topic_filter(name), target, target)
        routes.add_queue(target)
    space.expand_with(routes)
    return space


def message(topic: str, color: str) -> MessageBatch:
    return MessageBatch(
        topic=topic,
        topics=None,
        payloads=[b""],
        headers=[Headers(user_properties=[("color", color)])],
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="",
        received_ms=0,
        payload_bytes=0,
    )


def reached(space: TopicSpace, topic: str, color: str) -> set[str]:
    return {target.name for target in space.route_of_row(message(topic, color), 0).all_queues()}


def composite(kind: str, name: str, targets: list[ForwardTarget], own: int) -> CompositeDestination:
    return CompositeDestination(
        (), kind, NamePattern(name), tuple(targets), forward_only=own != 1, send_when_not_matched=own == 2
    )


class PlainWalk:
    """The rules, walked for one message: no tree, no cache."""

    def __init__(self, definitions: VirtualDestinations, color: str) -> None:
        self.definitions = definitions
        self.color = color
        self.found: set[str] = set()

    def take(self, kind: str, name: str) -> None:
        own: list[bool] = []
        for each in self.definitions.composites:
            if each.kind != kind or not each.name.matches(name):
                continue
            taken = [target for target in each.forward_to if target.selector in ("", f"color = '{self.color}'")]
            own.append(not taken if each.send_when_not_matched else not each.forward_only)
            for target in taken:
                self.take(target.kind, target.name)
        if kind == TOPIC and name == "t0":
            for queue in QUEUES:
                if queue.endswith(".t0"):
                    self.take(QUEUE, queue)
        if kind == QUEUE and (not own or any(own)):
            self.found.add(name)


# A name forwards to names behind it only: so there is no circle.
TARGETS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(SELECTORS)), min_size=1, max_size=3)
PLANS = st.lists(st.tuples(st.integers(0, 2), TARGETS, st.integers(0, 2)), max_size=6)
CHAIN = [(TOPIC, "in"), (TOPIC, "t0"), (QUEUE, "q0"), (QUEUE, "q1"), (QUEUE, "q2"), (QUEUE, "q2")]


@given(PLANS, st.sampled_from(COLORS))
def test_messages_reach_what_a_plain_walk_reaches(
    plans: list[tuple[int, list[tuple[int, str]], int]], color: str
) -> None:
    """Goal: a cached route is what the definitions say. Method: the same definitions, walked for each message."""
    composites = []
    for at, targets, own in plans:
        kind, name = CHAIN[at]
        to = [ForwardTarget(*CHAIN[min(at + step, 4)], selector) for step, selector in targets]
        composites.append(composite(kind, name, to, own))
    definitions = VirtualDestinations((VIRTUAL,), tuple(composites))
    space = space_with(QUEUES, definitions)
    for kind, name in CHAIN[:3]:
        walk = PlainWalk(definitions, color)
        walk.take(kind, name)
        topic = name if kind == TOPIC else f"$queue/{name}"
        assert reached(space, topic, color) == walk.found
        assert reached(space, topic, color) == walk.found  # and from the cache


def test_a_topic_that_no_definition_concerns_has_a_plain_route() -> None:
    """What is off costs nothing: no choices to be asked for each message."""
    space = space_with(
        QUEUES, VirtualDestinations((VIRTUAL,), (composite(TOPIC, "in", [ForwardTarget(QUEUE, "q0")], 0),))
    )
    assert space.route("elsewhere").choices is None
    assert space.route("elsewhere").forwarding is None
    assert not space.selects


def test_queues_of_a_virtual_topic_need_no_choices() -> None:
    """They cost a publisher what subscribing queues cost."""
    space = space_with(QUEUES, VirtualDestinations((VIRTUAL,)))
    route = space.route("t0")
    assert [target.name for target in route.queues] == ["Consumer.A.t0", "Consumer.B.t0"]
    assert (route.choices, route.forwarding) == (None, None)


def test_a_target_that_is_not_there_is_named() -> None:
    space = space_with([], VirtualDestinations((), (composite(TOPIC, "in", [ForwardTarget(QUEUE, "q0")], 0),)))
    fan = space.route("in").forwarding
    assert fan is not None
    assert fan.missing == ["q0"]


def test_the_longest_chain_may_go_from_consumer_queue_to_virtual_topic_and_on_at_every_step() -> None:
    """What the check of the definitions lets through has a route."""
    chain = [
        composite(QUEUE, f"Consumer.A.V.{number}", [ForwardTarget(TOPIC, f"V.{number + 1}")], 0)
        for number in range(HOPS_MAX)
    ]
    virtual = VirtualTopic((), NamePattern("V.>"), ConsumerNames("Consumer.*.", ""))
    definitions = VirtualDestinations((virtual,), tuple(chain))
    assert errors_of(definitions) == []

    space = space_with([f"Consumer.A.V.{number}" for number in range(HOPS_MAX + 1)], definitions)

    assert reached(space, "V.0", "red") == {f"Consumer.A.V.{HOPS_MAX}"}


def test_routes_that_go_on_from_a_topic_are_kept_for_fewer_topics_the_more_clients_stand_in_them() -> None:
    """Thousands of subscriptions to everything stand in each, and in that of each copy."""
    tapped = CompositeDestination(
        (), TOPIC, NamePattern("t/*"), (ForwardTarget(TOPIC, "copy", "color = 'red'"),), forward_only=False
    )
    space = space_with([], VirtualDestinations((), (tapped,)))
    for number in range(4096):
        subscription = Subscription(Subscriber(f"c{number}"), AT_MOST_ONCE)
        space.subscribe(parse_filter("#", Syntax.MQTT), number, subscription)
    first = space.route("t/first")
    assert first.choices is not None

    for number in range(PLACES_CACHED_MAX // 4096 // 4):  # two routes, each to all of them twice
        space.route(f"t/{number}")

    assert space.route("t/first") is not first


def arriving(space: TopicSpace, topic: str) -> set[str]:
    route = space.arriving_route(topic)
    chosen = route if route.choices is None else route.choices.route(message(topic, "red"), 0)
    return {target.name for target in chosen.all_queues()}


def test_what_comes_from_a_neighbor_goes_into_consumer_queues_and_is_forwarded_nowhere() -> None:
    """Composites on the topic and on the queue were the publisher's broker's matter."""
    composites = (
        composite(TOPIC, "t0", [ForwardTarget(QUEUE, "q0")], 1),
        composite(QUEUE, "Consumer.A.t0", [ForwardTarget(QUEUE, "q1")], 1),
    )
    space = space_with(QUEUES, VirtualDestinations((VIRTUAL,), composites))
    assert reached(space, "t0", "red") == {"Consumer.A.t0", "Consumer.B.t0", "q0", "q1"}
    assert arriving(space, "t0") == {"Consumer.A.t0", "Consumer.B.t0"}


def test_what_comes_from_a_neighbor_does_not_go_into_queues_of_a_local_virtual_topic() -> None:
    local = VirtualTopic((), NamePattern("t0"), ConsumerNames("Consumer.*.", ""), local=True)
    space = space_with(QUEUES, VirtualDestinations((local,), ()))
    assert reached(space, "t0", "red") == {"Consumer.A.t0", "Consumer.B.t0"}
    assert arriving(space, "t0") == set()


@pytest.mark.parametrize(
    ("pattern", "filters"),
    [
        ("A.b", ["A/b", "A.b"]),
        ("A.>", ["A/#", "A*"]),
        ("A.*.c", ["A/+/c", "A.*"]),
        ("*.c", ["+/c", "*"]),
        (">", ["#"]),
        ("A", ["A"]),
    ],
)
def test_a_neighbor_is_told_filters_that_match_every_topic_of_a_pattern(pattern: str, filters: list[str]) -> None:
    assert [each.text for each in NamePattern(pattern).exported_filters()] == filters


@given(
    pattern=st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=4),
    has_rest=st.booleans(),
    name=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5),
    separator=st.sampled_from("./"),
)
def test_no_topic_of_a_pattern_escapes_its_filters(
    pattern: list[str], has_rest: bool, name: list[str], separator: str
) -> None:
    names = NamePattern(".".join([*pattern, *([">"] if has_rest else [])]))
    topic = separator.join(name)
    if names.matches(topic):
        index: SubscriptionIndex[int] = SubscriptionIndex()
        for number, topic_filter in enumerate(names.exported_filters()):
            index.add(topic_filter, number, number)
        assert index.match(topic)


class Elsewhere:
    """A neighbor with the queue `far`, and a link queue for it."""

    def __init__(self, space: TopicSpace, *, takes_named: bool = True) -> None:
        self.output = LinkOutput("n")
        gate = QueueGate(None, usage_bytes_max=1, message_bytes_max=1)
        self.queue = QueueTarget("#link/n", gate, Pressure(high_bytes=1, low_bytes=0), durable=True)
        facts = QueueFacts("exclusive", 0, 10, True, True, REJECT_ALWAYS)._replace(takes_named=takes_named)
        space.change_neighbor(self.output, Change([queue_interest("far", facts)], []))
        space.keep_for(self.output, self.queue)


def forwarding_of(space: TopicSpace, topic: str) -> Forwarding:
    found = space.route_of_row(message(topic, "red"), 0).forwarding
    assert found is not None
    return found


def test_a_queue_of_a_neighbor_gets_the_message_of_another_topic_by_name_and_once() -> None:
    """Its own topic leads there, and would change the message's."""
    to = [ForwardTarget(QUEUE, "q0"), ForwardTarget(QUEUE, "far"), ForwardTarget(QUEUE, "via")]
    via = composite(QUEUE, "via", [ForwardTarget(QUEUE, "far")], 0)
    space = space_with(["q0", "via"], VirtualDestinations(composites=(composite(TOPIC, "in", to, 0), via)))
    elsewhere = Elsewhere(space)
    forwarding = forwarding_of(space, "in")
    assert forwarding.missing == []
    (copy,) = forwarding.copies
    assert (copy.topic, copy.queue, copy.marks) == ("in", "far", [])
    links = copy.route.links
    assert links is not None
    assert (links.stored, links.outputs, links.is_named) == ([elsewhere.output], [], True)
    assert links.home is not None, "it is asked what it refuses"
    assert not copy.route.is_empty_for_direct
    assert space.queues_of(space.route_of_row(message("in", "red"), 0))[-1] is elsewhere.queue


def test_a_queue_of_a_neighbor_that_may_be_left_out_is_not_asked() -> None:
    tap = CompositeDestination(
        (), TOPIC, NamePattern("in"), (ForwardTarget(QUEUE, "far"),), drop_on_resource_limit=True
    )
    space = space_with([], VirtualDestinations(composites=(tap,)))
    Elsewhere(space)
    (copy,) = forwarding_of(space, "in").copies
    assert copy.route.links is not None
    assert copy.route.links.home is None


def test_a_queue_of_a_neighbor_of_an_earlier_release_is_missing() -> None:
    to = composite(TOPIC, "in", [ForwardTarget(QUEUE, "far")], 0)
    space = space_with([], VirtualDestinations(composites=(to,)))
    Elsewhere(space, takes_named=False)
    assert forwarding_of(space, "in").missing == ["far"]


def test_a_copy_for_a_queue_of_a_neighbor_has_the_topic_of_the_queue() -> None:
    to = CompositeDestination(
        (), TOPIC, NamePattern("in"), (ForwardTarget(QUEUE, "far"),), set_original_destination=True
    )
    space = space_with([], VirtualDestinations(composites=(to,)))
    Elsewhere(space)
    (copy,) = forwarding_of(space, "in").copies
    assert (copy.topic, copy.queue) == (queue_topic("far"), "")
