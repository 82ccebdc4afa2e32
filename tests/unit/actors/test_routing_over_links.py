"""What is published at one broker reaches the clients of all, once; what is for one receiver reaches one."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.actors.runtime.runtime import Runtime
from sluicegate.messaging.message.batch import AT_LEAST_ONCE
from sluicegate.messaging.message.refusals import ADMITTED, REFUSED_NO_MATCH
from sluicegate.messaging.network.link import SUBSCRIBERS
from sluicegate.messaging.routing.virtual.definitions import (
    TOPIC,
    CompositeDestination,
    ForwardTarget,
    VirtualDestinations,
)
from sluicegate.messaging.routing.virtual.names import NamePattern
from sluicegate.messaging.routing.virtual.resolver import VirtualRoutes
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.messaging.topics.syntax import matches
from support.cores.lone_actors import lone_runtime
from support.cores.routing_mesh import Mesh, mqtt
from support.thorough import examples


@pytest.fixture
def mesh(runtime: Runtime) -> Mesh:
    """Three brokers without clients."""
    return Mesh(runtime)


def plain(topic: str, payload: bytes) -> tuple[str, bytes, bool]:
    return topic, payload, False


def to_one(topic: str, payload: bytes) -> tuple[str, bytes, bool]:
    return topic, payload, True


# --- ordinary subscribers ---


def test_a_message_goes_once_to_each_broker_that_wants_it_and_to_no_other(mesh: Mesh) -> None:
    for name in ("one", "two", "three"):
        mesh["B"].subscribe(name, "plant/#")
    mesh["C"].subscribe("four", "other")

    result = mesh.publish("A", plain("plant/1", b"m"))

    assert result.routed
    assert mesh.who_got(b"m") == ["B/one", "B/three", "B/two"]
    assert [(each.source, each.target) for each in mesh.sent] == [("A", "B")]


def test_both_neighbors_get_the_same_batch_so_that_it_is_encoded_once(mesh: Mesh) -> None:
    mesh["B"].subscribe("b", "t")
    mesh["C"].subscribe("c", "+")
    mesh.publish("A", plain("t", b"1"), plain("u", b"2"), plain("t", b"3"))
    mesh.publish("A", plain("t", b"4"), plain("t", b"5"))

    assert mesh["B"].payloads("b") == [b"1", b"3", b"4", b"5"]
    assert mesh["C"].payloads("c") == [b"1", b"2", b"3", b"4", b"5"]
    *_, to_b, to_c = mesh.sent
    assert to_b.batch is to_c.batch


def test_nothing_is_sent_after_the_last_subscriber_has_left(mesh: Mesh) -> None:
    mesh["B"].subscribe("one", "t")
    mesh["B"].subscribe("two", "t")
    mesh["B"].unsubscribe("one", "t")
    mesh.publish("A", plain("t", b"1"))
    mesh["B"].unsubscribe("two", "t")
    result = mesh.publish("A", plain("t", b"2"))

    assert mesh.who_got(b"1") == ["B/two"]
    assert len(mesh.sent) == 1
    assert not result.routed
    assert mesh["A"].space.unmatched_count == 1


def test_a_neighbor_that_has_gone_is_sent_nothing(mesh: Mesh) -> None:
    mesh["B"].subscribe("b", "t")
    mesh["B"].join("b", "g", "t")
    mesh.publish("A", plain("t", b"1"))
    mesh["A"].space.forget_neighbor(mesh["A"].links["B"])
    assert not mesh.publish("A", plain("t", b"2")).routed
    assert mesh.who_got(b"2") == []


def test_a_cached_route_learns_of_a_change_whatever_filter_it_came_by(mesh: Mesh) -> None:
    for payload, text in ((b"1", "a/b"), (b"2", "a/+"), (b"3", "#")):
        assert not mesh.publish("A", plain("a/b", payload)).routed
        mesh["B"].subscribe("b", text)
        assert mesh.publish("A", plain("a/b", payload)).routed
        mesh["B"].unsubscribe("b", text)


@pytest.mark.parametrize("text", ["$SYS/#", "$queue/q", "$reply/1"])
def test_what_belongs_to_one_broker_does_not_cross_a_link(mesh: Mesh, text: str) -> None:
    mesh["B"].subscribe("b", text)
    assert mesh["A"].space.neighbors is None
    assert not mesh.publish("A", plain(text.replace("#", "x"), b"m")).routed


def test_a_selector_is_applied_by_the_broker_that_has_it(mesh: Mesh) -> None:
    """The message matches as far as the publisher's broker knows. Then nobody wants it, which is counted."""
    mesh["B"].subscribe("b", "t", selector="JMSPriority > 4")
    assert mesh.publish("A", plain("t", b"m")).routed
    assert mesh.who_got(b"m") == []
    assert mesh["B"].space.arrived_unmatched_count == 1


def test_a_message_that_arrives_after_its_subscriber_has_left_is_counted(mesh: Mesh) -> None:
    mesh["B"].subscribe("b", "t")
    mesh.publish("A", plain("t", b"1"))
    sent = mesh.sent[0]
    mesh["B"].unsubscribe("b", "t")
    mesh["B"].arrivals.deliver(sent.batch, sent.targets, "A")
    assert mesh["B"].space.arrived_unmatched_count == 1
    assert mesh["B"].space.unmatched_count == 0


def test_a_subscriber_at_a_neighbor_is_a_match_for_publishers_that_ask_for_one(mesh: Mesh) -> None:
    mesh["A"].space.refuses_unmatched = True
    assert mesh.publish("A", plain("t", b"1"), qos=AT_LEAST_ONCE).refusal == REFUSED_NO_MATCH
    mesh["B"].subscribe("b", "t")
    assert mesh.publish("A", plain("t", b"2"), qos=AT_LEAST_ONCE).refusal == ADMITTED


def test_what_is_retained_at_one_broker_is_not_retained_at_the_other(mesh: Mesh) -> None:
    """Its subscribers see the flag (Retain As Published)."""
    mesh["B"].subscribe("b", "t")
    mesh.publish("A", plain("t", b"m"), retain=True)
    assert [batch.retain for batch in mesh["B"].got["b"]] == [True]
    assert (mesh["A"].space.retained.count, mesh["B"].space.retained.count) == (1, 0)


def test_a_client_that_is_away_is_offered_for_guaranteed_messages_only(mesh: Mesh) -> None:
    mesh["B"].subscribe("direct", "t")
    mesh["B"].subscribe("guaranteed", "u", qos=1)
    for name in ("direct", "guaranteed"):
        mesh["B"].away(name)
    assert not mesh.publish("A", plain("t", b"1"), qos=AT_LEAST_ONCE).routed
    assert mesh.publish("A", plain("u", b"2"), qos=AT_LEAST_ONCE).routed
    assert mesh.who_got(b"2") == ["B/guaranteed's queue"]
    mesh["B"].back("direct")
    assert mesh.publish("A", plain("t", b"3")).routed


# --- guaranteed messages, and queues ---


def test_a_guaranteed_message_is_guaranteed_again_at_the_neighbor(mesh: Mesh) -> None:
    """Over the link itself it goes at most once, which is counted."""
    mesh["B"].subscribe("b", "t", qos=1)
    mesh["B"].queue("q", "t")
    mesh["C"].subscribe("c", "t")
    mesh.publish("A", plain("t", b"m"), qos=AT_LEAST_ONCE)
    assert mesh.who_got(b"m") == ["B/b's queue", "B/q", "C/c"]
    assert mesh["A"].space.sent_at_most_once_count == 2


def test_a_full_queue_at_a_neighbor_takes_what_it_has_room_for_and_others_get_it_all(mesh: Mesh) -> None:
    full = mesh["B"].queue("full", "t", usage_bytes_max=5000)
    mesh["B"].queue("free", "t")
    mesh.publish("A", *[plain("t", bytes([number]) * 100) for number in range(10)])
    assert len(mesh["B"].payloads("free")) == 10
    kept = mesh["B"].payloads("full")
    assert 0 < len(kept) < 10
    assert kept == [bytes([number]) * 100 for number in range(len(kept))]
    assert sum(full.gate.drops.values()) == 10 - len(kept)


def test_a_local_queue_that_refuses_keeps_the_message_from_neighbors_too(mesh: Mesh) -> None:
    mesh["A"].queue("full", "t", usage_bytes_max=1)
    mesh["B"].subscribe("b", "t")
    assert mesh.publish("A", plain("t", b"m"), qos=AT_LEAST_ONCE).refusal != ADMITTED
    assert mesh.sent == []


# --- Deliver-To-One ---


def test_a_local_client_of_the_worst_priority_comes_before_any_neighbor(mesh: Mesh) -> None:
    """Solace 3.2: only if no local client is prioritised, one neighbor is asked."""
    mesh["A"].subscribe("a", "t", "P4")
    mesh["B"].subscribe("b", "t", "P1")
    mesh.publish("A", to_one("t", b"1"))
    assert mesh.who_got(b"1") == ["A/a"]
    mesh["A"].away("a")
    mesh.publish("A", to_one("t", b"2"))
    assert mesh.who_got(b"2") == ["B/b"]


def test_neighbors_take_turns_and_each_gives_the_message_to_one_client(mesh: Mesh) -> None:
    for broker in "BC":
        mesh[broker].subscribe("one", "t")
        mesh[broker].subscribe("two", "t")
    mesh.publish("A", *[to_one("t", bytes([number])) for number in range(8)])
    who = [mesh.who_got(bytes([number])) for number in range(8)]
    assert Counter(name for [name] in who) == dict.fromkeys(["B/one", "B/two", "C/one", "C/two"], 2)


def test_deliver_always_subscriptions_get_it_on_every_broker(mesh: Mesh) -> None:
    mesh["A"].subscribe("a", "t", "DA")
    mesh["B"].subscribe("always", "t", "DA")
    mesh["B"].subscribe("b", "t", "P2")
    mesh["B"].queue("q", "t")
    mesh["C"].subscribe("monitor", "#")
    mesh.publish("A", to_one("t", b"1"))
    assert mesh.who_got(b"1") == ["A/a", "B/always", "B/b", "B/q", "C/monitor"]
    mesh["A"].subscribe("nearer", "t")
    mesh.publish("A", to_one("t", b"2"))
    assert mesh.who_got(b"2") == ["A/a", "A/nearer", "B/always", "B/q", "C/monitor"]


def test_a_neighbor_whose_clients_may_not_select_the_message_is_the_last_choice(mesh: Mesh) -> None:
    mesh["B"].subscribe("b", "t", "P1", selector="JMSPriority > 4")
    mesh["C"].subscribe("c", "t", "P4")
    mesh.publish("A", to_one("t", b"m"))
    assert mesh.who_got(b"m") == ["C/c"]


def test_a_message_for_one_that_finds_nobody_is_never_sent_on(mesh: Mesh) -> None:
    mesh["B"].subscribe("b", "t")
    mesh["C"].subscribe("c", "t", "P2")
    mesh["B"].clients["b"].address = None  # its broker still offers it
    mesh.publish("A", to_one("t", b"m"))
    assert mesh.who_got(b"m") == []
    assert mesh["B"].space.arrived_unmatched_count == 1


def test_a_client_gets_one_copy_by_its_turn_and_a_deliver_always_subscription(mesh: Mesh) -> None:
    mesh["B"].subscribe("b", "t", "P1", "DA")
    mesh["B"].subscribe("b", "u")
    mesh.publish("A", to_one("t", b"1"), plain("u", b"2"))
    assert mesh["B"].payloads("b") == [b"1", b"2"]


def test_a_queue_that_takes_turns_at_a_neighbor_is_one_of_its_clients(mesh: Mesh) -> None:
    """A queue that is the subscription of one client, as AMQP's are."""
    queue = mesh["B"].queue("q", "t")
    mesh["B"].space.share_out(queue, mesh["B"].client("durable"), ())
    mesh["B"].subscribe("b", "t")
    mesh["B"].clients["b"].address = None
    mesh.publish("A", to_one("t", b"1"))
    mesh.publish("A", plain("t", b"2"))
    mesh["A"].subscribe("a", "t")
    mesh.publish("A", to_one("t", b"3"))
    assert (mesh.who_got(b"1"), mesh.who_got(b"2"), mesh.who_got(b"3")) == (["B/q"], ["B/q"], ["A/a"])


def test_a_client_that_is_away_is_no_candidate_where_another_broker_has_one(mesh: Mesh) -> None:
    mesh["B"].subscribe("b", "t", "P1", qos=1)
    mesh["C"].subscribe("c", "t", "P4")
    mesh["B"].away("b")
    mesh.publish("A", to_one("t", b"1"))
    mesh["B"].back("b")
    mesh.publish("A", to_one("t", b"2"))
    assert (mesh.who_got(b"1"), mesh.who_got(b"2")) == (["C/c"], ["B/b"])


def test_ordinary_messages_and_those_for_one_stay_in_order(mesh: Mesh) -> None:
    mesh["B"].subscribe("b", "t")
    mesh.publish("A", plain("t", b"1"), to_one("t", b"2"), plain("t", b"3"), to_one("t", b"4"))
    assert mesh["B"].payloads("b") == [b"1", b"2", b"3", b"4"]


# --- shared groups ---


def test_a_shared_group_has_local_members_first(mesh: Mesh) -> None:
    mesh["A"].join("a", "g", "t")
    mesh["B"].join("b", "g", "t")
    mesh.publish("A", plain("t", b"1"))
    assert mesh.who_got(b"1") == ["A/a"]
    assert mesh.sent == []
    mesh["A"].away("a")
    mesh.publish("A", plain("t", b"2"))
    assert mesh.who_got(b"2") == ["B/b"]


def test_neighbors_with_members_take_turns(mesh: Mesh) -> None:
    for broker in "BC":
        mesh[broker].join("one", "g", "t")
    mesh.publish("A", *[plain("t", bytes([number])) for number in range(10)])
    assert len(mesh["B"].payloads("one")) == len(mesh["C"].payloads("one")) == 5
    assert len(mesh.sent) == 2


def test_a_neighbor_whose_members_are_away_has_no_turn_while_others_are_there(mesh: Mesh) -> None:
    for broker in "BC":
        mesh[broker].join("member", "g", "t")
    mesh["B"].away("member")
    mesh.publish("A", *[plain("t", bytes([number])) for number in range(4)])
    assert len(mesh["C"].payloads("member")) == 4
    mesh["B"].back("member")
    mesh.publish("A", *[plain("t", bytes([number])) for number in range(4, 8)])
    assert (len(mesh["B"].payloads("member")), len(mesh["C"].payloads("member"))) == (2, 6)


def test_groups_of_one_name_and_other_filters_are_other_groups(mesh: Mesh) -> None:
    mesh["A"].join("a", "g", "t")
    mesh["B"].join("b", "g", "+")
    mesh["C"].join("c", "g", "+")
    mesh.publish("A", plain("t", b"m"))
    got = mesh.who_got(b"m")
    assert got[0] == "A/a"
    assert got[1:] in (["B/b"], ["C/c"])


def test_a_client_beside_a_group_gets_its_messages_in_order(mesh: Mesh) -> None:
    """The members of both brokers take turns, and the subscriber gets all."""
    for broker in "BC":
        mesh[broker].join("member", "g", "t")
    mesh["B"].subscribe("b", "t")
    rows = [plain("t", bytes([number])) for number in range(6)]
    mesh.publish("A", *rows)
    assert mesh["B"].payloads("b") == [payload for _, payload, _ in rows]
    assert len(mesh["B"].payloads("member")) == len(mesh["C"].payloads("member")) == 3


# --- virtual and composite destinations ---


def forwards(mesh: Mesh, broker: str, *, forward_only: bool) -> None:
    """Define a composite topic `t` that forwards to the topic `copy`."""
    to_copy = (ForwardTarget(TOPIC, "copy"),)
    composite = CompositeDestination((), TOPIC, NamePattern("t"), to_copy, forward_only=forward_only)
    space = mesh[broker].space
    space.expand_with(VirtualRoutes(space, VirtualDestinations((), (composite,)), Selectors({})))


@pytest.mark.parametrize(("forward_only", "original"), [(True, 0), (False, 1)])
def test_a_definition_forwards_at_the_broker_of_the_publisher(mesh: Mesh, forward_only: bool, original: int) -> None:
    forwards(mesh, "A", forward_only=forward_only)
    mesh["B"].subscribe("own", "t")
    mesh["B"].subscribe("copies", "copy")
    mesh.publish("A", plain("t", b"m"))
    assert len(mesh["B"].payloads("own")) == original
    assert len(mesh["B"].payloads("copies")) == 1


def test_what_comes_over_a_link_is_not_forwarded_again(mesh: Mesh) -> None:
    """Both brokers have the definition: the copy is made once, and reaches the subscribers of both."""
    for broker in "AB":
        forwards(mesh, broker, forward_only=False)
        mesh[broker].subscribe("copies", "copy")
        mesh[broker].subscribe("own", "t")
    mesh.publish("A", plain("t", b"m"))
    assert mesh.who_got(b"m") == ["A/copies", "A/own", "B/copies", "B/own"]
    mesh["B"].unsubscribe("own", "t")  # the route of what arrives is resolved anew
    mesh.publish("A", plain("t", b"n"))
    assert mesh.who_got(b"n") == ["A/copies", "A/own", "B/copies"]


# --- a model ---

FILTERS = ["t", "u", "+", "t/#", "#", "x/y"]
TOPICS = ["t", "u", "x/y"]
PRIORITIES = [(), ("P1",), ("P2",), ("P4",), ("DA",), ("P3", "DA")]

Steps = list[tuple[str, str, str, str, tuple[str, ...]]]

steps = st.lists(
    st.tuples(
        st.sampled_from(["subscribe", "subscribe", "subscribe durably", "unsubscribe", "join", "leave", "queue"]),
        st.sampled_from("ABC"),
        st.sampled_from("123"),
        st.sampled_from(FILTERS),
        st.sampled_from(PRIORITIES),
    ),
    max_size=25,
)
batches = st.lists(
    st.tuples(
        st.sampled_from("ABC"), st.lists(st.tuples(st.sampled_from(TOPICS), st.booleans()), min_size=1, max_size=6)
    ),
    min_size=1,
    max_size=4,
)


class Model:
    """All subscriptions of the network, in tables that are scanned for each message."""

    def __init__(self) -> None:
        self.clients: dict[tuple[str, str], tuple[str, ...]] = {}  # (BROKER/NAME, filter) -> priorities
        self.members: dict[tuple[str, str], set[str]] = {}  # (broker, filter) -> members of the group there
        self.queues: dict[str, str] = {}  # BROKER/NAME -> filter

    def check(self, at: str, topic: str, asks: bool, got: list[str]) -> None:
        """Assert that a message went where it had to."""
        counts = Counter(got)
        always, best = self._clients(topic)
        queues = {name for name, text in self.queues.items() if matches(mqtt(text), topic)}
        expected: Counter[str] = Counter(always | queues if asks else always | set(best) | queues)
        found_in_groups = self._check_groups(at, topic, counts - expected if not asks else counts, asks)
        rest = counts - expected - found_in_groups
        assert not expected - counts, f"{expected - counts} are missing in {got}"
        if not asks:
            assert not rest, f"{rest} are too many in {got}"
            return
        candidates = self._candidates(at, best)
        if not candidates:
            assert not rest, f"{rest} are too many in {got}"
        elif rest:
            assert rest.total() == 1
            assert set(rest) <= candidates
        else:
            assert candidates & always, f"none of {candidates} got it"

    def _clients(self, topic: str) -> tuple[set[str], dict[str, int]]:
        always: set[str] = set()
        best: dict[str, int] = {}
        for (name, text), priorities in self.clients.items():
            if not matches(mqtt(text), topic):
                continue
            for priority in ("DA",) if text == "#" else priorities or ("P1",):
                if priority == "DA":
                    always.add(name)
                else:
                    best[name] = min(best.get(name, 9), int(priority[1]))
        return always, best

    def _candidates(self, at: str, best: dict[str, int]) -> set[str]:
        """Return those of whom one gets a Deliver-To-One message, nearest first."""
        local = {name: priority for name, priority in best.items() if name.startswith(at)}
        asked = local or best
        return {name for name, priority in asked.items() if priority == min(asked.values())}

    def _check_groups(self, at: str, topic: str, extra: Counter[str], asks: bool) -> Counter[str]:
        """Assert that each group got one copy; return the copies. Members are named apart from other clients."""
        found: Counter[str] = Counter()
        for text in FILTERS:
            brokers = {broker for broker in "ABC" if self.members.get((broker, text))}
            if not brokers or not matches(mqtt(text), topic):
                continue
            allowed = {at} if at in brokers else brokers
            members = {member for broker in allowed for member in self.members[broker, text]}
            got = {name: count for name, count in extra.items() if name in members}
            everybody = {member for broker in brokers for member in self.members[broker, text]}
            assert sum(count for name, count in extra.items() if name in everybody) == 1
            assert sum(got.values()) == 1, f"{extra} for {members}"
            found.update(got)
        return found


def take(mesh: Mesh, model: Model, step: tuple[str, str, str, str, tuple[str, ...]]) -> None:
    """Carry out a step on both."""
    verb, broker, number, text, priorities = step
    name, member = f"client{number}", f"{text} member{number}"
    members = model.members.setdefault((broker, text), set())
    if verb.startswith("subscribe"):
        mesh[broker].subscribe(name, text, *priorities, qos=int(verb == "subscribe durably"))
        model.clients[f"{broker}/{name}", text] = priorities
    elif verb == "unsubscribe":
        mesh[broker].unsubscribe(name, text)
        model.clients.pop((f"{broker}/{name}", text), None)
    elif verb == "queue" and f"{broker}/q{number}" not in model.queues:
        mesh[broker].queue(f"q{number}", text)
        model.queues[f"{broker}/q{number}"] = text
    elif verb == "join":
        mesh[broker].join(member, "g", text)
        members.add(f"{broker}/{member}")
    elif verb == "leave" and f"{broker}/{member}" in members:
        mesh[broker].leave(member, "g", text)
        members.discard(f"{broker}/{member}")


@settings(max_examples=examples(300), deadline=None)
@given(before=steps, first=batches, between=steps, second=batches)
def test_each_message_goes_where_a_scan_of_all_subscriptions_says(
    before: Steps,
    first: list[tuple[str, list[tuple[str, bool]]]],
    between: Steps,
    second: list[tuple[str, list[tuple[str, bool]]]],
) -> None:
    """Goal: no mix of subscriptions on three brokers doubles or loses a copy, and none is sent to a broker in vain."""
    model = Model()
    number = 0
    with lone_runtime() as runtime:
        mesh = Mesh(runtime)
        for changes, published in ((before, first), (between, second)):
            for step in changes:
                take(mesh, model, step)
            for at, rows in published:
                sent_before = len(mesh.sent)
                payloads = [b"%d" % (number + place) for place in range(len(rows))]
                number += len(rows)
                mesh.publish(
                    at, *[(topic, payload, asks) for (topic, asks), payload in zip(rows, payloads, strict=True)]
                )
                for (topic, asks), payload in zip(rows, payloads, strict=True):
                    model.check(at, topic, asks, mesh.who_got(payload))
                plain_sends = [each.target for each in mesh.sent[sent_before:] if each.targets == SUBSCRIBERS]
                if not any(asks for _, asks in rows) and not any(model.members.values()):
                    assert len(plain_sends) == len(set(plain_sends)), "one batch for each neighbor"
        for broker in mesh.brokers.values():
            assert broker.space.arrived_unmatched_count == 0, "sent to a broker without a match"
            if broker.space.neighbors is not None:
                broker.space.neighbors.check()
