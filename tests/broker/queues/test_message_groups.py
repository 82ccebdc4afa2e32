"""Message groups end to end: a key stays with one consumer (docs/concepts/partitions.md)."""

import asyncio
from collections import defaultdict

import pytest

import support.mqtt.packets as mqtt
from sluicegate import Client
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import Refused
from sluicegate.messaging.partitions.explain import WaitReason
from sluicegate.protocols.amqp.messages.encode import FIRST_OF_GROUP
from support.amqp.client import AmqpClient
from support.broker.named_queues import change, create, shows
from support.broker.running_broker import RunningBroker
from support.http.client import http_client, poll
from support.mqtt.raw_client import DEADLINE_S, RawClient

USER_PROPERTY = 38
FIRST = ("JMSXGroupFirstForConsumer", "true")


def of_group(key: str, sequence: str = "") -> bytes:
    return mqtt.user_property("JMSXGroupID", key) + (mqtt.user_property("JMSXGroupSeq", sequence) if sequence else b"")


def is_first(message: mqtt.Published) -> bool:
    return FIRST in message.values(USER_PROPERTY)


async def consumer(broker: RunningBroker, name: str, text: str = "$queue/q", *, maximum: int = 100) -> RawClient:
    client = await broker.connect(name, 5, properties=mqtt.receive_maximum(maximum))
    assert await client.subscribe(text, qos=1) == [1]
    return client


@pytest.mark.parametrize("shared", [False, True])
async def test_a_group_has_one_consumer_and_its_order(broker: RunningBroker, shared: bool) -> None:
    """G-01, on a named queue and in a shared subscription: 6 groups of 20, three consumers that settle as they go."""
    await create(broker, access_type="non-exclusive", subscriptions=["t"])
    text = "$share/g/t" if shared else "$queue/q"
    clients = [await consumer(broker, name, text, maximum=4) for name in ("a", "b", "c")]
    publisher = await broker.connect("p", 5)
    for number in range(120):
        await publisher.publish("t", b"%d %d" % (number % 6, number), properties=of_group(f"key-{number % 6}"))
    owners: dict[bytes, set[str]] = defaultdict(set)
    got: dict[bytes, list[int]] = defaultdict(list)
    firsts: list[bytes] = []
    complete = asyncio.Event()

    async def consume(name: str, client: RawClient) -> None:
        while True:
            message = await client.message()
            key, number = message.payload.split()
            owners[key].add(name)
            got[key].append(int(number))
            firsts.extend([key] if is_first(message) else [])
            client.acknowledge(message)
            if sum(map(len, got.values())) == 120:
                complete.set()

    async with asyncio.timeout(2 * DEADLINE_S):
        consuming = [asyncio.ensure_future(consume(*each)) for each in zip("abc", clients, strict=True)]
        await complete.wait()
        for each in consuming:
            each.cancel()
        await asyncio.wait(consuming)
    assert all(numbers == sorted(numbers) for numbers in got.values())
    assert [len(its) for its in owners.values()] == [1] * 6
    assert sorted(firsts) == sorted(got)


async def test_unsettled_messages_of_a_lost_consumer_come_first_to_the_next_owner_of_the_group(
    broker: RunningBroker,
) -> None:
    """G-02."""
    await create(broker, access_type="non-exclusive", subscriptions=["t"])
    lost = await consumer(broker, "a", maximum=2)
    publisher = await broker.connect("p", 5)
    for number in range(4):
        await publisher.publish("t", b"%d" % number, properties=of_group("k"))
    held = [await lost.message(), await lost.message()]
    assert [is_first(message) for message in held] == [True, False]
    other = await consumer(broker, "b")
    await other.is_quiet()
    assert (await NodeOperations(broker.node).explain_key("q", "k")).reason is WaitReason.GROUP_BUSY
    lost.acknowledge(held[0])
    await lost.message()

    await lost.vanish()

    messages = await other.messages(3)
    assert [message.payload for message in messages] == [b"1", b"2", b"3"]
    assert [is_first(message) for message in messages] == [True, False, False]


async def test_a_newcomer_gets_groups_as_they_are_settled(broker: RunningBroker) -> None:
    """G-06: two of four groups move, each when nothing of it is unsettled."""
    await create(broker, access_type="non-exclusive", subscriptions=["t"])
    old = await consumer(broker, "old")
    publisher = await broker.connect("p", 5)
    for number in range(4):
        await publisher.publish("t", b"%d" % number, properties=of_group(f"key-{number}"))
    held = [await old.message() for _ in range(4)]
    new = await consumer(broker, "new")
    for number in range(4):
        await publisher.publish("t", b"%d" % number, properties=of_group(f"key-{number}"))
    stay = [await old.message() for _ in range(2)]
    await old.is_quiet()
    await new.is_quiet()
    for message in held:
        old.acknowledge(message)
    moved = [await new.message() for _ in range(2)]
    assert all(is_first(message) for message in moved)
    assert sorted(message.payload for message in stay + moved) == [b"0", b"1", b"2", b"3"]


async def test_a_negative_sequence_lets_the_group_go_elsewhere(broker: RunningBroker) -> None:
    """G-04: -1 of JMS, as a text of MQTT."""
    await create(broker, access_type="non-exclusive", subscriptions=["t"], group_rebalance=False)
    first = await consumer(broker, "a", maximum=1)
    publisher = await broker.connect("p", 5)
    await publisher.publish("t", b"last", properties=of_group("k", "-1"))
    last = await first.message()
    other = await consumer(broker, "b")
    await publisher.publish("t", b"next", properties=of_group("k"))
    await other.is_quiet()
    await publisher.publish("t", b"busy", properties=of_group("another"))  # the other one's, which has room
    busy = await other.message()
    assert busy.payload == b"busy"
    first.acknowledge(last)
    both = [asyncio.ensure_future(client.message()) for client in (first, other)]
    (done,), (idle,) = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    idle.cancel()
    assert ((await done).payload, is_first(await done)) == (b"next", True)


async def test_an_amqp_consumer_sees_where_a_group_begins(broker: RunningBroker) -> None:
    await create(broker, access_type="non-exclusive", subscriptions=["t"])
    client = await AmqpClient.open(broker.amqp_port, "consumer")
    await client.receiver("r", "queue://q", credit=10)
    publisher = await broker.connect("p", 5)
    for _ in range(2):
        await publisher.publish("t", b"m", properties=of_group("k"))
    first, second = await client.deliveries(2)
    assert FIRST_OF_GROUP in first.message
    assert FIRST_OF_GROUP not in second.message
    await client.close()


async def test_consumers_over_the_flow_protocol_and_http_see_where_a_group_begins(broker: RunningBroker) -> None:
    """Flow: consuming, flag 0x80; a header of a response, and a key of a line."""
    await create(broker, access_type="non-exclusive", subscriptions=["t"])
    publisher = await broker.connect("p", 5)

    async def three_are_published() -> None:
        for _ in range(3):
            await publisher.publish("t", b"m", properties=of_group("k"))

    await three_are_published()
    async with Client(f"flow://127.0.0.1:{broker.flow_port}") as client, client.consumer("q") as flow:
        deliveries = [await flow.receive() for _ in range(3)]
        flow.accept_all(deliveries)
    assert [each.first_of_group for each in deliveries] == [True, False, False]

    await three_are_published()
    async with http_client(broker) as worker:
        first = await worker.get("/QUEUE/q")
        assert first.headers["sluicegate-first-of-group"] == "true"
        second = await worker.get(first.headers["sluicegate-flow"])
        assert (second.status_code, "sluicegate-first-of-group" in second.headers) == (200, False)
        await worker.delete(first.headers["sluicegate-flow"])  # what it holds goes back
        _, lines = await poll(worker, "/QUEUE/q", wait_s=0)
        assert [line["first_of_group"] for line in lines] == [True, False, False]


async def test_without_buckets_anybody_gets_the_messages_of_a_key(broker: RunningBroker) -> None:
    """G-08; and the number of buckets changes while nobody consumes."""
    await create(broker, access_type="non-exclusive", subscriptions=["t"], group_buckets=0)
    clients = [await consumer(broker, name, maximum=1) for name in ("a", "b")]
    publisher = await broker.connect("p", 5)
    for _ in range(2):
        await publisher.publish("t", b"m", properties=of_group("k"))
    held = [await client.message() for client in clients]
    assert not any(is_first(message) for message in held)
    for client, message in zip(clients, held, strict=True):
        client.acknowledge(message)
        await client.round_trip()
    with pytest.raises(Refused, match="group_buckets cannot change while egress is on"):
        await change(broker, group_buckets=8)
    await change(broker, egress_enabled=False)
    await change(broker, group_buckets=8, egress_enabled=True)

    await shows(broker, lambda view: len(view.flows) == 2)
    for _ in range(2):
        await publisher.publish("t", b"m", properties=of_group("k"))
    view = await shows(broker, lambda view: view.unacked_count == 1)
    assert view.ready_count == 1, "its consumer has no room, and the other one does not get it"


async def test_groups_go_on_over_a_restart(broker: RunningBroker) -> None:
    """What lies on disk has its key with it."""
    await create(broker, access_type="non-exclusive", subscriptions=["t"])
    publisher = await broker.connect("p", 5)
    for number in range(12):
        await publisher.publish("t", b"%d" % number, properties=of_group(f"key-{number % 3}"))
    await broker.restart()
    clients = [await consumer(broker, name, maximum=2) for name in ("a", "b")]
    held = [[await client.message(), await client.message()] for client in clients]
    keys = [{message.values(USER_PROPERTY)[0] for message in its} for its in held]
    assert not keys[0] & keys[1]
