"""Explain says who would not get a message, and why; and then it goes where explain said, and nowhere else.

Deliver-To-One, shared groups, selectors, rights and definitions, each asked of and then done.
"""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.queues.explanations import DestinationView, ExampleMessage, properties_from_json
from sluicegate.messaging.clients.rights import PUBLISH_ACL
from sluicegate.messaging.queues.definition import QueueInvalid
from support.broker.named_queues import create
from support.broker.operator_views import explained
from support.broker.running_broker import RunningBroker
from support.broker.virtual_clients import consumer, depth, publish, subscriber

SECRET = "correct-horse"
TO_ONE = mqtt.user_property("deliver-to-one", "true")
VIRTUAL = "virtual_destinations"


def by_name(destinations: tuple[DestinationView, ...]) -> dict[str, tuple[str, str]]:
    """Return verdict and reason by name."""
    return {each.name: (each.verdict, each.reason) for each in destinations}


async def test_asking_for_the_next_receiver_of_deliver_to_one_changes_no_turn(broker: RunningBroker) -> None:
    """Solace 13.2: the best priority takes turns, a deliver-always subscription looks on."""
    clients = {name: await broker.connect(name, 5) for name in ("a", "b", "worse", "audit")}
    for name, priority in (("a", "P1"), ("b", "P1"), ("worse", "P3"), ("audit", "DA")):
        await clients[name].subscribe("t", properties=mqtt.user_property("dto-priority", priority))
    publisher = await broker.connect("p", 5)
    for number in range(4):
        for _ in range(2):  # asking twice takes no turn
            answer = await explained(broker, "t", qos=0, deliver_to_one=True)
        chosen = [each.name for each in answer.destinations if each.verdict == "delivered"]
        await publisher.publish("t", b"%d" % number, qos=0, properties=TO_ONE)
        for name in chosen:
            assert await clients[name].payloads(1) == [b"%d" % number]
        for name in clients.keys() - chosen:
            await clients[name].is_quiet()
    assert chosen == ["b", "audit"]
    assert by_name(answer.destinations) == {
        "a": ("not-its-turn", "Deliver-To-One: it is the turn of b"),
        "b": ("delivered", "Deliver-To-One: it is its turn"),
        "worse": ("not-its-turn", "Deliver-To-One: it is the turn of b"),
        "audit": ("delivered", "Deliver-To-One: its subscription is deliver-always"),
    }


async def test_the_member_of_a_shared_group_that_gets_a_direct_message_is_named(broker: RunningBroker) -> None:
    members = {name: await broker.connect(name) for name in ("a", "b", "c")}
    for member in members.values():
        await member.subscribe("$share/team/t")
    for number in range(4):
        [view] = (await explained(broker, "t", qos=0)).destinations
        name = "abc"[number % 3]
        assert (view.name, view.verdict) == ("team", "delivered")
        assert view.reason == f"it is the turn of {name}, one of 3 members"
        await publish(broker, "t", b"%d" % number, qos=0)
        assert await members[name].payloads(1) == [b"%d" % number]


async def test_explain_evaluates_selectors_for_the_given_message(broker: RunningBroker) -> None:
    reds = await broker.connect("reds", 5)
    large = mqtt.user_property("selector", "convert_string_expressions:amount > 10 AND AMQSize >= 3")
    await reds.subscribe("t", qos=1, properties=large)
    await create(broker, "all", subscriptions=["t"])
    text = "convert_string_expressions:amount > 10 AND AMQSize >= 3"
    for amount, payload, taken in (("11", b"abc", True), ("11", b"a", False), ("9", b"abc", False)):
        answer = await explained(broker, "t", size_bytes=len(payload), properties=(("amount", amount),))
        refused = ("not-selected", f"the selector does not match: {text}")
        verdict = ("spooled", f"the selector matches: {text}") if taken else refused
        assert by_name(answer.destinations) == {"all": ("spooled", ""), "reds": verdict}
        assert await publish(broker, "t", payload, amount=amount) == [0]
        if taken:
            assert await reds.payloads(1) == [payload]
        await reds.is_quiet()


@pytest.mark.accounts(ada=SECRET, bob=SECRET)
@pytest.mark.settings(
    "authentication.client_profiles=[{name: direct, allow_guaranteed_msg_send_enabled: false}]",
    "authentication.acl_profiles=[{name: own, publish_topic_exceptions: [{topic: 'data/$client-username/>'}]}]",
    "authentication.users.0.acl_profile=own",
    "authentication.users.1.client_profile=direct",
)
async def test_a_publisher_without_the_right_is_refused_as_explain_said(broker: RunningBroker) -> None:
    """By its user, or by its client id while it is connected; the question itself is no denial."""
    ada = await broker.connect("meter", 5, user_name="ada", password=SECRET.encode())
    denials = broker.node.default.clients.denials.counts
    for topic, refused in (("data/bob/x", True), ("data/ada/x", False)):
        for asked in ({"client_username": "ada"}, {"client_id": "meter"}):
            answer = await explained(broker, topic, **asked)
            assert answer.publisher == "client username 'ada', ACL profile 'own', client profile 'default'"
            assert answer.reason.startswith("403 Publish ACL Denied") is refused
        assert PUBLISH_ACL not in denials
        assert (await ada.publish(topic) == 0x87) is refused
        denials.clear()
    answer = await explained(broker, "data/bob/x", client_id="somebody")
    assert (answer.publisher, answer.reason) == ("", "503 No Subscription Match: nobody subscribes to the topic")
    answer = await explained(broker, "t", client_username="bob")
    assert (answer.verdict, answer.reason.split(":")[0]) == ("refused", "403 Permission Denied")
    assert (await explained(broker, "t", client_username="bob", qos=0)).verdict == "dropped"  # nobody subscribes


@pytest.mark.settings(
    f"{VIRTUAL}.composite_queues=[{{name: in, forward_to: [{{queue: large, selector: 'amount > 10'}}]}}]",
    f"{VIRTUAL}.composite_topics=[{{name: a.b, send_when_not_matched: true, "
    "forward_to: [{queue: tests, selector: \"kind = 'test'\"}]}]",
)
async def test_where_definitions_do_not_send_a_message_is_said_with_what_keeps_it(broker: RunningBroker) -> None:
    """VD-42, VD-44."""
    own = await subscriber(broker, "a/b")
    view = NodeOperations(broker.node)

    answer = await view.explain_publish(ExampleMessage(topic="", properties=(("amount", 5),)), queue="in")
    assert by_name(answer.destinations) == {
        "in": ("kept-out", "composite queue in has forward_only"),
        "large": ("not-selected", "the selector does not match: amount > 10"),
    }
    answer = await view.explain_publish(ExampleMessage(topic="", properties=(("amount", 11),)), queue="in")
    assert by_name(answer.destinations)["large"] == ("spooled", "the selector matches: amount > 10")

    for kind, taken in (("test", True), ("tset", False)):
        answer = await explained(broker, "a/b", properties=(("kind", kind),))
        verdicts = {name: verdict for name, (verdict, _) in by_name(answer.destinations).items()}
        own_name = next(name for name in verdicts if name != "tests")
        expected = ("spooled", "kept-out") if taken else ("not-selected", "spooled")
        assert (verdicts["tests"], verdicts[own_name]) == expected
        before = await depth(broker, "tests")
        assert await publish(broker, "a/b", b"m", kind=kind) == [0]
        assert await depth(broker, "tests") == before + taken
    assert await own.payloads(1) == [b"m"]
    await own.is_quiet()


@pytest.mark.settings(
    f"{VIRTUAL}.virtual_topics=[{{name: VirtualTopic.>, selector_aware: true, drop_on_resource_limit: true}}]"
)
async def test_a_queue_without_the_message_and_one_without_a_matching_selector_are_distinguished(
    broker: RunningBroker,
) -> None:
    """VD-17, VD-28."""
    await consumer(broker, "Consumer.Odd.VirtualTopic.O", "odd = 'yes'")
    await consumer(broker, "Consumer.Full.VirtualTopic.O")
    await NodeOperations(broker.node).update_queue("Consumer.Full.VirtualTopic.O", {"max_msg_size": 2})
    answer = await explained(broker, "VirtualTopic.O", size_bytes=3, properties=(("odd", "no"),))
    assert answer.verdict == "dropped"
    found = by_name(answer.destinations)
    assert found["Consumer.Odd.VirtualTopic.O"] == ("not-selected", "no consumer has a matching selector: odd = 'yes'")
    assert found["Consumer.Full.VirtualTopic.O"][0] == "dropped"
    assert await publish(broker, "VirtualTopic.O", b"abc", odd="no") == [0]
    answer = await explained(broker, "VirtualTopic.O", properties=(("odd", "yes"),))
    assert answer.verdict == "accepted"
    assert by_name(answer.destinations)["Consumer.Odd.VirtualTopic.O"][0] == "spooled"


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": [1]}'])
def test_properties_are_one_object_of_plain_values(text: str) -> None:
    with pytest.raises(QueueInvalid, match="properties"):
        properties_from_json(text)
    assert properties_from_json('{"a": 1, "b": null, "c": "x"}') == (("a", 1), ("b", None), ("c", "x"))
