"""Deliver-To-One: who gets a message whose publisher wants one client to have it."""

import random
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.actors.messages.data import SharedDirect
from sluicegate.actors.publishing.publisher import Publisher
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.messaging.message.batch import AT_LEAST_ONCE, AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.queues.admission import QueueGate
from sluicegate.messaging.queues.pressure import Pressure
from sluicegate.messaging.routing.deliver_to_one import PriorityInvalid, priorities_of, priority_of, priority_text
from sluicegate.messaging.routing.destinations import (
    DELIVER_ALWAYS,
    PartitionTarget,
    QueueTarget,
    ShareGroup,
    Subscriber,
    Subscription,
)
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.messaging.topics.syntax import Syntax, TopicFilter, parse_filter
from support.cores.lone_actors import lone_runtime, turn

CASES = Path(__file__).parents[2] / "data" / "routing" / "deliver_to_one.txt"


def cases() -> list[tuple[str, list[str]]]:
    """Return title and steps of each case."""
    lines = [line for line in CASES.read_text().splitlines() if line and not line.startswith("#")]
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("== "):
            found.append((line[3:], []))
        else:
            found[-1][1].append(line)
    return found


def mqtt(text: str) -> TopicFilter:
    return parse_filter(text, Syntax.MQTT)


class Receiving(LoopActor):
    """Keeps the payloads that it is sent."""

    def __init__(self, cell: ActorCell, got: list[bytes]) -> None:
        super().__init__(cell)
        self.got = got

    def on_receive(self, message: object) -> None:
        batch = message.batch if isinstance(message, SharedDirect) else message
        if isinstance(batch, MessageBatch):
            self.got += batch.payloads()


class Clients:
    """Clients that subscribe and one that publishes, in one topic space."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.space = TopicSpace()
        self.known: dict[str, Subscriber] = {}
        self.got: dict[str, list[bytes]] = {}
        self._cells: dict[str, ActorCell] = {}
        spool = self._spawn("spool")
        self.publisher = Publisher(
            space=self.space, spool=spool.inbox, address=self._spawn("publisher").inbox, rng=random.Random(1)
        )
        self._numbers = count(1)

    def _spawn(self, name: str) -> ActorCell:
        got = self.got[name] = []
        return self.runtime.spawn(lambda cell: Receiving(cell, got), kind="test", name=name, policy=ONE_CONNECTION)

    def client(self, name: str) -> Subscriber:
        """Return a client, which is connected when it is first named."""
        known = self.known.get(name)
        if known is None:
            known = self.known[name] = Subscriber(name)
            self._cells[name] = self._spawn(name)
            known.address = self._cells[name].inbox
        return known

    def subscribe(self, name: str, text: str, *priorities: str, qos: int = 0, selector: str = "") -> None:
        client = self.client(name)
        if qos and client.queue is None:
            client.queue = self.queue()
        chosen = Selectors({}).compile(selector) if selector else None
        subscription = Subscription(client, qos, chosen, priorities_of(list(priorities)))
        self.space.subscribe(mqtt(text), name, subscription)

    def queue(self) -> QueueTarget:
        gate = QueueGate(None, usage_bytes_max=1 << 20, message_bytes_max=1 << 20)
        target = QueueTarget("q", gate, Pressure(high_bytes=1 << 20, low_bytes=0), durable=False)
        target.partitions.append(PartitionTarget(1, self._spawn(f"queue {len(self.got)}").inbox))
        return target

    def leave(self, name: str) -> None:
        self.known[name].address = None

    def come_back(self, name: str) -> None:
        self.known[name].address = self._cells[name].inbox

    def publish(self, *rows: tuple[str, bool], qos: int = AT_MOST_ONCE) -> list[list[str]]:
        """Publish one batch of rows (topic, to one); return who got each."""
        payloads = [b"%d" % next(self._numbers) for _ in rows]
        topics = [topic for topic, _ in rows]
        one_topic = len(set(topics)) == 1
        self.publisher.publish(
            MessageBatch(
                topic=topics[0] if one_topic else "",
                topics=None if one_topic else topics,
                payloads=payloads,
                headers=[Headers(deliver_to_one=True) if to_one else None for _, to_one in rows],
                qos=qos,
                retain=False,
                publisher="p",
                received_ms=0,
                payload_bytes=sum(map(len, payloads)),
            ),
            1,
        )
        turn(self.runtime)
        copies = [[name for name in self.known for got in self.got[name] if got == payload] for payload in payloads]
        return [sorted(names) for names in copies]


@pytest.fixture
def clients(runtime: Runtime) -> Clients:
    """Nobody yet."""
    return Clients(runtime)


def take_step(clients: Clients, words: list[str]) -> None:
    """Do what a line of a case says that is no publish."""
    name, verb, *rest = words
    if verb == "subscribes":
        qos = 1 if rest[-2:] == ["for", "guaranteed"] else 0
        clients.subscribe(
            name, rest[0], *(word for word in rest[1:] if word not in ("at", "for", "guaranteed")), qos=qos
        )
    elif verb == "unsubscribes":
        assert clients.space.unsubscribe(mqtt(rest[0]), name)
    elif verb == "is":
        clients.space.prioritise(clients.client(name), priority_of(rest[0]))
    elif verb == "leaves":
        clients.leave(name)
    else:
        assert verb == "returns", words
        clients.come_back(name)


@pytest.mark.parametrize(("title", "steps"), cases(), ids=lambda value: value if isinstance(value, str) else "")
def test_each_case_comes_out_as_written(clients: Clients, title: str, steps: list[str]) -> None:
    """Solace 3.2 and 13.2; in the data file."""
    for step in steps:
        if " ->" not in step:
            take_step(clients, step.split())
            continue
        what, _, expected = step.partition(" ->")
        qos = AT_LEAST_ONCE if "guaranteed" in what else AT_MOST_ONCE
        [got] = clients.publish((what.split()[-1], what.startswith("to one")), qos=qos)
        assert got == expected.split(), f"{title}: {step}"


@pytest.mark.parametrize(("topics", "last_two"), [(["t"] * 4, [["B"], ["A"]]), (["t", "t", "u", "t"], [["A"], ["B"]])])
def test_of_one_batch_each_message_goes_its_own_way(
    clients: Clients, topics: list[str], last_two: list[list[str]]
) -> None:
    """Rows with the flag and without; turns go by topic within a batch, and each client gets its rows in order."""
    for name in ("A", "B"):
        clients.subscribe(name, "+")
    asks = [True, False, True, True]
    assert clients.publish(*zip(topics, asks, strict=True)) == [["A"], ["A", "B"], *last_two]
    assert clients.got["A"] == sorted(clients.got["A"])
    assert clients.got["B"] == sorted(clients.got["B"])


def test_a_selector_that_does_not_select_the_message_takes_its_client_out(clients: Clients) -> None:
    clients.subscribe("A", "t", "P1", selector="JMSPriority > 4")
    clients.subscribe("B", "t", "P2")
    clients.subscribe("C", "t", "P2")
    assert [clients.publish(("t", True)) for _ in range(3)] == [[["B"]], [["C"]], [["B"]]]


def test_a_shared_group_and_a_queue_get_it_whatever_the_clients_priorities(clients: Clients) -> None:
    """Solace 2.5 leaves it open; decision 0016: a group is like a deliver-always client."""
    group = ShareGroup("g", "t")
    group.join(clients.client("M"))
    clients.space.subscribe(mqtt("t"), group, group)
    target = clients.queue()
    clients.space.subscribe(mqtt("t"), target, target)
    clients.subscribe("A", "t")
    clients.subscribe("B", "t")
    assert [clients.publish(("t", True)) for _ in range(2)] == [[["A", "M"]], [["B", "M"]]]
    assert target.gate.usage_count == 2


def test_messages_without_a_receiver_are_counted(clients: Clients) -> None:
    """Every silent discard is a counter; and nothing is kept for who comes back."""
    for name in ("A", "B"):
        clients.subscribe(name, "t")
        clients.leave(name)
    assert clients.publish(("t", True), ("t", True)) == [[], []]
    assert clients.space.offline_count == 2
    clients.come_back("A")
    assert clients.publish(("t", False)) == [["A"]]


SUBSCRIPTIONS = st.lists(
    st.tuples(
        st.sampled_from("ABCDE"),
        st.sampled_from(["t", "+", "t/#", "u", "#"]),
        st.sampled_from([(), ("P1",), ("P2",), ("P4",), ("DA",), ("P1", "DA"), ("P3", "DA")]),
    ),
    max_size=12,
)


@given(
    subscriptions=SUBSCRIPTIONS,
    away=st.sets(st.sampled_from("ABCDE"), max_size=3),
    rows=st.lists(st.tuples(st.sampled_from(["t", "u"]), st.booleans()), min_size=1, max_size=12),
)
def test_who_gets_a_message_is_what_the_rules_say(
    subscriptions: list[tuple[str, str, tuple[str, ...]]], away: set[str], rows: list[tuple[str, bool]]
) -> None:
    """Goal: no mix of subscriptions doubles or loses a copy. Method: a scan of all subscriptions for every message."""
    held: dict[tuple[str, str], tuple[int, ...]] = {}
    with lone_runtime() as runtime:
        clients = Clients(runtime)
        for name, text, priorities in subscriptions:
            clients.subscribe(name, text, *priorities)
            everything = text == "#"
            held[name, text] = (DELIVER_ALWAYS,) if everything else priorities_of(list(priorities)) or (1,)
        for name in away & clients.known.keys():
            clients.leave(name)
        who = clients.publish(*rows)
    reaches = {"t": {"t", "+", "t/#", "#"}, "u": {"u", "+", "#"}}
    turns: dict[tuple[str, ...], dict[str, int]] = {}
    for (topic, to_one), got in zip(rows, who, strict=True):
        roles: dict[str, set[int]] = {}
        for (name, text), its_priorities in held.items():
            if text in reaches[topic] and name not in away:
                roles.setdefault(name, set()).update(its_priorities)
        always = {name for name, its in roles.items() if DELIVER_ALWAYS in its}
        best = {name: min(its - {DELIVER_ALWAYS}) for name, its in roles.items() if its - {DELIVER_ALWAYS}}
        candidates = {name for name, its in best.items() if its == min(best.values())}
        assert len(got) == len(set(got)), "one copy at most"
        if not to_one:
            assert set(got) == set(roles)
            continue
        assert set(got) >= always
        assert len(set(got) - always) <= 1
        assert set(got) - always <= candidates
        if candidates and not candidates & always:
            assert len(set(got) - always) == 1, "exactly one of the best"
            turns.setdefault(tuple(sorted(candidates)), dict.fromkeys(candidates, 0))[(set(got) - always).pop()] += 1
    if len({topic for topic, _ in rows}) == 1:
        for its in turns.values():
            assert max(its.values()) - min(its.values()) <= 1, "the best take turns"


def test_priorities_are_read_as_operators_write_them() -> None:
    assert [priority_of(text) for text in ("P1", "p4", "DA", "da")] == [1, 4, DELIVER_ALWAYS, DELIVER_ALWAYS]
    assert [priority_text(each) for each in (1, 4, DELIVER_ALWAYS)] == ["P1", "P4", "DA"]
    assert priorities_of([]) == ()
    assert priorities_of(["DA", "p2"]) == (2, DELIVER_ALWAYS)
    with pytest.raises(
        PriorityInvalid, match=r"'P5' is not a Deliver-To-One priority; allowed: P1 \(the best\) to P4, or DA"
    ):
        priority_of("P5")
    with pytest.raises(PriorityInvalid, match="P2, P1 on one subscription; allowed: one of P1 to P4, and DA beside it"):
        priorities_of(["P1", "P2"])
