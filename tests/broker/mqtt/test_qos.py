"""QoS 1 and 2 in both directions: handshakes, repetition, order and the send quota (sections 4.3, 4.4, 4.6, 4.9)."""

import pytest

import support.mqtt.packets as mqtt
from support.broker.running_broker import RunningBroker
from support.mqtt.packets import WillPart

EVERY_LEVEL = pytest.mark.parametrize("level", [3, 4, 5])


@EVERY_LEVEL
@pytest.mark.parametrize(("granted", "delivered"), [(2, [0, 1, 2]), (1, [0, 1, 1]), (0, [0, 0, 0])])
async def test_a_message_is_delivered_at_the_lower_of_two_qos(
    broker: RunningBroker, level: int, granted: int, delivered: list[int]
) -> None:
    """[3.8.4-8]."""
    subscriber = await broker.connect(level=level)
    assert await subscriber.subscribe("t", qos=granted) == [granted]
    publisher = await broker.connect(level=level)
    for qos in (0, 1, 2):
        await publisher.publish("t", b"%d" % qos, qos=qos)
    messages = await subscriber.messages(3)
    assert sorted((each.payload, each.qos) for each in messages) == [(b"%d" % qos, delivered[qos]) for qos in range(3)]
    await subscriber.is_quiet()


@EVERY_LEVEL
async def test_a_repeated_qos_2_publish_is_delivered_once(broker: RunningBroker, level: int) -> None:
    """[4.3.3-10]."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t", qos=2)
    publisher = await broker.connect(level=level)
    publisher.send(mqtt.publish("t", b"once", level=level, qos=2, packet_id=5))
    assert await publisher.answered(mqtt.PUBREC, 5) == 0
    publisher.send(mqtt.publish("t", b"once", level=level, qos=2, packet_id=5, dup=True))
    assert await publisher.answered(mqtt.PUBREC, 5) == 0
    publisher.send(mqtt.pubrel(5))
    assert await publisher.answered(mqtt.PUBCOMP, 5) == 0
    assert await subscriber.payloads(1) == [b"once"]
    await subscriber.is_quiet()


@EVERY_LEVEL
async def test_a_repetition_in_the_same_segment_is_delivered_once(broker: RunningBroker, level: int) -> None:
    """[4.3.3-10]: also where both are read at once."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t", qos=2)
    publisher = await broker.connect(level=level)
    first = mqtt.publish("t", b"once", level=level, qos=2, packet_id=5)
    publisher.send(first, mqtt.publish("t", b"once", level=level, qos=2, packet_id=5, dup=True))
    for _ in range(2):
        assert await publisher.answered(mqtt.PUBREC, 5) == 0
    publisher.send(mqtt.pubrel(5))
    assert await publisher.answered(mqtt.PUBCOMP, 5) == 0
    assert await subscriber.payloads(1) == [b"once"]
    await subscriber.is_quiet()


@EVERY_LEVEL
async def test_repeated_publishes_with_scattered_packet_ids_are_delivered_once(
    broker: RunningBroker, level: int
) -> None:
    """[4.3.3-10]."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t", qos=2)
    publisher = await broker.connect(level=level)
    ids = (3, 4, 9, 6)
    for dup in (False, True):
        publisher.send(*[mqtt.publish("t", b"%d" % n, level=level, qos=2, packet_id=n, dup=dup) for n in ids])
        for packet_id in ids:
            assert await publisher.answered(mqtt.PUBREC, packet_id) == 0
    assert await subscriber.payloads(4) == [b"%d" % packet_id for packet_id in ids]
    await subscriber.is_quiet()


@EVERY_LEVEL
@pytest.mark.parametrize("qos", [1, 2])
async def test_an_id_that_is_free_again_is_a_new_message(broker: RunningBroker, level: int, qos: int) -> None:
    """[4.3.2-5] [4.3.3-12]."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t", qos=2)
    publisher = await broker.connect(level=level)
    for payload in (b"first", b"second"):
        publisher.send(mqtt.publish("t", payload, level=level, qos=qos, packet_id=5))
        assert await publisher.answered(mqtt.PUBACK if qos == 1 else mqtt.PUBREC, 5) == 0
        if qos == 2:
            publisher.send(mqtt.pubrel(5))
            assert await publisher.answered(mqtt.PUBCOMP, 5) == 0
    assert await subscriber.payloads(2) == [b"first", b"second"]


@EVERY_LEVEL
async def test_pubrel_for_an_unknown_id_is_answered(broker: RunningBroker, level: int) -> None:
    """[4.3.3-11]; 5.0 has reason code 0x92 for it."""
    client = await broker.connect(level=level)
    client.send(mqtt.pubrel(77))
    assert await client.answered(mqtt.PUBCOMP, 77) == (0x92 if level == 5 else 0)


@EVERY_LEVEL
async def test_pubrec_for_an_unknown_id_is_answered(broker: RunningBroker, level: int) -> None:
    """Section 3.6.2.1: PUBREL with reason code 0x92 in 5.0."""
    client = await broker.connect(level=level)
    client.send(mqtt.pubrec(77))
    assert await client.answered(mqtt.PUBREL, 77) == (0x92 if level == 5 else 0)


@EVERY_LEVEL
async def test_acknowledgements_of_unknown_ids_are_passed_over(broker: RunningBroker, level: int) -> None:
    """Section 4.3.2: nothing to complete; an id that was never sent gives no credit."""
    client = await broker.connect(level=level)
    client.send(mqtt.puback(77), mqtt.pubcomp(78), mqtt.pubrec(79))
    await client.awaited(mqtt.PUBREL)
    client.send(mqtt.pubcomp(79))
    await client.is_quiet()


@EVERY_LEVEL
@pytest.mark.parametrize("qos", [1, 2])
async def test_the_wrong_acknowledgement_is_a_protocol_error(broker: RunningBroker, level: int, qos: int) -> None:
    """[4.3.2-3] [4.3.3-4]: PUBACK answers QoS 1, PUBREC answers QoS 2."""
    client = await broker.connect(level=level)
    await client.subscribe("t", qos=qos)
    await (await broker.connect()).publish("t", qos=qos)
    message = await client.message()
    client.send(mqtt.pubrec(message.packet_id) if qos == 1 else mqtt.puback(message.packet_id))
    await client.is_ended(0x82)


async def test_the_wrong_acknowledgement_is_found_behind_a_right_one(broker: RunningBroker) -> None:
    """[4.3.3-4]: also where several come in one segment."""
    client = await broker.connect(level=5)
    await client.subscribe("t", qos=2)
    publisher = await broker.connect()
    for qos in (1, 2):
        await publisher.publish("t", qos=qos)
    messages = [await client.message() for _ in range(2)]
    client.send(*[mqtt.puback(each.packet_id) for each in messages])
    await client.is_ended(0x82)


@EVERY_LEVEL
@pytest.mark.parametrize("qos", [1, 2])
async def test_unacknowledged_messages_are_sent_again_only_after_a_reconnect(
    broker: RunningBroker, level: int, qos: int
) -> None:
    """[4.4.0-1]: DUP and the same id; never on a live connection."""
    subscriber = await broker.connect_durable("careful", level)
    await subscriber.subscribe("t", qos=qos)
    publisher = await broker.connect()
    for payload in (b"first", b"second"):
        await publisher.publish("t", payload, qos=qos)
    sent = [await subscriber.message() for _ in range(2)]
    assert [each.dup for each in sent] == [False, False]
    broker.forward(20)
    await subscriber.is_quiet()
    await subscriber.vanish()

    subscriber = await broker.connect_durable("careful", level)

    again = [await subscriber.message() for _ in range(2)]
    assert again == [each._replace(dup=True) for each in sent]
    await subscriber.is_quiet()


@EVERY_LEVEL
@pytest.mark.parametrize(("filter_text", "granted", "granted_now"), [("t", 2, 1), ("$share/g/t", 2, 1), ("t", 1, 2)])
async def test_a_message_is_sent_again_at_its_qos_whatever_qos_is_granted_now(
    broker: RunningBroker, level: int, filter_text: str, granted: int, granted_now: int
) -> None:
    """[4.3.3-1] [4.4.0-1]: at QoS 1 its receiver, who may have it under that id, would take it for another message.

    What was sent at QoS 1 is the same packet again, or its receiver would have a QoS 2 message that says that it is a
    repetition, and that it never had.
    """
    subscriber = await broker.connect_durable("careful", level)
    await subscriber.subscribe(filter_text, qos=granted)
    await (await broker.connect()).publish("t", qos=2)
    sent = await subscriber.message()
    await subscriber.subscribe(filter_text, qos=granted_now)
    await subscriber.vanish()

    subscriber = await broker.connect_durable("careful", level)

    assert await subscriber.message() == sent._replace(dup=True)
    await subscriber.completes(sent)
    await subscriber.is_quiet()


@EVERY_LEVEL
async def test_after_pubrec_only_pubrel_is_sent_again(broker: RunningBroker, level: int) -> None:
    """[4.3.3-6] [4.4.0-1]."""
    subscriber = await broker.connect_durable("careful", level)
    await subscriber.subscribe("t", qos=2)
    await (await broker.connect()).publish("t", qos=2)
    message = await subscriber.message()
    subscriber.send(mqtt.pubrec(message.packet_id))
    assert await subscriber.answered(mqtt.PUBREL, message.packet_id) == 0
    await subscriber.vanish()

    subscriber = await broker.connect_durable("careful", level)

    assert await subscriber.answered(mqtt.PUBREL, message.packet_id) == 0
    await subscriber.is_quiet()
    subscriber.send(mqtt.pubcomp(message.packet_id))
    await subscriber.round_trip()
    await subscriber.vanish()
    await (await broker.connect_durable("careful", level)).is_quiet()


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_message_that_the_client_refused_is_not_sent_again(broker: RunningBroker, qos: int) -> None:
    """[4.4.0-2]: and its place in the quota is free, without PUBREL."""
    one_at_a_time = mqtt.receive_maximum(1)
    subscriber = await broker.connect_durable("picky", properties=one_at_a_time)
    await subscriber.subscribe("t", qos=qos)
    publisher = await broker.connect()
    for payload in (b"first", b"second"):
        await publisher.publish("t", payload, qos=qos)
    first = await subscriber.message()
    await subscriber.is_quiet()
    refuse = mqtt.puback if qos == 1 else mqtt.pubrec
    subscriber.send(refuse(first.packet_id, 0x80))
    second = await subscriber.message()
    assert second.payload == b"second"
    subscriber.send(refuse(second.packet_id, 0x80))
    await subscriber.is_quiet()
    await subscriber.vanish()
    await (await broker.connect_durable("picky", properties=one_at_a_time)).is_quiet()


@EVERY_LEVEL
@pytest.mark.parametrize("repeats", [False, True])
async def test_a_qos_2_publish_is_completed_on_another_connection(
    broker: RunningBroker, level: int, repeats: bool
) -> None:
    """[4.3.3-10] [4.4.0-1]: the ids the broker has received are part of the session."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t", qos=2)
    publisher = await broker.connect_durable("publisher", level)
    publisher.send(mqtt.publish("t", b"once", level=level, qos=2, packet_id=9))
    assert await publisher.answered(mqtt.PUBREC, 9) == 0
    await publisher.vanish()

    publisher = await broker.connect_durable("publisher", level)
    if repeats:
        publisher.send(mqtt.publish("t", b"once", level=level, qos=2, packet_id=9, dup=True))
        assert await publisher.answered(mqtt.PUBREC, 9) == 0
    publisher.send(mqtt.pubrel(9))

    assert await publisher.answered(mqtt.PUBCOMP, 9) == 0
    assert await subscriber.payloads(1) == [b"once"]
    await subscriber.is_quiet()


@EVERY_LEVEL
@pytest.mark.parametrize("first_byte", [0x36, 0x38], ids=["QoS 3", "DUP with QoS 0"])
async def test_impossible_publish_flags_are_malformed(broker: RunningBroker, level: int, first_byte: int) -> None:
    """[3.3.1-4] [3.3.1-2]; an error, so the will is published."""
    heir = await broker.connect(level=level)
    await heir.subscribe("will/topic")
    client = await broker.connect(level=level, will=WillPart())
    client.send(bytes([first_byte]) + mqtt.publish("t", level=level)[1:])
    await client.is_ended(0x81)
    assert await heir.payloads(1) == [b"gone"]


@EVERY_LEVEL
async def test_dup_is_not_passed_on(broker: RunningBroker, level: int) -> None:
    """[3.3.1-3]."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t", qos=1)
    publisher = await broker.connect(level=level)
    publisher.send(mqtt.publish("t", level=level, qos=1, dup=True))
    assert await publisher.answered(mqtt.PUBACK, 1) == 0
    assert not (await subscriber.message()).dup


@EVERY_LEVEL
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_thousand_messages_come_in_the_order_published(broker: RunningBroker, level: int, qos: int) -> None:
    """[4.6.0-5] [4.6.0-6]; acknowledgements go out in the order of their publishes [4.6.0-2] [4.6.0-3]."""
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t", qos=qos)
    publisher = await broker.connect(level=level)
    publisher.send(*[mqtt.publish("t", b"%d" % each, level=level, qos=qos, packet_id=each) for each in range(1, 1001)])
    for each in range(1, 1001):
        assert await publisher.answered(mqtt.PUBACK if qos == 1 else mqtt.PUBREC, each) == 0
    assert await subscriber.payloads(1000) == [b"%d" % each for each in range(1, 1001)]
    await subscriber.is_quiet()


@EVERY_LEVEL
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_publish_without_subscribers_is_answered_after_earlier_ones_that_wait_for_the_store(
    broker: RunningBroker, level: int, qos: int
) -> None:
    """[4.6.0-2] [4.6.0-3]."""
    away = await broker.connect_durable("away", level)
    await away.subscribe("kept", qos=qos)
    await away.vanish()
    publisher = await broker.connect(level=level)
    publisher.send(
        mqtt.publish("kept", b"", level=level, qos=qos, packet_id=1),
        mqtt.publish("between", b"", level=level),  # what lies on both sides of it is not published together
        mqtt.publish("nowhere", b"", level=level, qos=qos, packet_id=2),
    )
    kind = mqtt.PUBACK if qos == 1 else mqtt.PUBREC

    assert await publisher.answered(kind, 1) == 0
    assert await publisher.answered(kind, 2) == (0x10 if level == 5 else 0)


@EVERY_LEVEL
async def test_an_interruption_does_not_change_the_order(broker: RunningBroker, level: int) -> None:
    """[4.4.0-1] [4.6.0-1]: what is sent again comes first and in the order it was sent."""
    subscriber = await broker.connect_durable("patient", level)
    await subscriber.subscribe("t", qos=1)
    publisher = await broker.connect()
    publisher.send(*[mqtt.publish("t", b"%d" % each, qos=1, packet_id=each) for each in range(1, 1001)])
    before = await subscriber.payloads(300)
    unanswered = [(await subscriber.message()).payload for _ in range(50)]
    await subscriber.vanish()

    subscriber = await broker.connect_durable("patient", level)
    after = await subscriber.payloads(700)

    assert before + after == [b"%d" % each for each in range(1, 1001)]
    assert after[:50] == unanswered
    await subscriber.is_quiet()


async def test_the_receive_maximum_of_the_client_is_kept(broker: RunningBroker) -> None:
    """[3.3.4-9] [4.9.0-1]; QoS 0 goes on [3.3.4-10] [4.9.0-3]."""
    subscriber = await broker.connect("narrow", 5, properties=mqtt.receive_maximum(2))
    await subscriber.subscribe("t", qos=2)
    publisher = await broker.connect()
    for number in range(5):
        await publisher.publish("t", b"%d" % number)
    sent = [await subscriber.message() for _ in range(2)]
    await subscriber.is_quiet()
    await publisher.publish("t", b"direct", qos=0)
    assert (await subscriber.message()).payload == b"direct"
    subscriber.acknowledge(sent[0])
    assert (await subscriber.message()).payload == b"2"
    await subscriber.is_quiet()


async def test_a_released_message_counts_until_pubcomp(broker: RunningBroker) -> None:
    """[4.9.0-2]: PUBREC gives no credit, PUBCOMP does."""
    subscriber = await broker.connect("narrow", 5, properties=mqtt.receive_maximum(1))
    await subscriber.subscribe("t", qos=2)
    publisher = await broker.connect()
    for payload in (b"first", b"second"):
        await publisher.publish("t", payload, qos=2)
    first = await subscriber.message()
    subscriber.send(mqtt.pubrec(first.packet_id))
    await subscriber.answered(mqtt.PUBREL, first.packet_id)
    await subscriber.is_quiet()
    subscriber.send(mqtt.pubcomp(first.packet_id))
    assert await subscriber.payloads(1) == [b"second"]


@pytest.mark.settings("mqtt.receive_maximum=3")
async def test_more_than_our_receive_maximum_is_a_violation(broker: RunningBroker) -> None:
    """[3.3.4-7]: a QoS 2 message counts until PUBCOMP."""
    client = await broker.connect("greedy", 5)
    assert client.accepted.value(33) == 3
    client.send(*[mqtt.publish("t", level=5, qos=2, packet_id=each) for each in range(1, 4)])
    for each in range(1, 4):
        await client.answered(mqtt.PUBREC, each)
    await client.round_trip()
    client.send(mqtt.publish("t", level=5, qos=2, packet_id=4))
    await client.is_ended(0x93)


@EVERY_LEVEL
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_publish_without_permission_is_not_delivered(broker: RunningBroker, level: int, qos: int) -> None:
    """[3.3.5-2]: 5.0 is told 0x87, 3.x is acknowledged; the connection lives."""
    witness = await broker.connect(level=level)
    await witness.subscribe("#", "$SYS/mine/#", qos=2)
    client = await broker.connect(level=level)
    assert await client.publish("$SYS/mine", qos=qos) == (0x87 if level == 5 and qos else 0)
    await client.round_trip()
    await witness.is_quiet()
