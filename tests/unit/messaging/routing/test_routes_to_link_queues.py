"""Which neighbors are in a route for guaranteed messages, which for direct ones, and which while they are away."""

from sluicegate.messaging.network.interest import Change, Interest, subscribers
from sluicegate.messaging.network.link import LinkOutput
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.destinations import QueueTarget, Subscriber, Subscription
from sluicegate.messaging.routing.local_interest import ExportRules, LocalInterests
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.topics.syntax import Syntax, TopicFilter, parse_filter


def mqtt(text: str) -> TopicFilter:
    return parse_filter(text, Syntax.MQTT)


def queue(name: str) -> QueueTarget:
    gate = QueueGate(None, usage_bytes_max=1, message_bytes_max=1)
    return QueueTarget(name, gate, Pressure(high_bytes=1, low_bytes=0), durable=True)


def wants(text: str, *, is_guaranteed: bool) -> Interest:
    found = subscribers(mqtt(text), 0, is_guaranteed=is_guaranteed)
    assert found is not None
    return found


def space_with(neighbor: LinkOutput, *interests: Interest) -> TopicSpace:
    space = TopicSpace()
    space.change_neighbor(neighbor, Change(list(interests), []))
    space.keep_for(neighbor, queue(f"#link/{neighbor.neighbor}"))
    return space


def test_guaranteed_messages_are_stored_for_a_neighbor_that_is_away() -> None:
    neighbor = LinkOutput("b")
    neighbor.is_up = False
    route = space_with(neighbor, wants("a/#", is_guaranteed=True)).route("a/b")
    assert route.links is not None
    assert (route.links.stored, route.links.outputs, route.links.beside) == ([neighbor], [], [])
    assert not route.is_empty
    assert route.is_empty_for_direct, "nobody gets a direct message"


def test_a_neighbor_with_direct_subscribers_only_is_sent_everything_directly() -> None:
    neighbor = LinkOutput("b")
    space = space_with(neighbor, wants("a/#", is_guaranteed=False))
    route = space.route("a/b")
    assert route.links is not None
    assert (route.links.stored, route.links.outputs, route.links.beside) == ([], [neighbor], [neighbor])
    neighbor.is_up = False
    space.neighbor_presence_changed(neighbor)
    assert space.route("a/b").is_empty


def test_direct_subscribers_beside_a_queue_get_guaranteed_messages_out_of_the_link_queue() -> None:
    neighbor = LinkOutput("b")
    space = space_with(neighbor, wants("a/#", is_guaranteed=True), wants("a/+", is_guaranteed=False))
    route = space.route("a/b")
    assert route.links is not None
    assert (route.links.stored, route.links.outputs, route.links.beside) == ([neighbor], [neighbor], [])
    assert [each.name for each in space.queues_of(route)] == ["#link/b"]


def test_without_its_queue_a_neighbor_is_sent_guaranteed_messages_directly() -> None:
    neighbor = LinkOutput("b")
    space = space_with(neighbor, wants("a/#", is_guaranteed=True))
    space.keep_for(neighbor, None)
    route = space.route("a/b")
    assert route.links is not None
    assert (route.links.stored, route.links.beside) == ([], [neighbor])
    assert space.queues_of(route) == []


def test_queues_and_subscriptions_of_qos_1_are_told_as_guaranteed_interests() -> None:
    interests = LocalInterests()
    interests.subscribed(mqtt("a"), "q", queue("q"))
    for qos in (0, 1):
        client = Subscriber(f"c{qos}")
        interests.subscribed(mqtt(f"b/{qos}"), client.key, Subscription(client, qos))
    told = interests.export_to(LinkOutput("b"), lambda change: None, ExportRules())
    assert {each.topic_filter: each.is_guaranteed for each in told.added} == {"a": True, "b/1": True}


def test_a_filter_of_topics_that_stay_with_their_broker_is_not_told() -> None:
    """Nor one that begins with a part of such a name: the neighbor would ignore it."""
    interests = LocalInterests()
    for text in ("$x*/a", "$x/a", "#x*/>", "#x", "x*/a"):
        client = Subscriber(text)
        interests.subscribed(parse_filter(text, Syntax.SMF), client.key, Subscription(client, 1))
    told = interests.export_to(LinkOutput("b"), lambda change: None, ExportRules())
    assert [each.topic_filter for each in told.added] == ["x*/a"]
