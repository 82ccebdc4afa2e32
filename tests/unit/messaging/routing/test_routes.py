"""Who gets a message on a topic: everybody once, whatever they subscribed to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.messaging.message.address import Address
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.destinations import QueueTarget, ShareGroup, Subscriber, Subscription
from sluicegate.messaging.routing.receivers import Route, RouteChoices
from sluicegate.messaging.routing.routes import PLACES_CACHED_MAX, TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.messaging.topics.syntax import Syntax, TopicFilter, matches, parse_filter
from support.cores.messages import batch_of, with_priority

FILTERS = ["a/b", "a/+", "a/#", "#", "b/+"]
TOPICS = ["a/b", "a/c", "b/c", "a", "a/b/c"]


def mqtt(text: str) -> TopicFilter:
    return parse_filter(text, Syntax.MQTT)


def queue(name: str = "q") -> QueueTarget:
    gate = QueueGate(None, usage_bytes_max=1, message_bytes_max=1)
    return QueueTarget(name, gate, Pressure(high_bytes=1, low_bytes=0), durable=False)


def subscribe(space: TopicSpace, client: Subscriber, text: str, qos: int) -> None:
    space.subscribe(mqtt(text), client.client, Subscription(client, qos))


def names(route: Route) -> tuple[list[str], list[str]]:
    """Return the clients of a route: those that get direct messages only, and those with guaranteed ones."""
    return [each.client for each in route.direct], [each.client for each in route.guaranteed]


def test_a_client_with_overlapping_filters_stands_in_a_route_once_with_the_highest_qos() -> None:
    """MQTT [3.3.4-2]: one copy, at the maximum QoS of all the matching subscriptions."""
    space, client = TopicSpace(), Subscriber("c")
    subscribe(space, client, "a/b", 0)
    subscribe(space, client, "a/#", 2)
    subscribe(space, client, "#", 1)

    assert names(space.route("a/b")) == ([], ["c"])
    assert names(space.route("x")) == ([], ["c"])
    space.unsubscribe(mqtt("a/#"), "c")
    space.unsubscribe(mqtt("#"), "c")
    assert names(space.route("a/b")) == (["c"], [])


def test_a_queue_stands_in_a_route_once_though_two_of_its_filters_match() -> None:
    space, target = TopicSpace(), queue()
    for text in ("a/b", "a/+", "#"):
        space.subscribe(mqtt(text), target, target)

    assert space.route("a/b").queues == [target]


def test_a_topic_that_an_exception_matches_is_not_for_the_queue() -> None:
    """Solace 2.3: an exception wins over every subscription of the same queue."""
    space, target = TopicSpace(), queue()
    space.subscribe(mqtt("a/#"), target, target)
    target.exceptions = [mqtt("a/secret/#")]

    assert space.route("a/b").queues == [target]
    assert space.route("a/secret/b").queues == []


def test_a_shared_group_stands_in_a_route_once_and_its_members_take_turns() -> None:
    """MQTT 4.8.2: each message goes to one session of the group; those that are away are passed over."""
    space, group = TopicSpace(), ShareGroup("g", "a/#")
    space.subscribe(mqtt("a/#"), group, group)
    for name in ("c1", "c2", "c3"):
        group.join(Subscriber(name))
        group.members[name].address = Address()
    group.members["c2"].address = None

    assert space.route("a/b").groups == [group]
    assert [member.client for _ in range(4) if (member := group.next_member())] == ["c1", "c3", "c1", "c3"]


def test_a_group_whose_members_are_all_away_has_no_next_member() -> None:
    group = ShareGroup("g", "a/#")
    group.join(Subscriber("c"))

    assert group.next_member() is None


def test_a_route_is_resolved_once_until_a_subscription_changes() -> None:
    space = TopicSpace()
    route = space.route("a/b")
    assert space.route("a/b") is route

    subscribe(space, Subscriber("c"), "a/+", 0)

    assert names(space.route("a/b")) == (["c"], [])


STEPS = st.lists(
    st.tuples(st.sampled_from(FILTERS), st.integers(0, 2), st.sampled_from([None, 0, 1, 2])),  # None: unsubscribe
    max_size=25,
)


@given(steps=STEPS)
def test_cached_routes_are_what_a_look_at_every_subscription_says(steps: list[tuple[str, int, int | None]]) -> None:
    """Goal: the cache never tells of the past. Method: after each change compare every topic with a plain scan."""
    space = TopicSpace()
    clients = [Subscriber(f"c{number}") for number in range(3)]
    plain: dict[tuple[str, int], int] = {}
    for text, number, qos in steps:
        if qos is None:
            was_there = plain.pop((text, number), None) is not None
            assert space.unsubscribe(mqtt(text), clients[number].client) == was_there
        else:
            subscribe(space, clients[number], text, qos)
            plain[text, number] = qos
        for topic in TOPICS:
            best: dict[str, int] = {}
            for (filter_text, owner), granted in plain.items():
                if matches(mqtt(filter_text), topic):
                    best[f"c{owner}"] = max(granted, best.get(f"c{owner}", 0))
            direct, guaranteed = names(space.route(topic))
            assert sorted(direct) == sorted(name for name, granted in best.items() if granted == 0)
            assert sorted(guaranteed) == sorted(name for name, granted in best.items() if granted > 0)


CHOSEN = st.lists(
    st.tuples(
        st.sampled_from(FILTERS), st.integers(0, 2), st.integers(0, 2), st.sampled_from([None, 0, 4])
    ),  # filter, client, QoS, and the priority that it selects
    max_size=12,
)


@given(subscriptions=CHOSEN, topic=st.sampled_from(TOPICS))
def test_a_message_goes_to_those_whose_selectors_select_it(
    subscriptions: list[tuple[str, int, int, int | None]], topic: str
) -> None:
    """Goal: a client gets it once, at the highest QoS of its subscriptions that want it. Method: a plain scan."""
    space = TopicSpace()
    target, group = queue(), ShareGroup("g", "#")
    space.subscribe(mqtt("#"), target, target)
    space.subscribe(mqtt("#"), group, group)
    clients = [Subscriber(f"c{number}") for number in range(3)]
    plain: dict[tuple[str, int], tuple[int, int | None]] = {}
    for text, number, qos, priority in subscriptions:
        selector = None if priority is None else Selectors({}).compile(f"JMSPriority = {priority}")
        space.subscribe(mqtt(text), clients[number].client, Subscription(clients[number], qos, selector))
        plain[text, number] = (qos, priority)
    batch = with_priority(batch_of([b"m"], topic=topic), 4)
    best: dict[str, int] = {}
    for (text, number), (qos, priority) in plain.items():
        if matches(mqtt(text), topic) and priority in (None, 4):
            best[f"c{number}"] = max(qos, best.get(f"c{number}", 0))

    route = space.route_of_row(batch, 0)

    direct, guaranteed = names(route)
    assert sorted(direct) == sorted(name for name, granted in best.items() if granted == 0)
    assert sorted(guaranteed) == sorted(name for name, granted in best.items() if granted > 0)
    assert (route.queues, route.groups, route.choices) == ([target], [group], None)
    assert space.route_of_row(batch, 0) is route


def test_any_number_of_selectors_is_distinguished_at_once() -> None:
    """A client may have thousands of links on one topic, each with another; all against all they took minutes."""
    choices = RouteChoices()
    selectors = Selectors({})

    for number in range(50_000):
        selector = selectors.compile(f"a = {number}")
        assert choices.bit_of(selector).bit_length() == number + 1
    assert choices.bit_of(selector).bit_length() == 50_000


@pytest.mark.parametrize("selector", [None, "a = 1"])
def test_routes_are_kept_for_fewer_topics_the_more_clients_stand_in_them(selector: str | None) -> None:
    """Thousands of subscriptions to everything, and tens of thousands of topics, were gigabytes."""
    space = TopicSpace()
    chosen = None if selector is None else Selectors({}).compile(selector)
    for number in range(4096):
        space.subscribe(mqtt("#"), number, Subscription(Subscriber(f"c{number}"), 0, chosen))
    first = space.route("first")

    for number in range(PLACES_CACHED_MAX // 4096 - 1):
        space.route(f"t{number}")
    assert (space.route("first") is first) == (selector is None)
    space.route("one more")
    assert space.route("first") is not first
    assert space.route("first") is space.route("first")
