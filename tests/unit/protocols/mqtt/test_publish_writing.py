"""PUBLISH packets to a client: shared blocks and its own (mqtt sections 9, 14, 17; T025, T078 to T080, T085)."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.mqtt.codec.fixed_header import PUBACK
from sluicegate.protocols.mqtt.codec.reason_codes import LocalMisuse
from sluicegate.protocols.mqtt.engine.publish_run import PublishRun
from sluicegate.protocols.mqtt.engine.publish_writer import encode_at_most_once
from sluicegate.protocols.mqtt.session.subscriptions import DeliveryOptions
from support.mqtt.conversation import WALL_MS, Conversation, all_rows, connected
from support.thorough import examples

LEVELS = (3, 4, 5)


def batch_of(
    *payloads: bytes,
    topic: str = "t",
    topics: list[str] | None = None,
    headers: list[Headers | None] | None = None,
    qos: int = 1,
    retain: bool = False,
) -> MessageBatch:
    return MessageBatch(
        topic=topic if topics is None else "", topics=topics, payloads=list(payloads), headers=headers, qos=qos,
        retain=retain, publisher="p", received_ms=WALL_MS, payload_bytes=sum(map(len, payloads)),
    )  # fmt: skip


def publishes(
    conversation: Conversation,
    batch: MessageBatch,
    start: int = 0,
    stop: int | None = None,
    *,
    qos: int = 1,
    first_packet_id: int = 1,
    dup: bool = False,
    identifiers: list[int] | None = None,
    extra: list[tuple[str, str]] | None = None,
    wall_ms: int = WALL_MS,
) -> list[int]:
    options = DeliveryOptions(qos, batch.retain, identifiers)
    rows = PublishRun(batch, start, batch.count if stop is None else stop, qos, options, extra, wall_ms, None)
    return conversation.engine.publish(rows, first_packet_id, dup=dup)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_rows_are_written_in_order_with_ascending_ids(level: int, qos: int, retain: bool) -> None:
    batch = batch_of(b"a", b"bb", b"", b"cc", b"x" * 200, topics=["t", "t", "u/v", "u/v", "t"], retain=retain)
    conversation = connected(level)

    assert publishes(conversation, batch, 1, 5, qos=qos, first_packet_id=9) == []
    assert conversation.said() == b"".join(
        mqtt.publish(batch.topic_of(row), batch.payloads()[row], level=level, qos=qos, packet_id=8 + row, retain=retain)
        for row in range(1, 5)
    )


@pytest.mark.parametrize("level", LEVELS)
def test_dup_is_set_on_request(level: int) -> None:
    """[4.4.0-1]."""
    conversation = connected(level)
    publishes(conversation, batch_of(b"a"), dup=True, first_packet_id=65535)

    assert conversation.said() == mqtt.publish("t", b"a", level=level, qos=1, packet_id=65535, dup=True)


@pytest.mark.parametrize("level", LEVELS)
def test_the_shared_block_has_every_row_and_is_made_once(level: int) -> None:
    batch = batch_of(b"a", b"b", b"ccc", topics=["t", "u", "u"])
    block = encode_at_most_once(batch, level, WALL_MS)

    assert block == b"".join(mqtt.publish(batch.topic_of(row), batch.payloads()[row], level=level) for row in range(3))
    assert encode_at_most_once(batch, level, WALL_MS) is block


def test_3_1_and_3_1_1_share_a_block_and_5_0_does_not() -> None:
    batch = batch_of(b"a")

    assert encode_at_most_once(batch, 3, WALL_MS) is encode_at_most_once(batch, 4, WALL_MS)
    assert encode_at_most_once(batch, 5, WALL_MS) == mqtt.publish("t", b"a", level=5)


@pytest.mark.parametrize("published", LEVELS)
@pytest.mark.parametrize("consumed", LEVELS)
def test_subscribers_of_any_version_get_the_published_messages(published: int, consumed: int) -> None:
    """Section 17: between versions only the form changes."""
    sent = [(f"t/{n % 2}", b"x" * (n % 3)) for n in range(20)]
    data = b"".join(mqtt.publish(topic, payload, level=published) for topic, payload in sent)
    (event,) = connected(published).hears(data)
    batch = event.batch  # type: ignore[union-attr]  # one run of QoS 0

    received = mqtt.all_published(encode_at_most_once(batch, consumed, WALL_MS), consumed)
    assert [(each.topic, each.payload) for each in received] == sent


def test_properties_of_a_5_0_publisher_reach_5_0_unaltered_and_3_x_not_at_all() -> None:
    """T078, T080 [3.3.2-4] [3.3.2-15 to 20]."""
    carried = (
        mqtt.user_property("k", "1") + mqtt.content_type("x") + mqtt.user_property("k", "2")
        + mqtt.correlation_data(b"\0") + mqtt.response_topic("r") + mqtt.payload_format(1)
        + mqtt.user_property("j", "3")
    )  # fmt: skip
    (event,) = connected(5).hears(
        mqtt.publish("t", b"p", level=5, qos=1, properties=mqtt.topic_alias(2) + mqtt.message_expiry(10) + carried)
    )
    batch = event.batch  # type: ignore[union-attr]  # one message
    five, three = connected(5), connected(4)
    publishes(five, batch, wall_ms=WALL_MS + 3_500)
    publishes(three, batch, wall_ms=WALL_MS + 3_500)

    expected = mqtt.message_expiry(7) + carried  # 10 less the whole seconds waited [3.3.2-6]
    assert five.said() == mqtt.publish("t", b"p", level=5, qos=1, properties=expected)
    assert three.said() == mqtt.publish("t", b"p", qos=1)
    block = encode_at_most_once(batch, 5, WALL_MS + 20_000)
    assert mqtt.all_published(block, 5)[0].values(2) == [0]  # never below 0 [3.3.2-6]
    assert encode_at_most_once(batch, 5, WALL_MS) != block  # what has an expiry is not kept


def test_headers_of_another_protocol_are_written_by_the_cross_protocol_table() -> None:
    """What MQTT has no place for becomes a User Property; what no string can hold is left out."""
    headers = Headers(
        partition_key="key", key_hash=1, priority=7, payload_is_text=True, content_type="text/plain",
        correlation=b"\0\xff", reply_to="#q/orders", message_id="m-1", timestamp_ms=5,
        user_properties=[("s", "x"), ("b", True), ("i", -3), ("f", 0.5), ("raw", b"\0"), ("n", None), ("z", "\0")],
    )  # fmt: skip
    conversation = connected(5)
    publishes(conversation, batch_of(b"p", headers=[headers]))

    (received,) = mqtt.all_published(conversation.said(), 5)
    assert received.properties == [
        (1, 1), (3, "text/plain"), (8, "$queue/orders"), (9, b"\0\xff"), (38, ("s", "x")), (38, ("b", "true")),
        (38, ("i", "-3")), (38, ("f", "0.5")), (38, ("raw", "AA==")), (38, ("JMSXGroupID", "key")),
        (38, ("priority", "7")), (38, ("message-id", "m-1")), (38, ("timestamp", "5")),
    ]  # fmt: skip


def test_a_property_the_publisher_named_itself_is_not_written_twice() -> None:
    headers = Headers(partition_key="key", key_hash=1, user_properties=[("JMSXGroupID", "key")])
    block = encode_at_most_once(batch_of(b"p", headers=[headers]), 5, WALL_MS)

    assert mqtt.all_published(block, 5)[0].properties == [(38, ("JMSXGroupID", "key"))]


@pytest.mark.parametrize("reply_to", ["a/#", "", "a\0b"])
def test_a_reply_address_that_is_no_topic_is_left_out(reply_to: str) -> None:
    """[3.3.2-14]."""
    block = encode_at_most_once(batch_of(b"p", headers=[Headers(reply_to=reply_to)]), 5, WALL_MS)

    assert mqtt.all_published(block, 5)[0].properties == []


def test_rows_without_headers_keep_an_empty_section_beside_others() -> None:
    headers = Headers(content_type="x")
    block = encode_at_most_once(batch_of(b"a", b"b", b"c", headers=[None, headers, None]), 5, WALL_MS)

    assert [each.properties for each in mqtt.all_published(block, 5)] == [[], [(3, "x")], []]


def test_subscription_identifiers_and_extra_properties_are_the_subscribers_own() -> None:
    """[3.3.4-4]; in 3.x they do not exist."""
    five, three = connected(5), connected(4)
    for each in (five, three):
        publishes(each, batch_of(b"a", b"b"), qos=0, identifiers=[7, 300], extra=[("k", "v")])

    for received in mqtt.all_published(five.said(), 5):
        assert received.properties == [(11, 7), (11, 300), (38, ("k", "v"))]
    assert three.said() == mqtt.publish("t", b"a") + mqtt.publish("t", b"b")


@pytest.mark.parametrize("with_properties", [False, True])
@pytest.mark.parametrize("qos", [0, 1])
def test_rows_larger_than_the_client_takes_are_skipped_with_their_ids(with_properties: bool, qos: int) -> None:
    """T025 [3.1.2-24] [3.1.2-25]."""
    identifiers = [7] if with_properties else None
    fits = b"x" * (40 - len(mqtt.publish("t", b"", level=5, qos=qos)) - (2 if with_properties else 0))
    conversation = connected(5, properties=mqtt.maximum_packet_size(40))
    assert conversation.engine.restricts_output
    batch = batch_of(fits, fits + b"y", b"", b"z" * 1000, fits)

    assert publishes(conversation, batch, qos=qos, first_packet_id=5, identifiers=identifiers) == [1, 3]
    packets = mqtt.all_published(conversation.said(), 5)
    assert [each.payload for each in packets] == [fits, b"", fits]
    assert [each.packet_id for each in packets] == ([5, 7, 9] if qos else [0, 0, 0])


@pytest.mark.parametrize("maximum", [0, 3])
def test_aliases_stay_within_the_clients_maximum_and_come_with_their_topic_first(maximum: int) -> None:
    """T085 [3.1.2-26] [3.3.2-11]."""
    conversation = connected(5, properties=mqtt.topic_alias_maximum(maximum))
    topics = [f"topic/{n % 5}" for n in range(20)]
    publishes(conversation, batch_of(*[b"p"] * 20, topics=topics))

    known: dict[int, str] = {}
    for topic, received in zip(topics, mqtt.all_published(conversation.said(), 5), strict=True):
        for alias in received.values(35):
            assert isinstance(alias, int)
            assert 1 <= alias <= maximum
            if received.topic:
                known[alias] = received.topic
        assert (received.topic or known[received.values(35)[0]]) == topic  # type: ignore[index]  # an int
    assert len(known) == maximum


def test_an_alias_whose_first_packet_was_skipped_is_not_used() -> None:
    """[3.3.2-11]: the client would not know it."""
    properties = mqtt.topic_alias_maximum(1) + mqtt.maximum_packet_size(30)
    conversation = connected(5, properties=properties)

    assert publishes(conversation, batch_of(b"x" * 50, b"y", topics=["topic"] * 2)) == [0]
    (received,) = mqtt.all_published(conversation.said(), 5)
    assert (received.topic, received.values(35)) == ("topic", [1])


@given(st.lists(st.tuples(st.sampled_from(["a", "b/c", "é"]), st.binary(max_size=200)), min_size=1, max_size=30),
       st.sampled_from(LEVELS), st.sampled_from([0, 1, 2]), st.integers(0, 3))  # fmt: skip
def test_written_packets_are_read_back(rows: list[tuple[str, bytes]], level: int, qos: int, aliases: int) -> None:
    """Goal: writer and reader agree. Method: write any rows for a client, read them as a client's packets."""
    properties = mqtt.topic_alias_maximum(aliases) if level == 5 else b""
    sender, receiver = connected(level, properties=properties), connected(level)
    batch = batch_of(*[payload for _, payload in rows], topics=[topic for topic, _ in rows])
    publishes(sender, batch, qos=qos, first_packet_id=100)

    received = all_rows(receiver.hears(sender.said()))
    assert [(row.fields[2], row.fields[3]) for row in received] == rows
    assert [row.fields[4] for row in received] == [100 + n if qos else 0 for n in range(len(rows))]


SHARED_HEADERS = (None, Headers(content_type="x"), Headers(expires_at_ms=WALL_MS + 5_000))


@settings(max_examples=examples(150))
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(["a", "long/topic", "other/topic", "third/topic"]), st.integers(0, 2),
                  st.sampled_from([b"", b"a", b"b", b"c" * 60])),
        min_size=1, max_size=20,
    ),
    level=st.sampled_from(LEVELS),
    qos=st.integers(0, 2),
    packet_bytes_max=st.sampled_from([0, 50]),
    identifiers=st.sampled_from([None, [7]]),
)  # fmt: skip
def test_rows_that_are_written_together_are_those_written_one_by_one(
    rows: list[tuple[str, int, bytes]],
    level: int,
    qos: int,
    packet_bytes_max: int,
    identifiers: list[int] | None,
) -> None:
    """Goal: what rows share is shared where it is right only. Method: write them in a batch, and each in its own."""
    properties = mqtt.maximum_packet_size(packet_bytes_max) if level == 5 and packet_bytes_max else b""
    together, single = connected(level, properties=properties), connected(level, properties=properties)
    topics, payloads = [topic for topic, _, _ in rows], [payload for _, _, payload in rows]
    headers = [SHARED_HEADERS[which] for _, which, _ in rows]
    shared = batch_of(*payloads, topics=topics, headers=headers)
    skipped = publishes(together, shared, qos=qos, first_packet_id=9, identifiers=identifiers)
    skipped_alone: list[int] = []
    blocks: list[bytes] = []
    for row, (topic, which, payload) in enumerate(rows):
        batch = batch_of(payload, topic=topic, headers=[SHARED_HEADERS[which]])
        if publishes(single, batch, qos=qos, first_packet_id=9 + row, identifiers=identifiers):
            skipped_alone.append(row)
        blocks.append(encode_at_most_once(batch, level, WALL_MS))
    assert (together.said(), skipped) == (single.said(), skipped_alone)
    assert encode_at_most_once(shared, level, WALL_MS) == b"".join(blocks)


@given(
    batches=st.lists(
        st.lists(st.tuples(st.sampled_from(["a", "long/topic", "other/topic", "third/topic"]), st.integers(0, 2)),
                 min_size=1, max_size=8),
        min_size=1, max_size=5,
    ),
    aliases=st.integers(1, 2),
    packet_bytes_max=st.sampled_from([0, 36]),
)  # fmt: skip
def test_a_client_that_takes_aliases_reads_the_topics_and_properties_that_were_sent(
    batches: list[list[tuple[str, int]]], aliases: int, packet_bytes_max: int
) -> None:
    """Goal: an alias means what its client was told last. Method: read all packets as the client does [3.3.2-12]."""
    limit = mqtt.maximum_packet_size(packet_bytes_max) if packet_bytes_max else b""
    conversation = connected(5, properties=mqtt.topic_alias_maximum(aliases) + limit)
    aliased: dict[int, str] = {}
    for rows in batches:
        headers = [SHARED_HEADERS[which] for _, which in rows]
        batch = batch_of(*[b"payload"] * len(rows), topics=[topic for topic, _ in rows], headers=headers)
        skipped = publishes(conversation, batch, identifiers=[7])
        received = mqtt.all_published(conversation.said(), 5)
        assert len(received) + len(skipped) == len(rows)
        for row, packet in zip([row for row in range(len(rows)) if row not in skipped], received, strict=True):
            topic, which = rows[row]
            for alias in packet.values(35):
                assert isinstance(alias, int)
                if packet.topic:
                    aliased[alias] = packet.topic
            assert (packet.topic or aliased[packet.values(35)[0]]) == topic  # type: ignore[index]  # an int
            assert packet.values(3) == (["x"] if which == 1 else [])
            assert packet.packet_id == 1 + row


@pytest.mark.parametrize(
    "mistake",
    [
        {"qos": 0, "dup": True}, {"qos": 3}, {"first_packet_id": 0}, {"first_packet_id": 65535}, {"start": -1},
        {"stop": 3}, {"start": 2, "stop": 1},
    ],
)  # fmt: skip
def test_a_publish_that_must_not_be_sent_is_our_mistake(mistake: dict[str, int]) -> None:
    with pytest.raises(LocalMisuse):
        publishes(connected(), batch_of(b"a", b"b"), **mistake)  # type: ignore[arg-type]  # a table of arguments


class Alone(NamedTuple):
    """A message that is sent by itself, and how."""

    topic: str
    payload: bytes
    qos: int
    retain: bool = False
    dup: bool = False
    identifiers: list[int] | None = None
    extra: list[tuple[str, str]] | None = None
    headers: Headers | None = None

    def neighbours(self) -> "list[Alone]":
        """Return messages that differ from this one in one thing each, and this one as often as all of them."""
        others = [
            self._replace(topic="u/v"),
            self._replace(payload=bytes(len(self.payload))),
            self._replace(payload=self.payload + b"x"),
            self._replace(qos=(self.qos + 1) % 3),
            self._replace(retain=True),
            self._replace(dup=True),
            self._replace(identifiers=[7]),
            self._replace(extra=[("k", "v")]),
            self._replace(headers=Headers(priority=3)),
        ]
        return [self] * len(others) + others

    def goes_to(self, conversation: Conversation, packet_id: int, *, of_several: bool) -> tuple[int, bytes]:
        """Have it sent; return how many rows were too large, and what was written."""
        topics, payloads = ([self.topic] * 2, [b"x", self.payload]) if of_several else (None, [self.payload])
        headers: list[Headers | None] | None = None if self.headers is None else [self.headers] * len(payloads)
        skipped = publishes(
            conversation,
            batch_of(*payloads, topic=self.topic, topics=topics, headers=headers, retain=self.retain),
            len(payloads) - 1,
            qos=self.qos,
            first_packet_id=packet_id,
            dup=self.dup and self.qos > 0,
            identifiers=self.identifiers,
            extra=self.extra,
        )
        return len(skipped), conversation.said()


@settings(max_examples=examples(150))
@given(
    payload=st.sampled_from([b"", b"a", b"c" * 60, b"d" * 4096, b"e" * 4097]),
    qos=st.integers(0, 2),
    places=st.lists(st.integers(0, 17), max_size=20),
    level=st.sampled_from([4, 5]),
    packet_bytes_max=st.sampled_from([0, 50]),
)
def test_messages_that_come_alone_go_out_as_from_a_connection_that_has_sent_nothing_before(
    payload: bytes, qos: int, places: list[int], level: int, packet_bytes_max: int
) -> None:
    """Goal: a head is used again only where it is right. Method: each message to a fresh connection too, compare."""
    properties = mqtt.maximum_packet_size(packet_bytes_max) if level == 5 and packet_bytes_max else b""
    one, messages = connected(level, properties=properties), Alone("t", payload, qos).neighbours()
    for packet_id, place in enumerate(places, 65_510):
        fresh, message = connected(level, properties=properties), messages[place]
        assert message.goes_to(one, packet_id, of_several=False) == message.goes_to(fresh, packet_id, of_several=True)


def test_a_packet_id_that_there_is_not_is_our_mistake_behind_others_too() -> None:
    conversation = connected()
    publishes(conversation, batch_of(b"a"), first_packet_id=65_535)
    for packet_id in (0, 65_536):
        with pytest.raises(LocalMisuse):
            publishes(conversation, batch_of(b"a"), first_packet_id=packet_id)


def test_output_of_one_client_goes_to_no_other() -> None:
    """Engines that write one piece at a time have their empty list of pieces in common."""
    one, other = connected(), connected()
    for packet_id in (1, 2):
        one.engine.acknowledge(PUBACK, packet_id, packet_id)
    assert (one.said(), other.said()) == (mqtt.puback(1) + mqtt.puback(2), b"")
    one.engine.acknowledge(PUBACK, 3, 3)
    other.engine.acknowledge(PUBACK, 4, 4)
    assert (one.said(), other.said()) == (mqtt.puback(3), mqtt.puback(4))


def test_one_packet_is_taken_as_it_is_and_several_in_their_order() -> None:
    conversation = connected()
    engine = conversation.engine
    assert engine.take_only() == b""
    engine.acknowledge(PUBACK, 1, 1)
    assert (engine.take_only(), engine.has_output, engine.take()) == (mqtt.puback(1), False, [])

    engine.acknowledge(PUBACK, 2, 2)
    publishes(conversation, batch_of(b"a"))
    engine.acknowledge(PUBACK, 3, 3)
    assert engine.take_only() == b""
    assert engine.has_output
    assert conversation.said() == mqtt.puback(2) + mqtt.publish("t", b"a", qos=1) + mqtt.puback(3)


def test_output_is_announced_until_it_is_taken() -> None:
    conversation = connected()
    seen = [conversation.engine.has_output]
    publishes(conversation, batch_of(b"a"))
    seen.append(conversation.engine.has_output)
    conversation.said()
    seen.append(conversation.engine.has_output)

    assert seen == [False, True, False]
