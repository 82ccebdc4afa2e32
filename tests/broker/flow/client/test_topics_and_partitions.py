"""The client library: topics, selectors, acknowledged partition handoffs, and queues that it creates."""

import asyncio
from pathlib import Path

import pytest

import sluicegate
from sluicegate import BlockingClient, Client, ClientEvent, Message, PartitionsChanged
from sluicegate.protocols.flow.codec import codes
from sluicegate.testing.ports import free_port
from support.broker.named_queues import create, shows
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S


def url(broker: RunningBroker) -> str:
    return f"flow://127.0.0.1:{broker.flow_port}"


async def test_direct_messages_come_on_topics_that_are_subscribed_to(broker: RunningBroker) -> None:
    """Flow: subscriptions, with a selector; until they are ended."""
    async with Client(url(broker)) as client, client.subscriber() as subscriber:
        await subscriber.subscribe("plant/*/>")
        await subscriber.subscribe("fast/>", selector="speed > 9")
        for topic, speed in (("plant/7/t", 1), ("other", 1), ("fast/1", 9), ("fast/1", 10)):
            await client.publish_direct(Message(b"x", topic=topic, properties=[("speed", speed)]))
        first, second = await subscriber.receive(), await subscriber.receive()
        assert [first.topic, second.topic] == ["plant/7/t", "fast/1"]
        assert second.properties == [("speed", 10)]

        await subscriber.unsubscribe("plant/*/>")
        await client.publish_direct(Message(b"x", topic="plant/7/t"))
        await client.publish_direct(Message(b"last", topic="fast/1", properties=[("speed", 11)]))
        assert [each.payload for each in await subscriber.receive_many(10)] == [b"last"]
        with pytest.raises(RuntimeError, match="one subscriber"):
            await client.subscriber().__aenter__()
    with pytest.raises(sluicegate.ClientClosed):
        await subscriber.receive()


async def test_a_subscription_that_is_refused_is_none(broker: RunningBroker) -> None:
    """Flow: subscriptions, errors."""
    async with Client(url(broker)) as client, client.subscriber() as subscriber:
        with pytest.raises(sluicegate.RequestRefused) as refused:
            await subscriber.subscribe("t", selector="speed >")
        assert refused.value.code == codes.REQUEST_INVALID
        await subscriber.unsubscribe("t")


async def test_messages_that_are_not_taken_in_time_are_dropped_and_counted(broker: RunningBroker) -> None:
    """Flow: subscriptions: at most once. The bound is one of bytes."""
    async with Client(url(broker)) as client, client.subscriber(waiting_bytes_max=2_500) as subscriber:
        await subscriber.subscribe("t")
        for number in range(5):
            await client.publish_direct(Message(str(number).encode().ljust(1_000), topic="t"))
        async with asyncio.timeout(DEADLINE_S):
            while subscriber.dropped_count < 3:
                await asyncio.sleep(0.01)
        assert [int(each.payload) for each in await subscriber.receive_many(10)] == [0, 1]


async def test_subscriptions_come_back_with_the_connection(tmp_path: Path) -> None:
    """Flow: subscriptions last as long as a connection; the client asks for them again."""
    settings = (f"listeners.flow.port={free_port()}",)
    async with RunningBroker(tmp_path / "data", settings) as broker:
        events: asyncio.Queue[ClientEvent] = asyncio.Queue()
        client = Client(url(broker), on_event=events.put_nowait)
        async with client, client.subscriber() as subscriber:
            await subscriber.subscribe("t/>")
            await broker.restart()
            while not isinstance(await events.get(), sluicegate.Disconnected):
                pass
            while not isinstance(await events.get(), sluicegate.Connected):
                pass
            await subscriber.subscribe("u")  # answered behind those that were said again
            await client.publish_direct(Message(b"x", topic="t/1"))
            assert (await subscriber.receive()).topic == "t/1"


async def test_a_program_without_asyncio_subscribes(broker: RunningBroker) -> None:
    """Flow: subscriptions."""

    def program(address: str) -> None:
        with BlockingClient(address) as client, client.subscriber() as subscriber:
            subscriber.subscribe("t")
            for _ in range(4):
                client.publish_direct(Message(b"x", topic="t"))
            assert subscriber.receive().topic == "t"
            assert next(subscriber).payload == b"x"
            rest = subscriber.receive_many(1, timeout_s=DEADLINE_S) + subscriber.receive_many(1, timeout_s=DEADLINE_S)
            assert len(rest) == 2
            subscriber.unsubscribe("t")
            assert subscriber.dropped_count == 0

    await asyncio.to_thread(program, url(broker))


async def test_a_consumer_gets_what_it_selects(broker: RunningBroker) -> None:
    """Flow: consuming, BIND with a selector."""
    await create(broker)
    async with Client(url(broker)) as client:
        async with client.publisher() as publisher:
            await publisher.send_all(Message(b"x", queue="q", properties=[("n", n)]) for n in range(6))
        async with client.consumer("q", selector="n > 3") as consumer:
            deliveries = [await consumer.receive() for _ in range(2)]
            assert [each.properties for each in deliveries] == [[("n", 4)], [("n", 5)]]
            consumer.accept_all(deliveries)
            await shows(broker, lambda view: view.ready_count == 4 and view.unacked_count == 0)


async def test_a_partition_changes_hands_when_the_program_has_let_go(broker: RunningBroker) -> None:
    """Flow: partitions. What was fetched and not taken goes back by itself; the rest is the program's to settle."""
    await create(
        broker,
        access_type="non-exclusive",
        partition_count=2,
        partition_rebalance_delay_s=0,
        partition_rebalance_max_handoff_time_s=3_600,
    )
    events: asyncio.Queue[ClientEvent] = asyncio.Queue()
    async with (
        asyncio.timeout(2 * DEADLINE_S),
        Client(url(broker), on_event=events.put_nowait) as client,
        Client(url(broker)) as other,
        client.publisher() as publisher,
        client.consumer("q", acknowledges_partitions=True) as consumer,
    ):
        await publisher.send_all(Message(str(n).encode(), queue="q", key=f"k{n % 10}") for n in range(60))
        await publisher.flush()
        taken = await consumer.receive_many(10)
        async with other.consumer("q") as second:
            while True:
                event = await events.get()
                if isinstance(event, PartitionsChanged) and any(each.state for each in event.partitions):
                    break
            (gone,) = [each.partition for each in consumer.partitions if each.state]
            for delivery in taken:
                delivery.accept()
            assert not second.is_active, "the program has not let go"
            consumer.acknowledge_partitions()
            got = [await second.receive()]
            assert {each.partition for each in got} == {gone}
            assert not {each.payload for each in got} & {each.payload for each in taken}, "what was settled is gone"
            kept = await consumer.receive_many(100)
            assert gone not in {each.partition for each in kept}


async def test_a_program_makes_changes_and_deletes_queues(broker: RunningBroker) -> None:
    """Flow: provisioning."""
    async with Client(url(broker)) as client:
        made = await client.queues.create("mine", {"subscriptions": ["t/>"], "permission": "delete"})
        assert (made.name, made.attributes["subscriptions"]) == ("mine", ["t/>"])
        changed = await client.queues.change("mine", {"max_redelivery_count": 3})
        assert changed.attributes["max_redelivery_count"] == 3
        async with client.publisher() as publisher:
            await publisher.publish(Message(b"x", topic="t/1"))
        await shows(broker, lambda view: view.ready_count == 1, "mine")
        await client.queues.delete("mine")
        with pytest.raises(sluicegate.RequestRefused) as refused:
            await client.queues.delete("mine")
        assert refused.value.code == codes.NOT_FOUND

        temporary = await client.queues.create(durable=False)
        async with client.consumer(temporary.name) as consumer, client.publisher() as publisher:
            await publisher.publish(Message(b"x", queue=temporary.name))
            (await consumer.receive()).accept()

    def program(address: str) -> None:
        with BlockingClient(address) as blocking:
            assert blocking.queues.create("other", {"permission": "delete"}, durable=True).name == "other"
            assert blocking.queues.change("other", {"max_redelivery_count": 4}).attributes["max_redelivery_count"] == 4
            blocking.queues.delete("other")

    await asyncio.to_thread(program, url(broker))
