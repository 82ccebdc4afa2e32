"""PUBLISH packets of a client: runs, batches, refusals, aliases, the receive maximum (mqtt sections 9.1, 9.4, 14)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.headers import TIME_MS_MAX, USER_PROPERTIES_MAX
from sluicegate.messaging.message.keys import key_hash
from sluicegate.messaging.message.usage import STORED_MESSAGE_BYTES, WIDE_CHARACTER_BYTES
from sluicegate.protocols.mqtt.codec.events import PeerViolated, PublishReceived
from sluicegate.protocols.mqtt.codec.fixed_header import PUBACK, PUBCOMP, PUBREC
from sluicegate.protocols.mqtt.codec.limits import TOPIC_CACHE_BYTES_MAX, TOPIC_CACHE_ENTRIES_MAX, MqttLimits
from sluicegate.protocols.mqtt.codec.reason_codes import QUOTA_EXCEEDED
from sluicegate.protocols.mqtt.codec.wire_batch import DIALECT_3X, DIALECT_5, WireBatch
from sluicegate.protocols.mqtt.engine.publish_writer import encode_at_most_once
from support.mqtt.conversation import WALL_MS, Conversation, all_rows, connected, only, rows_of

LEVELS = (3, 4, 5)


def batches(conversation: Conversation, *packets: bytes) -> list[PublishReceived]:
    events = conversation.hears(*packets)
    assert all(isinstance(event, PublishReceived) for event in events), events
    return [event for event in events if isinstance(event, PublishReceived)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_equal_qos_and_retain_make_one_batch(level: int, qos: int) -> None:
    packets = [mqtt.publish("a", b"%d" % n, level=level, qos=qos, packet_id=n) for n in range(1, 200)]
    (event,) = batches(connected(level), *packets)

    assert event.batch.topic == "a"
    assert event.batch.topics is None
    assert event.batch.payloads() == [b"%d" % n for n in range(1, 200)]
    assert (event.batch.qos, event.batch.retain, event.batch.publisher) == (qos, False, "c1")
    assert event.batch.received_ms == WALL_MS
    assert event.packet_ids == ([(1, 199)] if qos else [])


@pytest.mark.parametrize("level", LEVELS)
def test_a_run_ends_where_qos_or_retain_changes(level: int) -> None:
    packets = [
        mqtt.publish("a", qos=qos, retain=retain, packet_id=index + 1, level=level)
        for index, (qos, retain) in enumerate([(0, False), (0, True), (1, True), (1, False), (2, False), (0, False)])
    ]
    events = batches(connected(level), *packets)

    assert [(event.batch.qos, event.batch.retain) for event in events] == [
        (0, False), (0, True), (1, True), (1, False), (2, False), (0, False),
    ]  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("qos", [0, 1])
def test_mixed_topics_and_lengths_stay_in_order(level: int, qos: int) -> None:
    sent = [(f"t/{n % 3}", b"x" * (n % 5)) for n in range(60)]
    packets = [
        mqtt.publish(topic, payload, level=level, qos=qos, packet_id=n + 1) for n, (topic, payload) in enumerate(sent)
    ]
    (event,) = batches(connected(level), *packets)

    assert event.batch.topic == ""
    assert [(row.fields[2], row.fields[3]) for row in rows_of(event)] == sent


@pytest.mark.parametrize("level", LEVELS)
def test_a_message_that_comes_alone_counts_as_much_as_any_other(level: int) -> None:
    """Its topic was measured with the first message of the topic, here or in a cache that holds no topic as long."""
    conversation = connected(level)
    for topic in ("a", "a", "\u00e4\u00df", "a", "l" * (TOPIC_CACHE_BYTES_MAX + 1), "a"):
        (event,) = batches(conversation, mqtt.publish(topic, b"12345", level=level, qos=1, packet_id=1))
        alone = event.batch
        characters_bytes = len(topic) if topic.isascii() else WIDE_CHARACTER_BYTES * len(topic)
        assert alone.usage_bytes(durable=True) == 5 + characters_bytes + STORED_MESSAGE_BYTES
        assert alone.memory_bytes() == alone.select([0]).memory_bytes()


def test_publishes_with_dup_are_a_run_of_possible_duplicates() -> None:
    """[3.3.1-1]: the client has sent it before, and it may have been delivered then."""
    sent = [mqtt.publish(qos=1, packet_id=n, dup=n in (2, 3)) for n in range(1, 5)]
    found = batches(connected(), *sent)

    assert [event.packet_ids for event in found] == [[(1, 1)], [(2, 3)], [(4, 4)]]
    assert [event.batch.possible_duplicate for event in found] == [False, True, False]


def test_packet_ids_are_runs_in_order_of_the_rows() -> None:
    ids = [5, 6, 7, 3, 4, 65535, 1, 1, 2]
    (event,) = batches(connected(), *[mqtt.publish(qos=2, packet_id=n) for n in ids])

    assert event.packet_ids == [(5, 7), (3, 4), (65535, 65535), (1, 1), (1, 2)]


@pytest.mark.parametrize(("level", "dialect"), [(3, DIALECT_3X), (4, DIALECT_3X), (5, DIALECT_5)])
def test_a_plain_qos_0_run_keeps_its_bytes_as_its_encoding(level: int, dialect: int) -> None:
    """A relay to clients of one dialect hands on what came."""
    data = b"".join([mqtt.publish(f"t{n % 2}", b"x" * n, level=level) for n in range(40)])
    (event,) = batches(connected(level), data)

    assert isinstance(event.batch, WireBatch)
    assert event.batch.count == 40
    assert (event.batch.dialect, event.batch.wire) == (dialect, data)
    assert encode_at_most_once(event.batch, level, WALL_MS) is event.batch.wire


@pytest.mark.parametrize("properties", [b"", mqtt.content_type("x")])
def test_a_retained_or_propertied_run_has_no_ready_encoding(properties: bytes) -> None:
    """[3.3.1-12]: present subscribers get RETAIN 0; expiry and aliases are not handed on."""
    (event,) = batches(connected(5), mqtt.publish(level=5, retain=not properties, properties=properties))

    assert not isinstance(event.batch, WireBatch)


def test_rows_with_and_without_properties_share_a_batch_once_it_is_in_columns() -> None:
    with_key = mqtt.publish("a", b"1", level=5, qos=1, properties=mqtt.user_property("k", "v"))
    plain = mqtt.publish("a", b"2", level=5, qos=1, packet_id=2)
    (event,) = batches(connected(5), plain, with_key, plain, plain)

    headers = event.batch.headers()
    assert headers is not None
    assert [each is None for each in headers] == [True, False, True, True]


def test_all_properties_become_headers() -> None:
    """Section 3, cross-protocol table; user properties keep their order [3.3.2-18]."""
    carried = (
        mqtt.payload_format(1) + mqtt.content_type("text/plain") + mqtt.response_topic("reply/here")
        + mqtt.correlation_data(b"\0\1") + mqtt.user_property("k", "1") + mqtt.user_property("JMSXGroupID", "key-1")
        + mqtt.user_property("k", "2") + mqtt.user_property("JMSXGroupID", "key-2")
        + mqtt.user_property("priority", "7") + mqtt.user_property("message-id", "m-1")
        + mqtt.user_property("timestamp", "123456")
    )  # fmt: skip
    properties = mqtt.topic_alias(1) + carried + mqtt.message_expiry(10)
    (event,) = batches(connected(5), mqtt.publish(level=5, properties=properties))

    headers = event.batch.headers_of(0)
    assert headers is not None
    assert (headers.partition_key, headers.key_hash) == ("key-1", key_hash("key-1"))
    assert headers.expires_at_ms == WALL_MS + 10_000
    assert headers.payload_is_text is True
    assert (headers.content_type, headers.reply_to, headers.correlation) == ("text/plain", "reply/here", b"\0\1")
    assert headers.user_properties is not None
    assert headers.user_properties[:3] == [("k", "1"), ("JMSXGroupID", "key-1"), ("k", "2")]
    assert (headers.priority, headers.message_id, headers.timestamp_ms) == (7, "m-1", 123456)
    assert headers.native == carried


@pytest.mark.parametrize(
    ("said", "kept_ms"),
    [("1700000000000", 1_700_000_000_000), ("9" * 18, TIME_MS_MAX), ("9" * 19, 0), ("-1", 0), ("", 0)],
)
def test_a_timestamp_is_one_that_calendars_have(said: str, kept_ms: int) -> None:
    """More milliseconds than 64 bits have microseconds would end whoever reads the queue in columns."""
    (event,) = batches(connected(5), mqtt.publish(level=5, properties=mqtt.user_property("timestamp", said)))

    headers = event.batch.headers_of(0)
    assert headers is not None
    assert headers.timestamp_ms == kept_ms
    assert headers.user_properties == [("timestamp", said)]


@pytest.mark.parametrize("priority", ["10", "-1", "high", "", "٣"])
def test_a_user_property_that_is_no_priority_stays_a_user_property(priority: str) -> None:
    (event,) = batches(connected(5), mqtt.publish(level=5, properties=mqtt.user_property("priority", priority)))

    headers = event.batch.headers_of(0)
    assert headers is not None
    assert headers.priority == 4
    assert headers.user_properties == [("priority", priority)]


def test_an_empty_partition_key_is_no_key() -> None:
    (event,) = batches(connected(5), mqtt.publish(level=5, properties=mqtt.user_property("JMSXGroupID", "")))

    headers = event.batch.headers_of(0)
    assert headers is not None
    assert (headers.partition_key, headers.key_hash) == (None, -1)


@pytest.mark.parametrize(("key", "accepted"), [("x" * 255, True), ("x" * 256, False), ("é" * 128, False)])
def test_a_partition_key_has_255_bytes_at_most(key: str, accepted: bool) -> None:
    conversation = connected(5)
    conversation.hears(mqtt.publish(level=5, properties=mqtt.user_property("JMSXGroupID", key)))

    if accepted:
        assert len(all_rows(conversation.events)) == 1
    else:
        assert conversation.violation().reason_code == 0x99
        assert "JMSXGroupID" in conversation.violation().text


def test_an_expiry_of_zero_is_kept_apart_from_none() -> None:
    """[3.3.2-5]: 0 expires at once unless it can be sent right away."""
    (event,) = batches(connected(5), mqtt.publish(level=5, properties=mqtt.message_expiry(0)))

    headers = event.batch.headers_of(0)
    assert headers is not None
    assert headers.expires_at_ms == WALL_MS


def test_a_reply_to_a_queue_is_normalised() -> None:
    """A `#` cannot be in a Response Topic, so MQTT names queues `$queue/NAME`."""
    (event,) = batches(connected(5), mqtt.publish(level=5, properties=mqtt.response_topic("$queue/orders")))

    headers = event.batch.headers_of(0)
    assert headers is not None
    assert headers.reply_to == "#q/orders"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("topic", [b"a/+", b"#", b"", b"a\0b", b"\xff"])
def test_a_bad_topic_ends_the_connection(level: int, qos: int, topic: bytes) -> None:
    """T075 [3.3.2-2] [4.7.3-1]."""
    conversation = connected(level)
    conversation.hears(mqtt.publish("good", level=level), mqtt.publish(topic, level=level, qos=qos))

    assert len(all_rows(conversation.events)) == 1
    assert conversation.violation().reason_code in (0x81, 0x90)
    assert bool(conversation.violation().answer) is (level == 5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("levels_max", [0, 200])
def test_a_topic_may_have_any_number_of_levels_unless_the_operator_limits_it(
    level: int, qos: int, levels_max: int
) -> None:
    """[4.7.3-3]: the standard limits the length alone."""
    conversation = connected(level, limits=MqttLimits(topic_levels_max=levels_max))
    conversation.hears(mqtt.publish("x/" * 199 + "x", level=level, qos=qos))
    conversation.hears(mqtt.publish("x/" * 200 + "x", level=level, qos=qos, packet_id=2))

    assert len(all_rows(conversation.events)) == (1 if levels_max else 2)
    if levels_max:
        assert conversation.violation().reason_code == 0x90
        assert "it has 201 levels; allowed: at most 200 levels (mqtt.topic_levels_max)" in conversation.violation().text
        assert bool(conversation.violation().answer) is (level == 5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("position", [0, 1, 5])
def test_packet_id_0_is_a_protocol_error(level: int, position: int) -> None:
    """T035 [2.2.1-3], also in the middle of a run."""
    ids = [1, 2, 3, 4, 5, 6]
    ids[position] = 0
    conversation = connected(level)
    conversation.hears(*[mqtt.publish(qos=1, packet_id=n, level=level) for n in ids])

    assert len(all_rows(conversation.events)) == position
    assert conversation.violation().reason_code == 0x82


@pytest.mark.parametrize(
    "packet",
    [b"\x30\x00", b"\x30\x01\x00", b"\x32\x02\x00\x01", b"\x30\x03\x00\x05a", b"\x32\x04\x00\x01a\x00", b"\x32\x00"],
)
@pytest.mark.parametrize("level", LEVELS)
def test_a_publish_whose_fields_run_past_its_end_is_malformed(level: int, packet: bytes) -> None:
    conversation = connected(level)
    conversation.hears(packet)

    assert conversation.violation().reason_code == 0x81


@pytest.mark.parametrize("packet", [b"\x30\x03\0\x01a", b"\x32\x05\0\x01a\0\x01", b"\x30\x04\0\x01a\x01"])
def test_a_5_0_publish_without_its_whole_property_section_is_malformed(packet: bytes) -> None:
    conversation = connected(5)
    conversation.hears(packet)

    assert conversation.violation().reason_code == 0x81


@pytest.mark.parametrize(
    ("properties", "reason_code"),
    [
        (mqtt.subscription_identifier(7), 0x82),  # T076 [3.3.4-6]
        (mqtt.payload_format(2), 0x82),  # T077
        (mqtt.content_type("a") * 2, 0x82),
        (mqtt.message_expiry(1) * 2, 0x82),
        (mqtt.response_topic("a/#"), 0x82),  # [3.3.2-14]
        (mqtt.response_topic(""), 0x82),
        (mqtt.session_expiry(1), 0x81),
        (mqtt.will_delay(1), 0x81),
        (b"\x03\0\x01\xff", 0x81),
        (b"\x26\0\x01k", 0x81),
        (b"\x02\0\0", 0x81),
        (b"\x00", 0x81),
        (mqtt.topic_alias(0), 0x94),  # T083
        (mqtt.topic_alias(17), 0x94),
    ],
)
def test_a_wrong_property_of_publish_ends_the_connection(properties: bytes, reason_code: int) -> None:
    conversation = connected(5)
    conversation.hears(mqtt.publish(level=5, properties=properties))

    assert conversation.violation().reason_code == reason_code


@pytest.mark.parametrize("count", [USER_PROPERTIES_MAX, USER_PROPERTIES_MAX + 1])
def test_a_packet_has_a_bounded_number_of_user_properties(count: int) -> None:
    """Five bytes each where they are empty: one packet of 16 MiB took a second of the node, and 370 MB."""
    (event,) = connected(5).hears(mqtt.publish("a", level=5, properties=mqtt.user_property("", "") * count))

    if count > USER_PROPERTIES_MAX:
        assert isinstance(event, PeerViolated)
        assert event.reason_code == QUOTA_EXCEEDED
    else:
        assert isinstance(event, PublishReceived)


def test_an_alias_stands_for_its_topic_and_may_be_set_anew() -> None:
    """T082."""
    conversation = connected(5)
    alias = mqtt.topic_alias(1)
    conversation.hears(
        mqtt.publish("a", level=5, properties=alias),
        mqtt.publish("", level=5, properties=alias),
        mqtt.publish("", level=5, properties=alias, qos=1, packet_id=1),
        mqtt.publish("b", level=5, properties=alias),
        mqtt.publish("", level=5, properties=alias + mqtt.content_type("x")),
    )

    assert [row.fields[2] for row in all_rows(conversation.events)] == ["a", "a", "a", "b", "b"]


def test_an_alias_that_was_not_set_is_a_protocol_error() -> None:
    """T083, T084 [3.3.2-7]."""
    conversation = connected(5)
    conversation.hears(mqtt.publish("", level=5, properties=mqtt.topic_alias(1)))

    assert conversation.violation().reason_code == 0x82


def test_no_alias_is_allowed_when_the_maximum_is_zero() -> None:
    """[3.3.2-9]."""
    conversation = connected(5, limits=MqttLimits(topic_alias_maximum=0))
    conversation.hears(mqtt.publish("a", level=5, properties=mqtt.topic_alias(1)))

    assert conversation.violation().reason_code == 0x94


@pytest.mark.parametrize("of_a_read", [1, 3])
@pytest.mark.parametrize("qos", [1, 2])
def test_one_message_more_than_the_receive_maximum_ends_the_connection(qos: int, of_a_read: int) -> None:
    """T073 [3.3.4-7]."""
    conversation = connected(5, limits=MqttLimits(receive_maximum=3))
    packets = [mqtt.publish(level=5, qos=qos, packet_id=n) for n in range(1, 5)]
    for place in range(0, 3, of_a_read):
        conversation.hears(*packets[place : place + of_a_read])
    assert len(all_rows(conversation.events)) == 3

    conversation.hears(mqtt.publish(level=5), packets[3])

    assert len(all_rows(conversation.events)) == 4  # QoS 0 does not count
    assert conversation.violation().reason_code == 0x93


def test_the_receive_maximum_holds_within_one_read() -> None:
    """T073: before the session had a chance to answer."""
    conversation = connected(5, limits=MqttLimits(receive_maximum=3))
    conversation.hears(*[mqtt.publish(level=5, qos=1, packet_id=n) for n in range(1, 10)])

    assert len(all_rows(conversation.events)) == 3
    assert conversation.violation().reason_code == 0x93


def test_answers_give_the_quota_back() -> None:
    """Section 9.4: PUBACK, PUBCOMP and a refusing PUBREC do; a PUBREC with success does not."""
    conversation = connected(5, limits=MqttLimits(receive_maximum=2))
    engine = conversation.engine
    two = [mqtt.publish(level=5, qos=2, packet_id=n) for n in (1, 2)]
    for kind, last, reason_code in (
        (PUBACK, 2, 0),
        (PUBCOMP, 2, 0),
        (PUBREC, 2, 0x97),
        (PUBCOMP, 9, 0),  # more than are due: never above the maximum
        (PUBREC, 2, 0),
    ):
        assert len(all_rows(conversation.hears(*two))) == 2
        engine.acknowledge(kind, 1, last, reason_code)
    conversation.hears(two[0])

    assert conversation.violation().reason_code == 0x93


def test_3_x_clients_have_no_receive_maximum() -> None:
    conversation = connected(4, limits=MqttLimits(receive_maximum=2))

    assert len(all_rows(conversation.hears(*[mqtt.publish(qos=1, packet_id=n) for n in range(1, 100)]))) == 99


@pytest.mark.parametrize(("qos", "maximum", "reason_code"), [(1, 0, 0x9B), (2, 1, 0x9B), (2, 0, 0x9B)])
def test_a_qos_above_the_announced_maximum_is_refused(qos: int, maximum: int, reason_code: int) -> None:
    """[3.2.2-11]."""
    conversation = connected(5, limits=MqttLimits(maximum_qos=maximum))
    conversation.hears(mqtt.publish(level=5, qos=qos))

    assert conversation.violation().reason_code == reason_code


@pytest.mark.parametrize(("qos", "maximum"), [(1, 0), (2, 1), (2, 0)])
def test_a_publish_that_was_begun_before_the_maximum_was_is_taken(qos: int, maximum: int) -> None:
    """[4.4.0-1]: its client sends it again until it is answered, with DUP set."""
    conversation = connected(5, limits=MqttLimits(maximum_qos=maximum))

    assert len(all_rows(conversation.hears(mqtt.publish(level=5, qos=qos, packet_id=1, dup=True)))) == 1


@pytest.mark.parametrize("qos", [0, 1])
def test_retain_is_refused_where_it_is_not_available(qos: int) -> None:
    """[3.2.2-14]."""
    conversation = connected(5, limits=MqttLimits(retain_available=False))
    conversation.hears(mqtt.publish(level=5, qos=qos, retain=True))

    assert conversation.violation().reason_code == 0x9A


def test_a_retained_publish_that_was_begun_before_they_were_excluded_is_taken() -> None:
    """[4.4.0-1]: its client has to send it until it is answered, and could never connect again."""
    conversation = connected(5, limits=MqttLimits(retain_available=False))
    (event,) = conversation.hears(mqtt.publish(level=5, qos=1, retain=True, dup=True))

    assert isinstance(event, PublishReceived)
    assert event.batch.retain


def test_more_topics_than_the_cache_holds_are_all_read() -> None:
    count = TOPIC_CACHE_ENTRIES_MAX * 2 + 1
    conversation = connected()
    conversation.hears(*[mqtt.publish(f"t/{n}") for n in range(count)])

    assert [row.fields[2] for row in all_rows(conversation.events)] == [f"t/{n}" for n in range(count)]


def test_messages_with_equal_properties_share_their_headers() -> None:
    """Keyed traffic: one object for each key, not for each message."""
    key = mqtt.user_property("JMSXGroupID", "k")
    (event,) = batches(connected(5), *[mqtt.publish(level=5, properties=key)] * 3)

    assert event.batch.headers_of(0) is event.batch.headers_of(2)


def test_the_assigned_client_id_is_the_publisher() -> None:
    conversation = Conversation(5)
    conversation.hears(mqtt.connect("", level=5))
    conversation.engine.accept(False, assigned_client_id="auto-1")

    assert only(PublishReceived, conversation.hears(mqtt.publish(level=5))).batch.publisher == "auto-1"


def test_control_characters_in_topics_are_refused_when_configured() -> None:
    strict = MqttLimits(refuse_control_characters=True)

    assert only(PublishReceived, connected().hears(mqtt.publish("a\x01b")))
    assert only(PeerViolated, connected(limits=strict).hears(mqtt.publish("a\x01b"))).reason_code == 0x90
