"""Retained messages: stored, replaced, deleted, sent to new subscriptions (sections 3.3.1.3, 3.8.3.1)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.storage.errors import StoreFull
from sluicegate.storage.interface import CommitJob, Table
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S, RawClient

EVERY_LEVEL = pytest.mark.parametrize("level", [3, 4, 5])


async def publisher_of(broker: RunningBroker, topic: str, payload: bytes = b"kept", **options: object) -> RawClient:
    """Return a client that has published a retained message."""
    client = await broker.connect("publisher", 5)
    await client.publish(topic, payload, retain=True, **options)  # type: ignore[arg-type]  # those of RawClient.publish
    return client


@EVERY_LEVEL
async def test_a_new_subscription_is_sent_what_is_retained(broker: RunningBroker, level: int) -> None:
    """[311:3.3.1-8] [3.3.1-12]: with RETAIN set; a live message comes without it."""
    publisher = await publisher_of(broker, "a/b")
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("a/+", qos=1)
    (message,) = await subscriber.messages(1)
    assert (message.topic, message.payload, message.retain, message.qos) == ("a/b", b"kept", True, 1)
    await publisher.publish("a/b", b"live", retain=True)
    (message,) = await subscriber.messages(1)
    assert (message.payload, message.retain) == (b"live", False)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
async def test_retain_as_published_keeps_the_flag(broker: RunningBroker, qos: int, retain: bool) -> None:
    """[3.3.1-13]."""
    subscriber = await broker.connect(level=5)
    await subscriber.subscribe(("t", mqtt.options(2, retain_as_published=True)))
    await (await broker.connect()).publish("t", qos=qos, retain=retain)
    (message,) = await subscriber.messages(1)
    assert message.retain == retain


@EVERY_LEVEL
async def test_an_empty_retained_message_deletes(broker: RunningBroker, level: int) -> None:
    """[3.3.1-6] [3.3.1-7]: present subscribers get it, and it is not stored."""
    publisher = await publisher_of(broker, "t")
    present = await broker.connect(level=level)
    await present.subscribe("t")
    assert await present.payloads(1) == [b"kept"]
    await publisher.publish("t", b"", retain=True)
    (message,) = await present.messages(1)
    assert (message.payload, message.retain) == (b"", False)
    later = await broker.connect(level=level)
    await later.subscribe("t")
    await later.is_quiet()


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_deleted_retained_message_does_not_come_back_because_the_store_was_full(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, qos: int
) -> None:
    """[3.3.1-6]: nobody would repeat it, for a message that is not there is not deleted from the store again."""
    publisher = await publisher_of(broker, "t", qos=1)
    store = broker.node.services.store
    commit, refused = store.commit, list[CommitJob]()

    def refuse_once(job: CommitJob) -> int:
        if any(write.table is Table.RETAINED for write in job.table_writes) and not refused:
            refused.append(job)
            raise StoreFull("disk", "no room in this test")
        return commit(job)

    monkeypatch.setattr(store, "commit", refuse_once)
    await publisher.publish("t", b"", retain=True, qos=qos)
    await publisher.round_trip()
    await broker.restart()
    assert len(refused) == 1
    later = await broker.connect()
    await later.subscribe("t")
    await later.is_quiet()


@pytest.mark.parametrize(
    ("handling", "sent_to_new", "sent_again"), [(0, True, True), (1, True, False), (2, False, False)]
)
async def test_retain_handling_says_when_retained_messages_are_sent(
    broker: RunningBroker, handling: int, sent_to_new: bool, sent_again: bool
) -> None:
    """[3.3.1-9] [3.3.1-10] [3.3.1-11]."""
    await publisher_of(broker, "t")
    subscriber = await broker.connect(level=5)
    for is_sent in (sent_to_new, sent_again):
        await subscriber.subscribe(("t", mqtt.options(1, retain_handling=handling)))
        if is_sent:
            assert await subscriber.payloads(1) == [b"kept"]
        await subscriber.is_quiet()


async def test_a_resumed_session_s_subscription_is_not_new(broker: RunningBroker) -> None:
    """[3.3.1-10]: new or not is a matter of the session."""
    subscriber = await broker.connect_durable("back")
    await subscriber.subscribe(("t", mqtt.options(1, retain_handling=1)))
    await subscriber.leave()
    await publisher_of(broker, "other")
    publisher = await broker.connect()
    await publisher.publish("t", b"live", retain=True)
    subscriber = await broker.connect_durable("back")
    assert await subscriber.payloads(1) == [b"live"]
    await subscriber.subscribe(("t", mqtt.options(1, retain_handling=1)))
    await subscriber.is_quiet()


async def test_retained_messages_expire(broker: RunningBroker) -> None:
    """[3.3.2-5] [3.3.2-6]."""
    publisher = await publisher_of(broker, "fades", properties=mqtt.message_expiry(100))
    await publisher.publish("lasts", retain=True, properties=mqtt.message_expiry(10_000))
    broker.forward(300)
    subscriber = await broker.connect(level=5)
    await subscriber.subscribe("fades", "lasts")
    (message,) = await subscriber.messages(1)
    assert message.topic == "lasts"
    (left_s,) = message.values(2)
    assert isinstance(left_s, int)
    assert 9_700 - DEADLINE_S < left_s <= 9_700
    await subscriber.is_quiet()


@EVERY_LEVEL
async def test_only_the_last_is_retained_and_a_plain_publish_changes_nothing(broker: RunningBroker, level: int) -> None:
    """[3.3.1-5] [3.3.1-8]."""
    publisher = await publisher_of(broker, "t", b"old")
    await publisher.publish("t", b"new", retain=True)
    await publisher.publish("t", b"passing", retain=False)
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t")
    assert await subscriber.payloads(1) == [b"new"]
    await subscriber.is_quiet()


async def test_wildcards_at_the_first_level_do_not_find_dollar_topics(broker: RunningBroker) -> None:
    """[4.7.2-1]."""
    await publisher_of(broker, "$mine/x")
    subscriber = await broker.connect()
    await subscriber.subscribe("#", "+/x")
    await subscriber.is_quiet()
    await subscriber.subscribe("$mine/#")
    assert await subscriber.payloads(1) == [b"kept"]


@EVERY_LEVEL
@pytest.mark.parametrize(("published", "granted"), [(2, 0), (2, 1), (1, 2), (0, 2), (2, 2)])
async def test_retained_messages_are_sent_at_the_lower_qos(
    broker: RunningBroker, level: int, published: int, granted: int
) -> None:
    """[3.8.4-8]."""
    await publisher_of(broker, "t", qos=published)
    subscriber = await broker.connect(level=level)
    await subscriber.subscribe("t", qos=granted)
    (message,) = await subscriber.messages(1)
    assert (message.qos, message.retain) == (min(published, granted), True)


async def test_many_retained_messages_keep_to_the_receive_maximum(broker: RunningBroker) -> None:
    """[3.3.4-9]: they count like any other."""
    publisher = await broker.connect("publisher", 5)
    for number in range(5):
        await publisher.publish(f"t/{number}", retain=True)
    subscriber = await broker.connect(level=5, properties=mqtt.receive_maximum(2))
    await subscriber.subscribe("t/+", qos=1)
    first = [await subscriber.message() for _ in range(2)]
    await subscriber.is_quiet()
    subscriber.acknowledge(*first)
    assert len(await subscriber.messages(3)) == 3


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_retained_message_that_was_not_acknowledged_is_sent_again(broker: RunningBroker, qos: int) -> None:
    """[4.4.0-1]: with RETAIN, DUP and the same id."""
    await publisher_of(broker, "t", qos=2)
    subscriber = await broker.connect_durable("careful")
    await subscriber.subscribe("t", qos=qos)
    sent = await subscriber.message()
    await subscriber.vanish()
    subscriber = await broker.connect_durable("careful")
    assert await subscriber.message() == sent._replace(dup=True)
    await subscriber.is_quiet()


async def test_a_subscription_identifier_is_sent_with_retained_messages_too(broker: RunningBroker) -> None:
    """[3.3.4-3]."""
    await publisher_of(broker, "t", properties=mqtt.user_property("k", "v"))
    subscriber = await broker.connect(level=5)
    await subscriber.subscribe("t", properties=mqtt.subscription_identifier(7))
    (message,) = await subscriber.messages(1)
    assert (message.values(11), message.values(38)) == ([7], [("k", "v")])


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_subscriber_to_everything_gets_it_in_slices_and_once(broker: RunningBroker, qos: int) -> None:
    """[3.3.1-9] [3.3.4-9]: more than goes out in one turn, within the Receive Maximum."""
    publisher = await broker.connect("publisher", 4)
    topics = [f"many/{number}" for number in range(1000)]
    publisher.send(*[mqtt.publish(topic, b"kept", level=4, qos=0, retain=True) for topic in topics])
    await publisher.publish("last", b"kept", qos=1, retain=True)
    subscriber = await broker.connect(level=5, properties=mqtt.receive_maximum(3))
    await subscriber.subscribe("#", qos=qos)
    found = await subscriber.messages(1001)
    assert sorted(message.topic for message in found) == sorted([*topics, "last"])
    assert all(message.retain for message in found)
    await subscriber.is_quiet()
    assert broker.node.mqtt.counters.messages_sent == 1001


async def test_a_subscriber_that_does_not_read_is_sent_no_more_of_what_is_retained(broker: RunningBroker) -> None:
    """What it leaves unread waits as retained messages, not as bytes of its own; the rest comes when it reads on."""
    publisher = await broker.connect("publisher", 4)
    for number in range(600):
        publisher.send(mqtt.publish(f"large/{number}", bytes(65_536), level=4, qos=0, retain=True))
    await publisher.publish("last", b"kept", qos=1, retain=True)
    subscriber = await broker.connect(level=5)
    subscriber.stop_reading()
    subscriber.send(mqtt.subscribe(("#", 0), packet_id=1, level=5))
    counters = broker.node.mqtt.counters
    sent = -1
    while sent != counters.bytes_sent:  # until nothing more goes out
        sent = counters.bytes_sent
        for _ in range(20):
            await publisher.round_trip()
        sent += 20 * 2  # PINGRESPs
    assert sent < 20 * 1_048_576  # what kernels buffer for a socket, at most; all of it is 37 MiB
    subscriber.resume_reading()
    assert len(await subscriber.messages(601)) == 601


async def test_retained_messages_are_sent_as_soon_as_a_client_reads_again(broker: RunningBroker) -> None:
    """It need not say a word for it."""
    publisher = await broker.connect("publisher")
    await publisher.publish("a/large", bytes(15 * 1_048_576), qos=1, retain=True)
    await publisher.publish("b/small", b"kept", qos=1, retain=True)
    subscriber = await broker.connect()
    subscriber.stop_reading()
    subscriber.send(mqtt.subscribe(("+/+", 0), packet_id=1))
    while not any(each.is_writing_paused for each in broker.node.mqtt.open_connections()):
        await publisher.round_trip()
    subscriber.resume_reading()
    assert [each.topic for each in await subscriber.messages(2)] == ["a/large", "b/small"]


async def test_retained_messages_of_a_subscription_continue_after_a_lost_connection(broker: RunningBroker) -> None:
    """[4.4.0-1]: what was not sent yet is part of the session, as messages of its queue are."""
    publisher = await broker.connect("publisher", 4)
    for number in range(5):
        await publisher.publish(f"t/{number}", b"kept", retain=True)
    subscriber = await broker.connect_durable("away", properties=mqtt.receive_maximum(2))
    await subscriber.subscribe("t/+", qos=1)
    sent = [await subscriber.message() for _ in range(2)]
    await subscriber.round_trip()
    await subscriber.vanish()
    subscriber = await broker.connect_durable("away", properties=mqtt.receive_maximum(2))
    found = await subscriber.messages(5)
    assert [each.packet_id for each in found[:2]] == [each.packet_id for each in sent]
    assert sorted(each.topic for each in found) == [f"t/{number}" for number in range(5)]
    await subscriber.is_quiet()


async def test_unsubscribing_ends_what_the_subscription_brought(broker: RunningBroker) -> None:
    """[3.10.4-2]."""
    publisher = await broker.connect("publisher", 4)
    for number in range(5):
        await publisher.publish(f"t/{number}", b"kept", retain=True)
    subscriber = await broker.connect(level=5, properties=mqtt.receive_maximum(2))
    await subscriber.subscribe("t/+", qos=1)
    sent = [await subscriber.message() for _ in range(2)]
    assert await subscriber.unsubscribe("t/+") == [0]
    subscriber.acknowledge(*sent)
    await subscriber.is_quiet()


async def test_subscribing_again_gives_up_what_the_subscription_brought_before(broker: RunningBroker) -> None:
    """[3.8.4-3] [3.8.4-8]: also when nothing is retained any more, else it came at the QoS granted then."""
    publisher = await broker.connect("publisher", 4)
    for number in range(3):
        await publisher.publish(f"t/{number}", b"kept", retain=True)
    subscriber = await broker.connect(level=5, properties=mqtt.receive_maximum(1))
    await subscriber.subscribe("t/+", qos=1)
    sent = await subscriber.message()
    for number in range(3):
        await publisher.publish(f"t/{number}", b"", retain=True)
    assert await subscriber.subscribe("t/+", qos=0) == [0]
    subscriber.acknowledge(sent)
    assert [message.payload for message in await subscriber.messages(3)] == [b""] * 3
    await subscriber.is_quiet()
