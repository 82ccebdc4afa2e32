"""Publishing and consuming with the client library, and the errors of each."""

import asyncio

import pytest

import sluicegate
import support.mqtt.packets as mqtt
from sluicegate import Client, Consumer, Delivery, Message
from sluicegate.messaging.message.headers import USER_PROPERTIES_MAX
from sluicegate.protocols.flow.codec import codes
from support.broker.named_queues import create, shows
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S


def url(broker: RunningBroker) -> str:
    return f"flow://127.0.0.1:{broker.flow_port}"


async def received(client: Client, count: int, queue: str = "q") -> list[Delivery]:
    """Return the next messages of a queue, accepted."""
    deliveries: list[Delivery] = []
    async with client.consumer(queue) as consumer:
        while len(deliveries) < count:
            deliveries += await consumer.receive_many(count - len(deliveries))
        consumer.accept_all(deliveries)
    return deliveries


async def becomes_active(consumer: Consumer) -> None:
    while not consumer.is_active:
        await asyncio.sleep(0.01)


async def test_a_message_is_received_with_all_properties_that_were_published(broker: RunningBroker) -> None:
    """Flow: publishing, properties; consuming."""
    await create(broker)
    async with Client(url(broker)) as client:
        async with client.publisher() as publisher:
            await publisher.publish(
                Message(
                    b"payload",
                    queue="q",
                    key="k-1",
                    priority=7,
                    ttl_ms=3_600_000,
                    message_id="m-1",
                    correlation=b"c-1",
                    reply_to="#q/answers",
                    content_type="text/plain",
                    timestamp_ms=1_700_000_000_000,
                    is_text=True,
                    dmq_eligible=True,
                    properties=[("n", 1), ("t", "x"), ("b", b"y"), ("none", None), ("n", 2.5)],
                )
            )
        (delivery,) = await received(client, 1)

    assert (delivery.payload, delivery.topic, delivery.key, delivery.priority) == (b"payload", "$queue/q", "k-1", 7)
    assert (delivery.message_id, delivery.correlation, delivery.reply_to) == ("m-1", b"c-1", "#q/answers")
    assert (delivery.content_type, delivery.timestamp_ms, delivery.is_text) == ("text/plain", 1_700_000_000_000, True)
    assert delivery.properties == [("n", 1), ("t", "x"), ("b", b"y"), ("none", None), ("n", 2.5)]
    assert (delivery.partition, delivery.sequence, delivery.delivery_count, delivery.redelivered) == (0, 1, 1, False)
    assert 0 < delivery.expires_at_ms - delivery.received_ms < 4_000_000


async def test_a_message_of_another_protocol_may_have_more_properties_than_one_of_the_flow_protocol(
    broker: RunningBroker,
) -> None:
    """Flow: publishing, properties. Taken for malformed, it ended one client after the other for good."""
    await create(broker, subscriptions=["t"])
    device = await broker.connect(level=5)
    properties = b"".join(mqtt.user_property(str(number), "x") for number in range(USER_PROPERTIES_MAX))
    await device.publish("t", properties=properties + mqtt.content_type("a/b"))
    async with Client(url(broker)) as client:
        async with asyncio.timeout(DEADLINE_S):
            (delivery,) = await received(client, 1)
    assert [name for name, _ in delivery.properties] == [str(number) for number in range(USER_PROPERTIES_MAX)]
    assert delivery.content_type == "a/b"


async def test_messages_sent_ahead_are_stored_in_their_order(broker: RunningBroker) -> None:
    """Flow: publishing. The window is less than there is to send, so `send` waits for room."""
    await create(broker)
    async with Client(url(broker)) as client:
        async with client.publisher(window=7) as publisher:
            sequences = [await publisher.send(Message(str(n).encode(), queue="q")) for n in range(300)]
            await publisher.flush()
            assert publisher.unanswered_count == 0
        assert sequences == list(range(1, 301))
        assert [each.payload for each in await received(client, 300)] == [str(n).encode() for n in range(300)]
    await shows(broker, lambda view: view.ready_count == 0 and view.unacked_count == 0)


async def test_publishers_in_many_tasks_share_a_window(broker: RunningBroker) -> None:
    """Flow: publishing. Each `publish` returns when its own message is stored."""
    await create(broker)
    async with Client(url(broker)) as client:
        async with client.publisher(window=5) as publisher:
            published = [publisher.publish(Message(b"x", queue="q")) for _ in range(100)]
            assert sorted(await asyncio.gather(*published)) == list(range(1, 101))
        await shows(broker, lambda view: view.ready_count == 100)


async def test_direct_messages_reach_subscribers(broker: RunningBroker) -> None:
    """Flow: publishing, direct messages: promoted by a queue that subscribes to the topic."""
    await create(broker, subscriptions=["t/#"])
    async with Client(url(broker)) as client:
        for number in range(20):
            await client.publish_direct(Message(str(number).encode(), topic="t/1"))
        deliveries = await received(client, 20)
    assert [each.payload for each in deliveries] == [str(number).encode() for number in range(20)]
    assert all(each.was_direct and each.topic == "t/1" for each in deliveries)


async def test_a_refusal_names_its_message_and_the_others_are_stored(broker: RunningBroker) -> None:
    """Flow: publishing, PUB_ACK. One refused message holds up nobody."""
    await create(broker)
    async with Client(url(broker)) as client, client.publisher() as publisher:
        with pytest.raises(sluicegate.PublishRefused, match="queue not found") as refused:
            await publisher.publish(Message(b"x", queue="nowhere"))
        assert (refused.value.code, refused.value.sequences) == (codes.QUEUE_NOT_FOUND, [1])

        for queue in ("q", "nowhere", "q", "nowhere"):
            await publisher.send(Message(b"x", queue=queue))
        with pytest.raises(sluicegate.PublishRefused) as refused:
            await publisher.flush()
        assert (refused.value.sequences, refused.value.count) == ([3, 5], 2)
        await publisher.flush()  # they were named once
        await shows(broker, lambda view: view.ready_count == 2)


@pytest.mark.settings("flow.max_frame_size=4096")
async def test_a_message_that_no_frame_holds_is_not_sent(broker: RunningBroker) -> None:
    """Flow: frames, WELCOME's limit."""
    await create(broker)
    async with Client(url(broker)) as client, client.publisher() as publisher:
        with pytest.raises(sluicegate.MessageTooLarge, match="4096"):
            await publisher.publish(Message(bytes(4096), queue="q"))
        await publisher.publish(Message(bytes(4000), queue="q"))


async def test_every_outcome_does_what_it_says(broker: RunningBroker) -> None:
    """Flow: consuming, outcomes."""
    await create(broker, "dead")
    await create(broker, dead_msg_queue="dead")
    async with Client(url(broker)) as client:
        async with client.publisher() as publisher:
            await publisher.send_all(Message(each, queue="q") for each in (b"1", b"2", b"3", b"4", b"5"))
        async with client.consumer("q") as consumer:
            first, second, third, fourth, fifth = [await consumer.receive() for _ in range(5)]
            first.accept()
            second.release()
            third.fail()
            fourth.reject()
            fifth.extend()
            again = [await consumer.receive() for _ in range(2)]
            assert sorted((each.payload, each.delivery_count) for each in again) == [(b"2", 1), (b"3", 2)]
            assert consumer.held_count == 3
            consumer.accept_all([fifth, *again])
            first.accept()  # settled already
            assert consumer.settled_too_late_count == 1
            await shows(broker, lambda view: view.ready_count == 0 and view.unacked_count == 0)
        (dead,) = await received(client, 1, "dead")
    assert dead.payload == b"4"
    assert ("sluicegate-dead-reason", "rejected") in dead.properties


async def test_a_consumer_fetches_no_more_than_its_window(broker: RunningBroker) -> None:
    """Flow: consuming, credit. Taking what is here brings more; settling alone does not."""
    await create(broker)
    async with Client(url(broker)) as client:
        async with client.publisher() as publisher:
            await publisher.send_all(Message(b"x", queue="q") for _ in range(50))
        async with client.consumer("q", window=10) as consumer:
            await shows(broker, lambda view: view.unacked_count == 10)
            taken = await consumer.receive_many(5)
            await shows(broker, lambda view: view.unacked_count == 15)
            consumer.accept_all(taken)
            await shows(broker, lambda view: view.unacked_count == 10)
        await shows(broker, lambda view: view.ready_count == 45)


async def test_a_consumer_fetches_few_messages_when_they_are_large(broker: RunningBroker) -> None:
    """Flow: consuming, credit: taken back when too many bytes lie unread, and given again when there is room."""
    await create(broker)
    async with Client(url(broker)) as client:
        async with client.publisher() as publisher:
            await publisher.send_all(Message(bytes(100_000), queue="q") for _ in range(60))
        async with client.consumer("q", window_bytes=300_000) as consumer:
            for _ in range(60):
                delivery = await consumer.receive()
                delivery.accept()
            await shows(broker, lambda view: view.ready_count == 0 and view.unacked_count == 0)


async def test_a_consumer_holds_no_more_than_it_wants(broker: RunningBroker) -> None:
    """Flow: consuming, unsettled messages."""
    await create(broker)
    async with Client(url(broker)) as client:
        async with client.publisher() as publisher:
            await publisher.send_all(Message(b"x", queue="q") for _ in range(9))
        async with client.consumer("q", unsettled_max=4) as consumer:
            held = [await consumer.receive() for _ in range(4)]
            held[2].accept()
            await consumer.receive()
            assert consumer.held_count == 4


async def test_a_consumer_learns_whether_it_is_active(broker: RunningBroker) -> None:
    """Flow: consuming, states. An exclusive queue has one active flow; the next takes over when it leaves."""
    await create(broker)
    events: list[sluicegate.ClientEvent] = []
    async with (
        asyncio.timeout(DEADLINE_S),
        Client(url(broker)) as first,
        Client(url(broker), on_event=events.append) as second,
        first.consumer("q") as active,
        second.consumer("q") as standby,
    ):
        await becomes_active(active)
        assert not standby.is_active
        await active.close()
        await becomes_active(standby)
    assert sluicegate.FlowActivated("q") in events


@pytest.mark.parametrize(("queue", "code"), [("nobody", codes.NOT_FOUND), ("closed", codes.PERMISSION_DENIED)])
async def test_a_consumer_that_is_refused_says_why(broker: RunningBroker, queue: str, code: int) -> None:
    """Flow: consuming, BIND. The client goes on."""
    await create(broker, "closed", permission="no-access")
    await create(broker)
    async with Client(url(broker)) as client:
        with pytest.raises(sluicegate.RequestRefused) as refused:
            async with client.consumer(queue):
                raise AssertionError("it was bound")
        assert (refused.value.code, refused.value.retry_after_ms) == (code, None)
        async with client.consumer("q"):
            pass


async def test_opening_a_publisher_of_the_same_name_fences_the_first_one(broker: RunningBroker) -> None:
    """Flow: publishing, named publishers: the first is fenced, and everybody who waits on it hears so."""
    await create(broker)
    async with Client(url(broker)) as first, Client(url(broker)) as second:
        async with first.publisher("till") as old:
            await old.publish(Message(b"1", queue="q"))
            async with second.publisher("till") as new:
                assert await new.publish(Message(b"2", queue="q")) == 2
                with pytest.raises(sluicegate.PublisherEnded) as ended:
                    await old.publish(Message(b"3", queue="q"))
                assert ended.value.code == codes.FENCED
        assert [each.payload for each in await received(first, 2)] == [b"1", b"2"]


async def test_a_program_that_numbers_its_messages_stores_none_twice(broker: RunningBroker) -> None:
    """Flow: publishing, named publishers: what was stored under a sequence is answered, and goes nowhere."""
    await create(broker)
    async with Client(url(broker)) as client:
        async with client.publisher("till") as publisher:
            for sequence in (1, 2, 5):
                await publisher.publish(Message(str(sequence).encode(), queue="q"), sequence=sequence)
            with pytest.raises(ValueError, match="ascend"):
                await publisher.publish(Message(b"x", queue="q"), sequence=5)
            with pytest.raises(ValueError, match="window"):
                await publisher.publish(Message(b"x", queue="q"), sequence=100_000)
        async with client.publisher("till") as publisher:
            for sequence in range(publisher.stored_through + 1, 8):
                await publisher.publish(Message(str(sequence).encode(), queue="q"), sequence=sequence)
        assert [each.payload for each in await received(client, 5)] == [b"1", b"2", b"5", b"6", b"7"]


async def test_everything_ends_with_its_client(broker: RunningBroker) -> None:
    """A program that waits hears that its client was closed, and `async for` comes to its end."""
    await create(broker)
    client = Client(url(broker))
    async with client:
        publisher = await client.publisher().__aenter__()
        consumer = await client.consumer("q").__aenter__()

        async def all_of_them() -> list[Delivery]:
            return [each async for each in consumer]

        reading = asyncio.create_task(all_of_them())
    assert await reading == []
    with pytest.raises(sluicegate.ClientClosed):
        await publisher.publish(Message(b"x", queue="q"))
    with pytest.raises(sluicegate.ClientClosed):
        await client.publish_direct(Message(b"x", topic="t"))
