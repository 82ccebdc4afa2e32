"""Topic aliases towards a client: which topics get them, and the packets they are in [3.3.2-10] [3.3.2-11]."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import support.mqtt.packets as mqtt
from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.mqtt.datapath.direct import send_direct
from sluicegate.protocols.mqtt.engine.publish_writer import encode_at_most_once
from sluicegate.protocols.mqtt.engine.topic_aliases import (
    CANDIDATES_PER_ALIAS,
    CHARACTERS_MAX,
    NO_ALIAS,
    USES_MAX,
    TopicAliases,
)
from sluicegate.protocols.mqtt.session.session import Session
from sluicegate.protocols.mqtt.session.subscriptions import GrantedSubscription
from support.mqtt.conversation import Conversation, connected

ALIAS = 35  # the property


def sends(aliases: TopicAliases, topic: str, count: int = 1) -> int:
    """Send messages of a topic; return the alias that they have."""
    alias = aliases.alias_of(topic, count)
    if alias == NO_ALIAS:
        alias = aliases.offer(topic, count)
        if alias != NO_ALIAS:
            aliases.set(topic, alias, count)
    return alias


# --- the choice ---


def test_the_first_topics_get_the_free_aliases() -> None:
    aliases = TopicAliases(2)
    assert [sends(aliases, topic) for topic in ("first", "second", "first", "third")] == [1, 2, 1, NO_ALIAS]


def test_a_topic_that_comes_more_than_twice_as_often_takes_the_place_of_the_least_used() -> None:
    aliases = TopicAliases(2)
    sends(aliases, "often", 5)
    sends(aliases, "seldom", 2)
    assert [sends(aliases, "newer") for _ in range(6)] == [NO_ALIAS] * 4 + [2, 2]
    assert aliases.alias_of("seldom", 1) == NO_ALIAS
    aliases.check()


def test_topics_that_come_once_do_not_displace_others() -> None:
    aliases = TopicAliases(2)
    sends(aliases, "first", 2)
    sends(aliases, "second", 2)
    assert {sends(aliases, f"once/{number}") for number in range(1000)} == {NO_ALIAS}
    aliases.check()


def test_topics_of_the_past_give_way() -> None:
    aliases = TopicAliases(1)
    for _ in range(100 * USES_MAX):
        sends(aliases, "past")
    assert any(sends(aliases, "present") for _ in range(3 * USES_MAX))


@pytest.mark.parametrize("topic", ["t", "a/b", "a" * (CHARACTERS_MAX + 1)])
def test_a_topic_that_an_alias_does_not_pay_for_gets_none(topic: str) -> None:
    """Three bytes are the property's own; the longest topics would take memory."""
    aliases = TopicAliases(2)
    assert {sends(aliases, topic) for _ in range(10)} == {NO_ALIAS}


def test_frequent_topics_have_the_aliases_in_the_end() -> None:
    """Half of all messages are on ten of a thousand topics, which begin late."""
    aliases, rng = TopicAliases(16), Random(1)
    for number in range(1000):
        sends(aliases, f"rare/{number}")
    for _ in range(20_000):
        sends(aliases, f"frequent/{rng.randrange(10)}" if rng.random() < 0.5 else f"rare/{rng.randrange(1000)}")
    assert all(aliases.alias_of(f"frequent/{number}", 0) for number in range(10))
    aliases.check()


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 40), st.integers(1, 300)), max_size=200))
def test_memory_is_bounded_and_a_client_knows_what_is_used(count_max: int, sent: list[tuple[int, int]]) -> None:
    aliases = TopicAliases(count_max)
    known: dict[int, str] = {}
    for number, count in sent:
        topic = f"topic/{number}"
        alias = aliases.alias_of(topic, count)
        if alias != NO_ALIAS:
            assert known[alias] == topic
        elif (alias := aliases.offer(topic, count)) != NO_ALIAS:
            assert 1 <= alias <= count_max
            known[alias] = topic
            aliases.set(topic, alias, count)
        aliases.check()
    assert CANDIDATES_PER_ALIAS * count_max < 40


# --- direct messages ---


def topic_batch(topic: str, *payloads: bytes, topics: list[str] | None = None) -> MessageBatch:
    return MessageBatch(
        topic=topic, topics=topics, payloads=list(payloads), headers=None, qos=0, retain=False, publisher="p",
        received_ms=1, payload_bytes=sum([len(payload) for payload in payloads]),
    )  # fmt: skip


class Subscriber:
    """A client with one subscription at QoS 0, and what it is sent directly."""

    def __init__(self, maximum: int, *, level: int = 5, more: bytes = b"", options: int = 0) -> None:
        properties = (mqtt.topic_alias_maximum(maximum) if maximum else b"") + more
        self.conversation: Conversation = connected(level, properties=properties if level == 5 else b"")
        self.session = Session("c1", expiry_s=0)
        granted = GrantedSubscription(parse_filter("#", Syntax.MQTT), 0, False, False, 0, options, None)
        self.session.grant("#", granted)
        self.counters = ProtocolCounters()

    def gets(self, batch: MessageBatch) -> bytes:
        send_direct(self.conversation.engine, self.session, self.counters, batch, SystemClock())
        return self.conversation.said()


def told(data: bytes) -> list[tuple[str, list[object], bytes]]:
    return [(each.topic, list(each.values(ALIAS)), each.payload) for each in mqtt.all_published(data, 5)]


def test_direct_messages_have_aliases() -> None:
    client = Subscriber(1)
    batch = topic_batch("", b"one", b"two", b"three", topics=["topic/a", "topic/b", "topic/a"])
    assert told(client.gets(batch)) == [("topic/a", [1], b"one"), ("topic/b", [], b"two"), ("", [1], b"three")]
    assert told(client.gets(topic_batch("t", b"four"))) == [("t", [], b"four")]
    assert client.counters.messages_sent == 4


def test_a_run_of_one_topic_sets_its_alias_in_the_first_packet() -> None:
    client = Subscriber(1)
    assert told(client.gets(topic_batch("topic/a", b"1", b"22"))) == [("topic/a", [1], b"1"), ("", [1], b"22")]
    assert told(client.gets(topic_batch("topic/a", b"3"))) == [("", [1], b"3")]
    assert told(client.gets(topic_batch("topic/b", b"4"))) == [("topic/b", [], b"4")]


def test_clients_with_the_same_alias_share_their_bytes() -> None:
    """And those without aliases the bytes that they shared before."""
    clients = [Subscriber(2) for _ in range(3)]
    plain = Subscriber(0)
    for client in clients:
        client.gets(topic_batch("topic/a", b"1"))
    batch = topic_batch("topic/a", b"2", b"3")
    first, *others = [client.gets(batch) for client in clients]
    assert all(each is first for each in others)
    assert plain.gets(batch) is encode_at_most_once(batch, 5, 0)
    assert len(first) < len(plain.gets(batch))


@pytest.mark.parametrize("level", [3, 4, 5])
def test_a_client_that_allows_no_aliases_gets_none(level: int) -> None:
    """[3.1.2-27]; nothing is made for it, either."""
    client = Subscriber(0, level=level)
    for number in range(3):
        batch = topic_batch("topic/a", b"%d" % number)
        assert client.gets(batch) is encode_at_most_once(batch, level, 0)


@pytest.mark.parametrize("client", [Subscriber(3, more=mqtt.maximum_packet_size(100)), Subscriber(3, options=7)])
def test_clients_with_limits_or_options_get_aliases_too(client: Subscriber) -> None:
    topics: list[str] = []
    for number in range(3):
        topics += [topic for topic, _, _ in told(client.gets(topic_batch("topic/a", b"%d" % number)))]
    assert topics == ["topic/a", "", ""]


@given(st.lists(st.lists(st.tuples(st.integers(0, 6), st.binary(max_size=5)), min_size=1, max_size=4), max_size=30))
def test_whatever_is_sent_arrives_under_its_topic(batches: list[list[tuple[int, bytes]]]) -> None:
    """Goal: the client, which knows only what it was told, has each message under its topic."""
    client = Subscriber(2)
    known: dict[object, str] = {}
    for rows in batches:
        topics = [f"topic/{number}" for number, _ in rows]
        differ = topics if len(set(topics)) > 1 else None
        batch = topic_batch(topics[0], *[payload for _, payload in rows], topics=differ)
        received = []
        for topic, aliases, payload in told(client.gets(batch)):
            if topic and aliases:
                known[aliases[0]] = topic
            received.append((topic or known[aliases[0]], payload))
        assert received == [(topic, payload) for topic, (_, payload) in zip(topics, rows, strict=True)]
